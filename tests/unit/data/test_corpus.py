"""Ids on disk are the tokenizer's ids of the text, filtered, counted, and made once."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.data.corpus
from regard.data import (
    CharTokenizer,
    FilterOptions,
    Pair,
    RawCorpus,
    TextTokenizer,
    WordTokenizer,
    encode_corpus,
    encoding,
    open_raw,
    train_exact,
    train_sentencepiece,
)
from regard.errors import DataError, InputError, TrainingError
from unit.data.nasty import NASTY
from unit.data.test_raw import jsonl
from unit.data.tokenizers.test_sentencepiece import corpus as sentences

LETTERS = CharTokenizer("abcdefgh", tags=["de", "fr"])
SHORT = st.text("abcdefgh ", max_size=6)


def raw_of(folder: Path, pairs: list[Pair]) -> RawCorpus:
    return open_raw([jsonl(folder / "x.jsonl", pairs)], folder / "cache")


def naive(pairs: list[Pair], options: FilterOptions) -> list[tuple[list[int], list[int]]]:
    """Filter and encode in the plainest way; the oracle."""
    kept, seen = [], set()
    for pair in pairs:
        source = ([LETTERS.tag_id(pair.tag)] if pair.tag else []) + LETTERS.encode(pair.source)
        target = LETTERS.encode(pair.target)
        if not options.keep_empty and (
            pair.source.isspace() or pair.target.isspace() or "" in (pair.source, pair.target)
        ):
            continue
        repeated = pair in seen
        seen.add(pair)
        if options.unique and repeated:
            continue
        long = len(source) + 1 > options.max_source_length or len(target) + 1 > options.max_target_length
        if long and options.overlong == "drop":
            continue
        lengths = sorted([len(source) + 1, len(target) + 1])
        if options.max_ratio is not None and lengths[1] / lengths[0] > options.max_ratio:
            continue
        kept.append((source[: options.max_source_length - 1], target[: options.max_target_length - 1]))
    return kept


@settings(max_examples=40)  # each writes to disk
@given(
    pairs=st.lists(st.builds(Pair, SHORT, SHORT, st.sampled_from(["", "de"])), min_size=1, max_size=12),
    options=st.builds(
        FilterOptions,
        max_source_length=st.integers(2, 9),
        max_target_length=st.integers(2, 9),
        overlong=st.sampled_from(["drop", "clip"]),
        max_ratio=st.sampled_from([None, 1.0, 2.0]),
        keep_empty=st.booleans(),
        unique=st.booleans(),
    ),
)
def test_examples_are_what_the_plainest_filter_gives(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], options: FilterOptions
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    raw = raw_of(folder, pairs)
    expected = naive(pairs, options)
    if not expected:
        with pytest.raises(DataError, match="the filters left nothing to train on: 0 of"):
            encode_corpus(raw, LETTERS, LETTERS, folder / "cache", filters=options)
        return
    corpus = encode_corpus(raw, LETTERS, LETTERS, folder / "cache", filters=options)
    found = [(corpus.source_ids(i).tolist(), corpus.target_ids(i).tolist()) for i in range(len(corpus))]
    assert found == expected
    assert corpus.source_lengths.tolist() == [len(source) for source, _ in expected]
    assert corpus.target_lengths.tolist() == [len(target) for _, target in expected]
    report = corpus.report
    assert (report.total, report.kept) == (len(pairs), len(expected))
    dropped = report.empty + report.duplicate + report.long_source + report.long_target + report.ratio
    assert report.total == report.kept + dropped


def test_reasons_are_counted_by_hand(tmp_path: Path) -> None:
    texts = ["a\tb", "\tb", "a\t ", "a\tb", "abcde\ta", "a\tabcdef", "abcd\ta", "ab\tab"]
    raw = raw_of(tmp_path, [Pair(*text.split("\t")) for text in texts])
    options = FilterOptions(max_source_length=5, max_target_length=6, max_ratio=2.0, unique=True)
    report = encode_corpus(raw, LETTERS, LETTERS, tmp_path / "cache", filters=options).report
    assert (report.empty, report.duplicate, report.long_source, report.long_target, report.ratio) == (2, 1, 1, 1, 1)
    assert report.kept == 2


def test_text_is_found_from_the_example(tmp_path: Path) -> None:
    pairs = [Pair("", "x"), Pair("ab", "cd"), Pair("ef", "gh", "fr")]
    corpus = encode_corpus(raw_of(tmp_path, pairs), LETTERS, LETTERS, tmp_path / "cache", filters=FilterOptions())
    assert [corpus.pair(i) for i in range(2)] == [("ab", "cd"), ("ef", "gh")]
    assert corpus.source_ids(1).tolist() == [LETTERS.tag_id("fr"), *LETTERS.encode("ef")]


@pytest.mark.parametrize("workers", [2, 5])
def test_ids_do_not_depend_on_workers(tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 7)
    monkeypatch.setattr(encoding, "PROCESSES_FROM", 1)
    pairs = [Pair(line, line[::-1]) for line in NASTY]
    raw = raw_of(tmp_path, pairs)
    tokenizer = train_sentencepiece(sentences(), vocab_size=317).tokenizer
    options = FilterOptions(max_source_length=9999, max_target_length=9999, keep_empty=True)
    one = encode_corpus(raw, tokenizer, tokenizer, tmp_path / "one", filters=options)
    many = encode_corpus(raw, tokenizer, tokenizer, tmp_path / "many", filters=options, workers=workers)
    assert len(one) == len(NASTY)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) == 6
    assert all((tmp_path / "one" / f).read_bytes() == (tmp_path / "many" / f).read_bytes() for f in files)
    assert [many.source_tokenizer.decode(many.source_ids(i).tolist()) for i in range(len(many))] == NASTY


def test_a_second_run_encodes_nothing_and_any_change_encodes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = raw_of(tmp_path, [Pair("ab", "cd"), Pair("ef", "gh")])

    def encode(source: TextTokenizer, target: TextTokenizer, options: FilterOptions, rows: list[int]) -> None:
        encode_corpus(raw, source, target, tmp_path / "cache", filters=options, rows=np.array(rows, dtype=np.int64))

    same = (LETTERS, LETTERS, FilterOptions(), [0, 1])
    encode(*same)
    monkeypatch.setattr(regard.data.corpus, "_build", lambda *_: pytest.fail("encoded anew"))
    encode(*same)
    other = CharTokenizer("abcdefgh", tags=["de"])
    for change in (
        (other, LETTERS, FilterOptions(), [0, 1]),
        (LETTERS, other, FilterOptions(), [0, 1]),
        (LETTERS, LETTERS, FilterOptions(unique=True), [0, 1]),
        (LETTERS, LETTERS, FilterOptions(), [0]),
    ):
        with pytest.raises(pytest.fail.Exception, match="encoded anew"):
            encode(*change)


def test_large_vocabularies_have_wide_ids(tmp_path: Path) -> None:
    words = [str(i) for i in range(70_001)]
    tokenizer = WordTokenizer(words)
    raw = raw_of(tmp_path, [Pair(words[-1], words[0])])
    corpus = encode_corpus(raw, tokenizer, train_exact("byte", []), tmp_path / "cache", filters=FilterOptions())
    assert corpus.source_ids(0).tolist() == [70_004]
    assert (corpus.source_ids(0).itemsize, corpus.target_ids(0).itemsize) == (4, 2)


def test_an_encoded_corpus_travels_by_name(tmp_path: Path) -> None:
    pairs = [Pair("abc", "cba")] * 997
    corpus = encode_corpus(raw_of(tmp_path, pairs), LETTERS, LETTERS, tmp_path / "cache", filters=FilterOptions())
    sent = pickle.dumps(corpus)
    assert len(sent) < 4000
    loaded = pickle.loads(sent)
    assert loaded.pair(996) == ("abc", "cba")
    assert loaded.source_ids(996).tolist() == corpus.source_ids(996).tolist()


def test_a_tag_that_the_tokenizer_lacks_is_refused(tmp_path: Path) -> None:
    raw = raw_of(tmp_path, [Pair("a", "b", "en")])
    with pytest.raises(InputError, match="no tag 'en'"):
        encode_corpus(raw, LETTERS, LETTERS, tmp_path / "cache", filters=FilterOptions())


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = raw_of(tmp_path, [Pair("a", "b")])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.data.columns.os.fsync", full)
    with pytest.raises(TrainingError, match="cannot be written \\(No space left on device\\)"):
        encode_corpus(raw, LETTERS, LETTERS, tmp_path / "ids", filters=FilterOptions())
    assert list((tmp_path / "ids").iterdir()) == []
