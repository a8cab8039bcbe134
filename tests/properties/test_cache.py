"""Decoding step by step gives what one forward gives, for every kind of model and however many tokens a step brings.

Tolerances: a step sums in another order than a forward of the whole; logits are of size one. 1e-5 in float32, 1e-12 in
float64.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard.nn.attention
from properties.specs import NORMS, POSITIONS, TIES, random_ids, random_model, small
from regard.models import DecoderState, Transformer
from regard.nn import KeyValueCache

TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}
SOURCE_LENGTHS = [7, 2, 5]
SOURCE = random_ids(SOURCE_LENGTHS, seed=1)
TARGET = random_ids([17, 17, 17], seed=2)


def fed(model: Transformer, state: DecoderState, target: Tensor, sizes: list[int]) -> Tensor:
    """Return the logits of all tokens, fed in pieces of these sizes."""
    pieces = []
    for piece in target.split(sizes, dim=1):
        hidden, state = model.step_hidden(piece, state)
        pieces.append(model.output(hidden))
    return torch.cat(pieces, dim=1)


@torch.no_grad()
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_cached_is_recomputed(positions: str, norm: str, tie: str, dtype: torch.dtype) -> None:
    model = random_model(small(positions, norm, tie), dtype)
    expected = model(SOURCE, TARGET)
    for chunk in (1, 3, 7):
        sizes = [chunk] * (17 // chunk) + ([17 % chunk] if 17 % chunk else [])
        state = model.start(SOURCE, torch.tensor(SOURCE_LENGTHS))
        torch.testing.assert_close(
            fed(model, state, TARGET, sizes), expected, rtol=0, atol=TOLERANCES[dtype], msg=f"chunks of {chunk}"
        )


@given(st.lists(st.integers(1, 23), min_size=1, max_size=5), st.sampled_from(sorted(POSITIONS)), st.integers(1, 5))
@settings(max_examples=30, derandomize=True)
@torch.no_grad()
def test_any_pieces_and_any_capacity(sizes: list[int], positions: str, capacity: int) -> None:
    """Past 32 keys the fused kernel takes over in the middle of a sentence; the store grows when it is full."""
    total = sum(sizes)
    model = random_model(small(positions, max_len=127))
    target = random_ids([total] * 3, seed=3)
    state = model.start(SOURCE, torch.tensor(SOURCE_LENGTHS))
    for index in range(len(state.caches)):
        state.caches[index] = KeyValueCache(capacity)
    torch.testing.assert_close(fed(model, state, target, sizes), model(SOURCE, target), rtol=0, atol=1e-12)
    assert state.length == total == list(accumulate(sizes))[-1]


@torch.no_grad()
@pytest.mark.parametrize("positions", POSITIONS)
def test_reordered_rows_take_their_past_and_their_source_along(positions: str) -> None:
    """Beam search in small: after each piece rows change places, are repeated and left out."""
    model = random_model(small(positions))
    state = model.start(SOURCE, torch.tensor(SOURCE_LENGTHS))
    sentence, past = torch.arange(3), torch.empty(3, 0, dtype=torch.long)
    for step, rows in enumerate([[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [5, 3], [1, 1, 0], [2, 0, 1]]):
        tokens = random_ids([3] * len(sentence), seed=step)
        hidden, state = model.step_hidden(tokens, state)
        past = torch.cat([past, tokens], dim=1)
        expected = model(SOURCE[sentence], past)[:, -3:]
        torch.testing.assert_close(model.output(hidden), expected, rtol=0, atol=1e-12)
        chosen = torch.tensor(rows)
        state, sentence, past = model.reorder(state, chosen), sentence[chosen], past[chosen]


@torch.no_grad()
@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_rows_with_prefixes_of_their_own_lengths(positions: str, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes are padded on the right; each row goes on where its own prefix ends, and leftovers are never read."""
    monkeypatch.setattr(regard.nn.attention, "SHORT", short)
    model = random_model(small(positions))
    prefix_lengths = [5, 1, 3]
    prefix, rest = random_ids(prefix_lengths, seed=4), random_ids([7, 7, 7], seed=5)
    state = model.start(SOURCE, torch.tensor(SOURCE_LENGTHS))
    _, state = model.step_hidden(prefix, state)
    for cache in state.caches:
        cache.length = torch.tensor(prefix_lengths)
    logits = fed(model, state, rest, [1, 3, 1, 2])
    for row, length in enumerate(prefix_lengths):
        alone = torch.cat([prefix[row : row + 1, :length], rest[row : row + 1]], dim=1)
        expected = model(SOURCE[row : row + 1], alone)[:, length:]
        torch.testing.assert_close(logits[row : row + 1], expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_forks_go_their_own_ways() -> None:
    model = random_model(small())
    target, other = TARGET[:, :11], TARGET.clone()[:, :11]
    other[:, 5:] = random_ids([6, 6, 6], seed=6)
    state = model.start(SOURCE, torch.tensor(SOURCE_LENGTHS))
    _, state = model.step_hidden(target[:, :5], state)
    fork = state.fork()
    for tokens, owner in ((target, state), (other, fork)):
        logits = fed(model, owner, tokens[:, 5:], [1, 5])
        torch.testing.assert_close(logits, model(SOURCE, tokens)[:, 5:], rtol=0, atol=1e-12)
