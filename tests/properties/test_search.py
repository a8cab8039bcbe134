"""Searching a real model: cached or recomputed, alone or with any mates, the same is found and can be found again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.generation import Hypothesis, SearchOptions, force, generate, generate_all
from regard.models import Dropout, Rotary, Transformer, TransformerSpec, build
from regard.protocols import EOS, Step

VOCAB = 23


def model(positions: Any = None, seed: int = 7) -> Transformer:
    torch.manual_seed(seed)
    spec = TransformerSpec(
        VOCAB,
        VOCAB,
        d_model=16,
        num_heads=2,
        d_ff=19,
        encoder_layers=2,
        decoder_layers=2,
        max_len=41,
        dropout=Dropout(0.0, 0.0, 0.0, 0.0),
        **({} if positions is None else {"positions": positions}),
    )
    made = build(spec).eval()
    with torch.no_grad():  # random weights say nearly the same everywhere: make them say something
        made.output.weight *= 4.0
        made.output.bias[EOS] = 4.0
    return made


@dataclass(frozen=True)
class Words:
    """All that a decoder without a cache remembers."""

    source: Tensor
    lengths: Tensor | None
    target: Tensor


class Recomputing:
    """The slow twin: every step reads the whole prefix again."""

    def __init__(self, inner: Transformer) -> None:
        self.inner = inner

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> Words:
        return Words(source, source_lengths, source.new_zeros(len(source), 0))

    def step(self, tokens: Tensor, state: Words) -> Step:
        target = torch.cat([state.target, tokens[:, None]], dim=1)
        logits = self.inner(state.source, target, source_lengths=state.lengths)[:, -1]
        return Step(logits, Words(state.source, state.lengths, target))

    def reorder(self, state: Words, rows: Tensor) -> Words:
        return Words(state.source[rows], None if state.lengths is None else state.lengths[rows], state.target[rows])


def sources(count: int, seed: int = 3) -> list[list[int]]:
    draw = random.Random(seed)
    return [[*(draw.randrange(4, VOCAB) for _ in range(draw.randint(1, 11))), EOS] for _ in range(count)]


def assert_same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    """The same lists, scores within 1e-5; where ids differ, the two must be a near-tie: nearer than 1e-4."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if one.ids == other.ids:
            assert abs(one.score - other.score) <= 1e-5
        else:
            assert abs(one.score - other.score) < 1e-4, "not a near-tie"


@pytest.mark.parametrize("positions", [None, Rotary()])
@pytest.mark.parametrize("beam", [1, 5])
def test_cached_is_recomputed(positions: Any, beam: int) -> None:
    inner = model(positions)
    options = SearchOptions(beam=beam, nbest=beam, max_length=13, no_repeat=1)
    texts = sources(11)
    cached = generate_all(inner, texts, options, batch_tokens=200)
    for ours, theirs in zip(cached, generate_all(Recomputing(inner), texts, options, batch_tokens=200), strict=True):
        assert_same(ours, theirs)
    assert len({len(found[0].ids) for found in cached}) > 1  # they finish at different times


def in_batchings(num_sentences: int, num_batchings: int, beam: int) -> None:
    inner, texts = model(), sources(num_sentences)
    options = SearchOptions(beam=beam, nbest=beam, max_length=13)
    alone = [generate(inner, torch.tensor([text]), None, options)[0] for text in texts]
    draw = random.Random(5)
    for _ in range(num_batchings):
        order = list(range(num_sentences))
        draw.shuffle(order)
        while order:
            size, extra = draw.randint(1, 64), draw.randint(0, 5)
            rows, order = order[:size], order[size:]
            lengths = torch.tensor([len(texts[row]) for row in rows])
            source = torch.zeros(len(rows), int(lengths.max()) + extra, dtype=torch.int64)
            for place, row in enumerate(rows):
                source[place, : len(texts[row])] = torch.tensor(texts[row])
            for row, found in zip(rows, generate(inner, source, lengths, options), strict=True):
                assert_same(found, alone[row])


@pytest.mark.parametrize("beam", [1, 5])
def test_mates_and_padding_change_nothing(beam: int) -> None:
    in_batchings(13, 2, beam)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("beam", [1, 5])
def test_1000_sentences_in_20_batchings(beam: int) -> None:
    in_batchings(1000, 20, beam)


@pytest.mark.parametrize("batch_tokens", [1, 64, 4096])
def test_reported_scores_are_the_forced_ones(batch_tokens: int) -> None:
    inner, texts = model(), sources(11, seed=11)
    options = SearchOptions(beam=5, nbest=5, max_length=9)
    for text, found in zip(texts, generate_all(inner, texts, options, batch_tokens=batch_tokens), strict=True):
        again = force(
            inner,
            torch.tensor([text] * len(found)),
            [one.ids for one in found],
            None,
            options,
            finished=[one.finished for one in found],
        )
        for one, forced in zip(found, again, strict=True):
            assert one.token_log_probs == pytest.approx(forced.hypothesis.token_log_probs, abs=1e-5)
            assert one.score == pytest.approx(forced.hypothesis.score, abs=1e-5)
            assert max(one.token_log_probs) <= 0
