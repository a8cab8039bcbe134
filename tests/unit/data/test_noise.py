"""Noise: other each time, the same for the same seed, epoch and example, and never in what must be predicted."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from regard.data import (
    ByteTokenizer,
    EncodedCorpus,
    FilterOptions,
    NoiseOptions,
    Pair,
    TokenBatches,
    encode_corpus,
    open_raw,
    train_sentencepiece,
)
from regard.data.noise import NoisyExamples
from regard.errors import InputError, RecipeError
from regard.protocols import UNK
from unit.data.test_raw import jsonl
from unit.data.tokenizers.test_sentencepiece import corpus as sentences

WORDS_DROPPED = NoiseOptions(source_word_dropout=0.3, target_word_dropout=0.2)
CUT_ANEW = NoiseOptions(source_sampling=0.1, target_sampling=0.2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    folder = tmp_path_factory.mktemp("noise")
    pairs = [Pair(a, b, "de") for a, b in zip(sentences(211, seed=5), sentences(211, seed=7), strict=True)]
    source = train_sentencepiece(sentences(), vocab_size=317, tags=["de"]).tokenizer
    target = train_sentencepiece(sentences(), vocab_size=331, model_type="bpe").tokenizer
    raw = open_raw([jsonl(folder / "x.jsonl", pairs)], folder / "cache")
    return encode_corpus(raw, source, target, folder / "cache", filters=FilterOptions())


def seen(corpus: EncodedCorpus, options: NoiseOptions, *, epoch: int, seed: int = 1) -> list[tuple[list[int], ...]]:
    examples = NoisyExamples(corpus, options, seed)
    return [tuple(list(map(int, side)) for side in examples.see(epoch, i, room=999)) for i in range(len(corpus))]


@pytest.mark.parametrize("options", [WORDS_DROPPED, CUT_ANEW])
def test_noise_depends_on_seed_epoch_and_example_alone(corpus: EncodedCorpus, options: NoiseOptions) -> None:
    first = seen(corpus, options, epoch=0)
    backwards = NoisyExamples(corpus, options, 1)
    for i in reversed(range(len(corpus))):
        assert tuple(list(map(int, side)) for side in backwards.see(0, i, room=999)) == first[i]
    for other in (
        seen(corpus, options, epoch=1),
        seen(corpus, options, epoch=0, seed=2),
        seen(corpus, NoiseOptions(), epoch=0),
    ):
        assert sum(a != b for a, b in zip(first, other, strict=True)) > len(corpus) // 2


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more than there are cores
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_no_two_draws_repeat_across_epochs_and_workers(
    corpus: EncodedCorpus, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor within an epoch that sees an example several times."""
    monkeypatch.setattr(corpus.raw, "weights", (weight,))
    prints = []
    for epoch in range(3):
        batches = TokenBatches(corpus, max_tokens=409, noise=WORDS_DROPPED, workers=2).epoch(epoch)
        for batch in batches:
            for row, example in zip(batch.source == UNK, batch.example_ids, strict=True):
                if len(corpus.source_ids(example)) > 20:  # short ones repeat by chance
                    prints.append(tuple(row.tolist()))
    assert len(prints) > 150 * weight
    assert len(set(prints)) == len(prints)


def test_batches_can_be_sent_to_processes_that_are_spawned(corpus: EncodedCorpus) -> None:
    source = TokenBatches(corpus, max_tokens=409, noise=CUT_ANEW)
    sent = pickle.loads(pickle.dumps(source))
    for one, other in zip(source.epoch(1), sent.epoch(1), strict=True):
        assert one.example_ids == other.example_ids
        assert one.source.equal(other.source)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_that_are_spawned_make_the_same(corpus: EncodedCorpus) -> None:
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    try:
        made = [*TokenBatches(corpus, max_tokens=409, noise=CUT_ANEW, workers=1).epoch(1)]
    finally:
        multiprocessing.set_start_method(before, force=True)
    for one, other in zip(TokenBatches(corpus, max_tokens=409, noise=CUT_ANEW).epoch(1), made, strict=True):
        assert one.example_ids == other.example_ids
        assert one.source.equal(other.source) and one.target_in.equal(other.target_in)


