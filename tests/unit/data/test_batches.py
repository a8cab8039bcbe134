"""Batches: every example once an epoch, within the budget, in an order that nothing but seed and epoch can change."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import ByteTokenizer, EncodedCorpus, NoiseOptions, PairBatch, RawCorpus, TokenBatches
from regard.data.batches import _by_lengths, _cut
from regard.data.columns import Columns
from regard.errors import DataError, RecipeError
from regard.protocols import Batch, BatchSource

LENGTHS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60)


def corpus_of(lengths: list[tuple[int, int]], weights: dict[float, int] | None = None) -> EncodedCorpus:
    """A corpus in memory whose pairs have these lengths; ``weights`` says how many pairs each weight has, in order."""
    weights = weights or {1.0: len(lengths)}
    nothing = np.zeros(len(lengths), dtype=np.uint64)
    part = np.repeat(np.arange(len(weights)), list(weights.values())).astype(np.uint16)
    text = {"part": part, "tag": nothing, "source_hash": nothing, "pair_hash": nothing}
    raw = RawCorpus(Columns(Path("text"), text, {"tags": []}), "key", list(weights))
    sides = {}
    for side, counts in zip(("source", "target"), zip(*lengths, strict=True), strict=True):
        offsets = np.concatenate([[0], np.cumsum(counts)])
        sides |= {side: (np.arange(offsets[-1]) % 251 + 4).astype(np.uint16), f"{side}_offsets": offsets}
    columns = Columns(
        Path("ids"),
        sides | {"rows": np.arange(len(lengths))},
        {"report": {}, "max_source_length": 9999, "max_target_length": 9999},
    )
    return EncodedCorpus(columns, raw, ByteTokenizer(), ByteTokenizer())


def captions(count: int, seed: int = 1) -> list[tuple[int, int]]:
    """Lengths as of captions: about 13 tokens, sides alike."""
    draw = random.Random(seed)
    sources = [max(1, round(draw.lognormvariate(2.5, 0.35))) for _ in range(count)]
    return [(s, max(1, round(s * draw.uniform(0.8, 1.3)))) for s in sources]


def ids(batches: list[PairBatch]) -> list[tuple[int, ...]]:
    return [batch.example_ids for batch in batches]


def same(one: list[PairBatch], other: list[PairBatch]) -> bool:
    return ids(one) == ids(other) and all(
        torch.equal(getattr(a, part), getattr(b, part))
        for a, b in zip(one, other, strict=True)
        for part in ("source", "target_in", "target_out")
    )


@given(LENGTHS, st.integers(13, 99), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 3), st.booleans())
def test_every_example_once_within_the_budget(
    lengths: list[tuple[int, int]], max_tokens: int, max_sentences: int | None, epoch: int, shuffle: bool
) -> None:
    source = TokenBatches(corpus_of(lengths), max_tokens=max_tokens, max_sentences=max_sentences, shuffle=shuffle)
    batches = list(source.epoch(epoch))
    assert sorted(chain.from_iterable(ids(batches))) == list(range(len(lengths)))
    assert len(batches) == source.num_batches(epoch)
    for batch in batches:
        rows, source_width = batch.source.shape
        assert rows * max(source_width, batch.target_in.shape[1]) <= max_tokens
        assert max_sentences is None or rows <= max_sentences
        assert batch.num_target_tokens == sum(lengths[i][1] + 1 for i in batch.example_ids)
    for skip in (0, 1, len(batches) // 2, len(batches), len(batches) + 1):
        assert ids(list(source.epoch(epoch, skip=skip))) == ids(batches)[skip:]


@settings(max_examples=30)  # each makes an epoch six times
@given(LENGTHS, st.integers(1, 5), st.integers(1, 4), st.sampled_from([1, 9]))
def test_processes_divide_the_batches_of_one(
    lengths: list[tuple[int, int]], ranks: int, together: int, most: int
) -> None:
    corpus = corpus_of(lengths)

    def made(rank: int, ranks: int) -> list[tuple[int, ...]]:
        source = TokenBatches(
            corpus, max_tokens=30, max_sentences=most, share=(rank, ranks), together=together if ranks > 1 else 1
        )
        return ids(list(source.epoch(2)))

    whole, shares = made(0, 1), [made(rank, ranks) for rank in range(ranks)]
    for index, batch in enumerate(whole):
        assert tuple(chain.from_iterable(share[index] for share in shares)) == batch
    for first in range(0, len(whole), together):
        group = whole[first : first + together]
        if len(group) % ranks == 0:
            for share in shares:
                assert [rows for rows in share[first : first + together] if rows] == [
                    batch for batch, rows in zip(group, share[first:], strict=False) if rows
                ], "whole batches where their number allows"


def test_three_batches_of_two_processes_by_hand() -> None:
    corpus = corpus_of([(3, 3)] * 12)
    shares = [TokenBatches(corpus, max_tokens=16, share=(rank, 2), together=3) for rank in range(2)]
    assert [[len(batch.example_ids) for batch in share.epoch(0)] for share in shares] == [[4, 2, 0], [0, 2, 4]]
    empty = list(shares[0].epoch(0))[2]
    assert (empty.num_target_tokens, empty.source.shape, empty.source_lengths) == (0, (0, 1), None)
    assert [len(batch.example_ids) for batch in shares[1].epoch(0, skip=2)] == [4]


def test_a_share_has_the_noise_of_the_whole() -> None:
    corpus = corpus_of(captions(101))
    noise = NoiseOptions(source_word_dropout=0.3, target_word_dropout=0.2)
    whole = list(TokenBatches(corpus, max_tokens=211, noise=noise).epoch(1))
    for rank in range(3):
        for batch, rows in zip(
            whole, TokenBatches(corpus, max_tokens=211, noise=noise, share=(rank, 3)).epoch(1), strict=True
        ):
            here = [batch.example_ids.index(example) for example in rows.example_ids]
            for part in ("source", "target_in", "target_out"):
                mine = getattr(rows, part)
                assert torch.equal(mine, getattr(batch, part)[here, : mine.shape[1]])


def test_order_depends_on_seed_and_epoch() -> None:
    corpus = corpus_of(captions(307))

    def made(seed: int, epoch: int) -> list[PairBatch]:
        return list(TokenBatches(corpus, max_tokens=211, seed=seed).epoch(epoch))

    orders = {(seed, epoch): ids(made(seed, epoch)) for seed in (1, 2) for epoch in (0, 1, 2)}
    assert len({tuple(order) for order in orders.values()}) == 6
    assert len({frozenset(order) for order in orders.values()}) == 6  # other batches, not only another order of them
    assert all(ids(made(*key)) == order for key, order in orders.items())
    source = TokenBatches(corpus, max_tokens=211, seed=1)
    for epoch in (2, 0, 1, 0):  # whatever was asked before
        assert ids(list(source.epoch(epoch))) == orders[1, epoch]


def test_batches_for_validation_are_the_same_each_epoch() -> None:
    source = TokenBatches(corpus_of(captions(307), {0.5: 300, 3.0: 7}), max_tokens=211, shuffle=False)
    assert same(list(source.epoch(0)), list(source.epoch(5)))
    assert len(list(chain.from_iterable(ids(list(source.epoch(0)))))) == 307


def test_little_is_padding_and_little_budget_is_wasted() -> None:
    corpus = corpus_of(captions(5003))
    batches = list(TokenBatches(corpus, max_tokens=2039).epoch(0))
    source_padding = sum(int((batch.source == 0).sum()) for batch in batches) / sum(b.source.numel() for b in batches)
    target_padding = sum(int((batch.target_out == 0).sum()) for batch in batches) / sum(
        b.target_out.numel() for b in batches
    )
    # the limits are a little above what was measured, 12 % and 1.4 %; shuffled and not sorted, both are over 50 %
    assert source_padding < 0.14
    assert target_padding < 0.03
    used = sum(max(batch.source.numel(), batch.target_out.numel()) for batch in batches) / len(batches)
    assert used > 0.93 * 2039


@pytest.mark.parametrize("longest", [7, 60, 300])  # in one number of 16 bits, nearly so, and not
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_the_order_is_that_of_two_keys(longest: int, dtype: type[np.unsignedinteger[Any]]) -> None:
    draw = np.random.default_rng(3)
    source, target = (draw.integers(1, longest + 1, 5003).astype(dtype) for _ in range(2))
    expected = np.lexsort((np.where(target % 2 == 0, source, ~source), target))
    assert np.array_equal(_by_lengths(source, target), expected)


@pytest.mark.parametrize(("max_tokens", "max_sentences"), [(97, 10**9), (10**9, 13), (97, 5), (60, 60), (10**9, 10**9)])
def test_batches_are_as_large_as_the_budget_allows(max_tokens: int, max_sentences: int) -> None:
    widths = np.random.default_rng(4).integers(1, 60, 1009).astype(np.uint16)
    expected = [0]
    for place, _ in enumerate(widths):
        rows = place - expected[-1] + 1
        if rows > max_sentences or rows * int(widths[expected[-1] : place + 1].max()) > max_tokens:
            expected.append(place)
    assert _cut(widths, max_tokens, max_sentences).tolist() == [*expected, len(widths)]


def test_skipped_batches_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    source = TokenBatches(corpus_of(captions(307)), max_tokens=211)
    expected = list(source.epoch(1))
    made = []
    make = TokenBatches.make
    monkeypatch.setattr(TokenBatches, "make", lambda *arguments: made.append(1) or make(*arguments))
    resumed = source.epoch(1, skip=len(expected) - 2)
    assert made == []
    assert same(list(resumed), expected[-2:])
    assert len(made) == 2


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more than there are cores
@pytest.mark.parametrize("noise", [NoiseOptions(), NoiseOptions(source_word_dropout=0.3, target_word_dropout=0.2)])
def test_workers_change_nothing(noise: NoiseOptions) -> None:
    corpus = corpus_of(captions(101))
    for epoch in (0, 1):
        expected = list(TokenBatches(corpus, max_tokens=211, noise=noise).epoch(epoch, skip=1))
        for workers in (1, 2):
            made = list(TokenBatches(corpus, max_tokens=211, noise=noise, workers=workers).epoch(epoch, skip=1))
            assert same(made, expected)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_generators_of_the_process_are_left_alone(workers: int) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    source = TokenBatches(
        corpus_of(captions(101)), max_tokens=211, noise=NoiseOptions(source_word_dropout=0.1), workers=workers
    )
    assert len(list(source.epoch(0))) > 1
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_weights_say_how_often_an_example_is_seen() -> None:
    source = TokenBatches(corpus_of(captions(101), {3.0: 11, 0.25: 53, 1.0: 37}), max_tokens=211)
    seen = [Counter(chain.from_iterable(ids(list(source.epoch(epoch))))) for epoch in range(8)]
    for epoch in range(8):
        assert all(seen[epoch][i] == 3 for i in range(11))
        assert all(seen[epoch][i] == 1 for i in range(64, 101))
    for start in (0, 4):  # a quarter: once in any four epochs that follow
        counts = sum(seen[start : start + 4], Counter())
        assert all(counts[i] == 1 for i in range(11, 64))
    assert 5 < sum(seen[0][i] for i in range(11, 64)) < 22  # about a quarter in each
    assert seen[0] != seen[1]


def test_weights_that_leave_nothing_are_refused() -> None:
    source = TokenBatches(corpus_of([(3, 3)], {0.001: 1}), max_tokens=211)
    with pytest.raises(DataError, match="epoch 1 has no example"):
        source.num_batches(0)


def test_an_example_over_the_budget_is_refused_at_the_start() -> None:
    corpus = corpus_of([(3, 3)] * 100 + [(5000, 3)] + [(3, 3)] * 100)
    with pytest.raises(DataError, match="the longest example has 5,001 tokens, but a batch may hold 5,000"):
        TokenBatches(corpus, max_tokens=5000)
    assert TokenBatches(corpus, max_tokens=5001).num_batches(0) > 1
    with pytest.raises(RecipeError, match="`max_sentences` must be at least 1"):
        TokenBatches(corpus, max_tokens=5001, max_sentences=0)


def test_protocols_are_kept() -> None:
    source: BatchSource[PairBatch] = TokenBatches(corpus_of([(3, 5)]), max_tokens=211)
    batch: Batch = next(iter(source.epoch(0)))
    assert batch.source.shape == (1, 4)
