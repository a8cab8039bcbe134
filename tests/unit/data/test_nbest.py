"""An n-best list becomes pairs, whatever `regard translate` wrote, and a list of another source is refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data import CorpusFiles, Pair, open_raw, read_nbest
from regard.errors import DataError

MOSES = "0 ||| eins ||| logprob= -1.5 ||| -0.7\n0 ||| zwei ||| logprob= -2 ||| -1\n2 |||  ||| x ||| 0\n2 ||| drei\n"
JSONL = (
    '{"source": "a", "translation": "eins", "nbest": [{"translation": "eins"}, {"translation": "zwei"}]}\n'
    '{"source": "c", "translation": "drei", "score": -1}\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source").write_text("a\nb\nc\n")
    (tmp_path / "list").write_text(MOSES)
    (tmp_path / "list.jsonl").write_text(JSONL)
    return tmp_path


def test_lists_of_moses(folder: Path) -> None:
    assert list(read_nbest(folder / "list", folder / "source")) == [Pair("a", "eins"), Pair("c", "")]
    assert list(read_nbest(folder / "list", folder / "source", keep=2)) == [
        Pair("a", "eins"), Pair("a", "zwei"), Pair("c", ""), Pair("c", "drei"),
    ]  # fmt: skip


def test_objects(folder: Path) -> None:
    assert list(read_nbest(folder / "list.jsonl")) == [Pair("a", "eins"), Pair("c", "drei")]
    assert len(list(read_nbest(folder / "list.jsonl", keep=5))) == 3


def test_as_a_corpus(folder: Path) -> None:
    one = CorpusFiles(str(folder / "source"), str(folder / "list"), nbest=1, tag="x")
    two = CorpusFiles(str(folder / "list.jsonl"), nbest=2, weight=0.5)
    raw = open_raw([one, two], folder / "cache")
    assert raw.sizes() == [2, 3]
    assert raw.weights == (1.0, 0.5)
    assert [(pair.target, pair.tag) for pair in raw.pairs()] == [
        ("eins", "x"),
        ("", "x"),
        ("eins", ""),
        ("zwei", ""),
        ("drei", ""),
    ]
    more = open_raw([CorpusFiles(str(folder / "source"), str(folder / "list"), nbest=2)], folder / "cache")
    assert (
        more.key != open_raw([CorpusFiles(str(folder / "source"), str(folder / "list"), nbest=1)], folder / "cache").key
    )
    assert more.sizes() == [4]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0 ||| a\n3 ||| b\n", "list:2: is of line 3 of .*source, counted from 0, which has fewer lines"),
        ("1 ||| a\n0 ||| b\n", "list:2: line 0 of the source comes after line 1"),
        ("eins\n", r"list:1: not a line of an n-best list; expected: number \|\|\| text"),
        ("x ||| eins\n", "list:1: not a line of an n-best list"),
    ],
)
def test_what_is_no_list_of_this_source(folder: Path, text: str, told: str) -> None:
    (folder / "list").write_text(text)
    with pytest.raises(DataError, match=told):
        list(read_nbest(folder / "list", folder / "source"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"source": "a"}\n', "`translation` is missing"),
        ('{"source": "a", "nbest": 3}\n', "`nbest` is not a list of objects but 3"),
        ("[1]\n", "not an object; expected"),
    ],
)
def test_what_is_no_object(folder: Path, text: str, told: str) -> None:
    (folder / "list.jsonl").write_text(text)
    with pytest.raises(DataError, match=rf"list\.jsonl:1: {told}"):
        list(read_nbest(folder / "list.jsonl"))