def test_words_are_dropped_at_their_rate_where_they_may(corpus: EncodedCorpus) -> None:
    rows = seen(corpus, WORDS_DROPPED, epoch=0)
    for i, (source, target, read) in enumerate(rows):
        clean = corpus.source_ids(i).tolist()
        assert target == corpus.target_ids(i).tolist()
        assert source[0] == clean[0] == corpus.source_tokenizer.tag_id("de")
        assert all(a in (b, UNK) for a, b in zip(source, clean, strict=True))
        assert all(a in (b, UNK) for a, b in zip(read, target, strict=True))
    words = [word for source, _, _ in rows for word in source[1:]]
    # 4 standard deviations of a share of 0.3 among this many
    assert abs(words.count(UNK) / len(words) - 0.3) < 4 * np.sqrt(0.3 * 0.7 / len(words))
    read = [word for _, _, side in rows for word in side]
    assert abs(read.count(UNK) / len(read) - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(read))


def test_pieces_cut_anew_spell_the_same_text(corpus: EncodedCorpus) -> None:
    for i, (source, target, read) in enumerate(seen(corpus, CUT_ANEW, epoch=0)):
        assert source[0] == corpus.source_tokenizer.tag_id("de")
        assert (corpus.source_tokenizer.decode(source), corpus.target_tokenizer.decode(target)) == corpus.pair(i)
        assert read == target


def test_the_budget_holds_and_the_stored_pieces_seldom_have_to_stand_in(corpus: EncodedCorpus, tmp_path: Path) -> None:
    longest = int(np.argmax(corpus.target_lengths))  # many copies of one: batches have no shorter row to make room
    raw = open_raw([jsonl(tmp_path / "x.jsonl", [Pair(*corpus.pair(longest))] * 97)], tmp_path / "cache")
    alike = encode_corpus(
        raw, corpus.source_tokenizer, corpus.target_tokenizer, tmp_path / "cache", filters=FilterOptions()
    )
    stood_in = 0
    for batch in TokenBatches(alike, max_tokens=1009, noise=CUT_ANEW).epoch(0):
        assert batch.source.shape[0] * max(batch.source.shape[1], batch.target_in.shape[1]) <= 1009
        stored = [*alike.target_ids(0).tolist(), 3]
        stood_in += sum(row[: len(stored)] == stored for row in batch.target_out.tolist())
    assert stood_in < 5


def test_pieces_cut_anew_keep_to_the_longest_length_of_the_filters(corpus: EncodedCorpus, tmp_path: Path) -> None:
    raw, source, target = corpus.raw, corpus.source_tokenizer, corpus.target_tokenizer
    filters = FilterOptions(max_source_length=23, max_target_length=19, overlong="clip")
    clipped = encode_corpus(raw, source, target, tmp_path, filters=filters)
    assert clipped.report.clipped > 50
    rows = seen(clipped, CUT_ANEW, epoch=0)
    assert max(len(source) for source, _, _ in rows) == 22
    assert max(len(target) for _, target, _ in rows) == 18
    changed = [source != clipped.source_ids(i).tolist() for i, (source, _, _) in enumerate(rows)]
    assert sum(changed) > 20


def test_without_noise_examples_are_as_stored(corpus: EncodedCorpus) -> None:
    for i, (source, target, read) in enumerate(seen(corpus, NoiseOptions(), epoch=0)):
        assert (source, target, read) == (corpus.source_ids(i).tolist(), *[corpus.target_ids(i).tolist()] * 2)


def test_tokenizers_with_one_way_refuse_at_the_start(tmp_path: Path) -> None:
    raw = open_raw([jsonl(tmp_path / "x.jsonl", [Pair("a", "b")])], tmp_path / "cache")
    corpus = encode_corpus(raw, ByteTokenizer(), ByteTokenizer(), tmp_path / "cache", filters=FilterOptions())
    with pytest.raises(InputError, match="a byte tokenizer has one way"):
        TokenBatches(corpus, max_tokens=99, noise=NoiseOptions(target_sampling=0.1))


def test_options_out_of_range_are_named() -> None:
    for arguments in (
        {"source_word_dropout": 1.0},
        {"target_word_dropout": -0.1},
        {"source_sampling": 0.0},
        {"target_sampling": 1.5},
    ):
        with pytest.raises(RecipeError, match=f"`{next(iter(arguments))}`"):
            NoiseOptions(**arguments)
