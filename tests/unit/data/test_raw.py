"""Text on disk: every line by its number, the same for the same bytes, whatever they hold."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.data.raw
from regard.data import CorpusFiles, Pair, open_raw
from regard.data.raw import temperature_weights
from regard.errors import DataError, RecipeError
from unit.data.nasty import NASTY

LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=9)


def jsonl(path: Path, pairs: list[Pair]) -> CorpusFiles:
    path.write_text("".join(json.dumps(pair._asdict()) + "\n" for pair in pairs), encoding="utf-8")
    return CorpusFiles(str(path))


@settings(max_examples=25)  # each writes to disk
@given(pairs=st.lists(st.builds(Pair, LINE, LINE, st.sampled_from(["", "de", "fr"])), min_size=1, max_size=9))
def test_any_pairs_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair]) -> None:
    folder = tmp_path_factory.mktemp("raw")
    raw = open_raw([jsonl(folder / "x.jsonl", pairs)], folder / "cache")
    assert list(raw.pairs()) == pairs
    backwards = np.arange(len(pairs), dtype=np.int64)[::-1]
    assert list(raw.pairs(backwards)) == pairs[::-1]
    assert list(raw.source_lines(backwards)) == [pair.source for pair in pairs[::-1]]
    assert list(raw.target_lines()) == [pair.target for pair in pairs]


def test_a_second_run_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = jsonl(tmp_path / "x.jsonl", [Pair(line, line[::-1]) for line in NASTY])
    first = open_raw([files], tmp_path / "cache")
    monkeypatch.setattr(CorpusFiles, "read", None)
    assert list(open_raw([files], tmp_path / "cache").pairs()) == list(first.pairs())


def test_the_key_follows_bytes_and_reading_not_names(tmp_path: Path) -> None:
    def key(
        name: str, content: bytes, columns: tuple[int, int] | None = None, tag: str = "", weight: float = 1.0
    ) -> str:
        (tmp_path / name).write_bytes(content)
        return open_raw(
            [CorpusFiles(str(tmp_path / name), columns=columns, tag=tag, weight=weight)], tmp_path / "c"
        ).key

    same = key("a.tsv", b"x\ty\n")
    assert key("b.tsv", b"x\ty\n", weight=2.0) == same
    others = [key("a.tsv", b"x\tz\n"), key("a.tsv", b"x\ty\n", columns=(2, 1)), key("a.tsv", b"x\ty\n", tag="de")]
    assert len({same, *others}) == 4


def test_several_corpora_are_numbered_through(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a\nb\n")
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"c\nd\n"))
    files = [
        CorpusFiles(str(tmp_path / "s"), str(tmp_path / "t.gz"), tag="news", weight=0.5),
        jsonl(tmp_path / "x.jsonl", [Pair("e", "f", "talk"), Pair("g", "h")]),
    ]
    raw = open_raw(files, tmp_path / "cache")
    assert list(raw.pairs()) == [("a", "c", "news"), ("b", "d", "news"), ("e", "f", "talk"), ("g", "h", "")]
    assert raw.part.tolist() == [0, 0, 1, 1]
    assert raw.tags == ("news", "talk")
    assert raw.weights == (0.5, 1.0)


def test_corpora_without_pairs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_bytes(b"")
    good = jsonl(tmp_path / "x.jsonl", [Pair("a", "b")])
    with pytest.raises(DataError, match=r"empty\.tsv: empty; there is nothing to train on"):
        open_raw([good, CorpusFiles(str(tmp_path / "empty.tsv"))], tmp_path / "cache")
    with pytest.raises(DataError, match=r"no\.tsv: there is no such file"):
        open_raw([CorpusFiles(str(tmp_path / "no.tsv"))], tmp_path / "cache")
    with pytest.raises(DataError, match="is a folder"):
        open_raw([CorpusFiles(str(tmp_path))], tmp_path / "cache")
    (tmp_path / "s").write_text("a\nb\n")
    (tmp_path / "t").write_text("a\n")
    with pytest.raises(DataError, match="has 2 lines but"):
        open_raw([CorpusFiles(str(tmp_path / "s"), str(tmp_path / "t"))], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_standard_input_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("a\té\nc\td\n".encode()), encoding="ascii"))
    assert list(open_raw([CorpusFiles("-")], tmp_path / "cache").pairs()) == [Pair("a", "é"), Pair("c", "d")]


def test_repeats_are_exact_even_where_hashes_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair(*text) for text in ["ab", "cd", "ab", "ax", "cd", "ab"]] + [Pair("a", "b", "de"), Pair("", "ab")]
    expected = [False, False, True, False, True, True, False, False]
    everything = np.arange(8, dtype=np.int64)
    raw = open_raw([jsonl(tmp_path / "x.jsonl", pairs)], tmp_path / "fine")
    assert raw.repeated(everything).tolist() == expected
    assert raw.repeated(everything[1:4]).tolist() == [False, False, False]
    monkeypatch.setattr(regard.data.raw, "_hash", lambda text: len(text) % 2)
    raw = open_raw([jsonl(tmp_path / "x.jsonl", pairs)], tmp_path / "colliding")
    assert raw.repeated(everything).tolist() == expected


def test_raw_text_travels_by_name(tmp_path: Path) -> None:
    pairs = [Pair(f"line {i}", str(i)) for i in range(997)]
    raw = open_raw([jsonl(tmp_path / "x.jsonl", pairs)], tmp_path / "cache")
    sent = pickle.dumps(raw)
    assert len(sent) < 2000
    assert list(pickle.loads(sent).pairs()) == pairs


def test_temperature_by_hand(tmp_path: Path) -> None:
    assert temperature_weights([900, 100], 1.0) == [1.0, 1.0]
    # √900 : √100 = 3 : 1, so an epoch of 1,000 has 750 and 250
    assert temperature_weights([900, 100], 2.0) == pytest.approx([750 / 900, 250 / 100])
    files = [
        jsonl(tmp_path / "a.jsonl", [Pair("a", "b")] * 9),
        CorpusFiles(jsonl(tmp_path / "b.jsonl", [Pair("c", "d")]).source, weight=2.0),
    ]
    assert open_raw(files, tmp_path / "cache", temperature=2.0).weights == pytest.approx([7.5 / 9, 2 * 2.5])
    with pytest.raises(RecipeError, match="`temperature` must be above 0"):
        temperature_weights([1], 0.0)
