"""Lines and pairs come out of files as they are, or with a sentence that says where they cannot."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import CorpusFiles, Pair, read_jsonl, read_lines, read_parallel, read_tsv
from regard.errors import DataError, RecipeError
from unit.data.nasty import NASTY, SPACE_SIGN

LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=20)


PACKED = gzip.compress(b"some text\n" * 99, mtime=0)


def write(path: Path, data: bytes | str) -> str:
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return str(path)


@given(st.lists(LINE, min_size=1))
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "x"
    lines = [line.removeprefix("\ufeff").rstrip("\r") for line in lines]
    write(path, "".join(f"{line}\n" for line in lines))
    assert list(read_lines(path)) == lines


def test_nasty_lines_come_back_in_every_wrapping(tmp_path: Path) -> None:
    lines = [*NASTY, SPACE_SIGN]
    text = "\n".join(lines)
    wrappings = {
        "with a last line end": text + "\n",
        "without": text,
        "after a byte-order mark": "\ufeff" + text,
        "ended as on Windows": text.replace("\n", "\r\n"),
    }
    for name, content in wrappings.items():
        assert list(read_lines(write(tmp_path / "plain", content))) == lines, name
        packed = gzip.compress(content.encode("utf-8"))
        assert list(read_lines(write(tmp_path / "packed.gz", packed))) == lines, name
        assert list(read_lines(write(tmp_path / "packed", packed))) == lines, name


def test_line_count_is_that_of_wc(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "a", ""))) == []
    assert list(read_lines(write(tmp_path / "b", "\n"))) == [""]
    assert list(read_lines(write(tmp_path / "c", "\n\nx"))) == ["", "", "x"]
    assert list(read_lines(write(tmp_path / "d", "a\u2028b\x85c\x0bd\x0ce\x1cf\n"))) == ["a\u2028b\x85c\x0bd\x0ce\x1cf"]


def test_standard_input_is_bytes_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in ("\ufeffé\r\n水", "é\n水\n"):
        for data in (content.encode(), gzip.compress(content.encode())):
            stdin = io.TextIOWrapper(io.BytesIO(data), encoding="ascii")
            monkeypatch.setattr(sys, "stdin", stdin)
            assert list(read_lines("-")) == ["é", "水"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"fine\nb\xe9d\n", r":2: not valid UTF-8 \(byte 0xe9 at position 2\)"),
        (b"\xed\xa0\x80\n", r":1: not valid UTF-8"),  # half a surrogate pair
        (b"\xc0\x80\n", r":1: not valid UTF-8"),  # NUL in too many bytes
        ("a\nb\n".encode("utf-16"), r":1: holds a NUL|:1: not valid UTF-8"),
        (b"x\n\0\n", r":2: holds a NUL"),
        (PACKED[:-20], r"damaged gzip"),
        (PACKED[:15] + b"\xff\xff" + PACKED[17:], r"damaged gzip"),
        (PACKED[:-8] + b"\0" * 8, r"damaged gzip"),  # the checksum
    ],
    ids=range(8),
)
def test_bad_bytes_are_refused_with_their_place(tmp_path: Path, content: bytes, said: str) -> None:
    path = write(tmp_path / "bad", content)
    with pytest.raises(DataError, match=said) as caught:
        list(read_lines(path))
    assert path in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: there is no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="is a folder"):
        list(read_lines(tmp_path))


def test_reading_holds_one_line_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path / "long", "line of some length\n" * 30_000)
    tracemalloc.start()
    assert sum(1 for _ in read_lines(path)) == 30_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000  # the file has 600 kB


@pytest.mark.parametrize(("one", "other"), [(1000, 999), (999, 1000), (0, 3), (3, 0)])
def test_unequal_files_tell_both_counts(tmp_path: Path, one: int, other: int) -> None:
    source, target = write(tmp_path / "s", "x\n" * one), write(tmp_path / "t", "y\n" * other)
    with pytest.raises(DataError, match=rf"s has {one:,} lines but \S*t has {other:,}"):
        list(read_parallel(source, target))


def test_parallel_files_stay_aligned(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", "\n".join(NASTY)), write(tmp_path / "t", "\n".join(reversed(NASTY)) + "\n")
    assert list(read_parallel(source, target)) == [Pair(a, b) for a, b in zip(NASTY, reversed(NASTY), strict=True)]


def test_both_sides_cannot_be_standard_input() -> None:
    with pytest.raises(DataError, match="cannot both be standard input"):
        list(read_parallel("-", "-"))


def test_tsv_has_one_row_per_line_and_quotes_are_characters(tmp_path: Path) -> None:
    rows = ['"open\ty', 'x\t"', 'a "b\tc" d', '"x"\t""', "\t", " \tz\u2028z"]
    pairs = list(read_tsv(write(tmp_path / "x.tsv", "\n".join(rows))))
    assert pairs == [Pair(*row.split("\t")) for row in rows]


def test_tsv_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", "a\tb\tc\nd\te\tf\n")
    assert list(read_tsv(path, (3, 1))) == [Pair("c", "a"), Pair("f", "d")]
    with pytest.raises(DataError, match=r"x\.tsv:1: 3 columns where 2 are expected; name the two with `columns`"):
        list(read_tsv(path))
    with pytest.raises(DataError, match="no column 4; its lines have 3"):
        list(read_tsv(path, (1, 4)))
    with pytest.raises(DataError, match=r"y:2: 1 column where 2 are expected"):
        list(read_tsv(write(tmp_path / "y", "a\tb\n\n")))
    with pytest.raises(DataError, match=r"z:2: 2 columns where 3 are expected"):
        list(read_tsv(write(tmp_path / "z", "a\tb\tc\na\tb\n"), (1, 2)))


def test_jsonl(tmp_path: Path) -> None:
    records = [{"source": a, "target": b} for a, b in zip(NASTY, reversed(NASTY), strict=True)]
    path = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, records)))
    assert [(p.source, p.target) for p in read_jsonl(path)] == [(r["source"], r["target"]) for r in records]
    path = write(tmp_path / "y", '{"tag": "de", "source": "a", "target": "b", "id": 7}')
    assert list(read_jsonl(path)) == [Pair("a", "b", "de")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "not JSON"),
        ('{"source": "a", "target": "b"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["a", "b"]', "not an object"),
        ('{"source": "a"}', "`target` is missing"),
        ('{"source": 3, "target": "b"}', "`source` is not a text but 3"),
        ('{"source": "a\\nb", "target": "b"}', "`source` holds a line end"),
        ('{"source": "a", "target": "\\u0000"}', "`target` holds a line end or a NUL"),
        ('{"source": "a", "target": "\\ud800"}', "half of a surrogate pair"),
        ('{"source": "a", "target": "b", "tag": 1}', "`tag` is not a text but 1"),
    ],
)
def test_bad_jsonl_lines_are_refused_with_their_place(tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path / "x.jsonl", '{"source": "a", "target": "b"}\n' + line + "\n")
    with pytest.raises(DataError, match=rf"x\.jsonl:2: .*{said}"):
        list(read_jsonl(path))


def test_corpus_files_choose_the_reader_and_put_the_tag(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", "a\n"), write(tmp_path / "t", "b\n")
    tsv = write(tmp_path / "p.tsv", "a\tb\n")
    jsonl = write(tmp_path / "p.jsonl.gz", gzip.compress(b'{"source": "a", "target": "b", "tag": "own"}\n'))
    assert list(CorpusFiles(source, target).read()) == [Pair("a", "b")]
    assert list(CorpusFiles(tsv, tag="de").read()) == [Pair("a", "b", "de")]
    assert list(CorpusFiles(jsonl, tag="de").read()) == [Pair("a", "b", "own")]


def test_corpus_files_refuse_what_makes_no_sense() -> None:
    for arguments, said in [
        ({"source": "a", "target": "a"}, "same file"),
        ({"source": "a", "weight": 0.0}, "`weight` of a must be above 0"),
        ({"source": "a.tsv", "columns": (0, 1)}, "`columns` must be two different numbers from 1"),
        ({"source": "a.tsv", "columns": (2, 2)}, "`columns` must be two different numbers from 1"),
        ({"source": "a", "target": "b", "columns": (1, 2)}, "`columns` is for a .tsv file"),
    ]:
        with pytest.raises(RecipeError, match=said):
            CorpusFiles(**arguments)
