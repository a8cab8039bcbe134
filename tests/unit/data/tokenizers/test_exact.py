"""Characters, words and bytes: what goes in comes out, and the vocabulary is the same each time it is built."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import ByteTokenizer, CharTokenizer, WordTokenizer, train_exact
from regard.errors import DataError
from regard.protocols import UNK
from unit.data.nasty import NASTY, SPACE_SIGN

ALL = [*NASTY, SPACE_SIGN]
LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]))


@pytest.mark.parametrize("kind", ["char", "word", "byte"])
def test_nasty_lines_come_back_exactly(kind: str) -> None:
    tokenizer = train_exact(kind, ALL)
    for text in ALL:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(4 <= i < len(tokenizer) for i in ids)


@given(LINE)
def test_any_line_comes_back_exactly(text: str) -> None:
    assert ByteTokenizer().decode(ByteTokenizer().encode(text)) == text
    for kind in ("char", "word") if text else ():
        tokenizer = train_exact(kind, [text])
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_ids_follow_frequency_then_code_point_whatever_the_order_of_lines() -> None:
    lines = ["b a c a", "c b d"]
    assert train_exact("word", lines).pieces(range(4, 8)) == ["a", "b", "c", "d"]
    assert train_exact("char", ["zzy", "yx", "é"]).pieces(range(4, 8)) == ["y", "z", "x", "é"]
    shuffled = ALL.copy()
    random.Random(5).shuffle(shuffled)
    for kind in ("char", "word"):
        assert train_exact(kind, shuffled).to_files() == train_exact(kind, ALL).to_files()


def test_rare_and_surplus_entries_are_unknown() -> None:
    tokenizer = train_exact("word", ["a a a b b c"], min_frequency=2)
    assert tokenizer.encode("a b c d") == [4, 5, UNK, UNK]
    assert tokenizer.decode([4, 5, UNK, 4]) == "a b a"
    assert len(train_exact("word", ["a a a b b c"], vocab_size=5)) == 5
    assert train_exact("char", ["aab"], vocab_size=5).encode("ab") == [4, UNK]


def test_words_split_at_single_spaces_only() -> None:
    tokenizer = WordTokenizer(["a", "", "b\u00a0c"])
    assert tokenizer.encode("a  b\u00a0c ") == [4, 5, 6, 5]
    assert tokenizer.encode("") == []
    assert tokenizer.encode(" ") == [5, 5]


def test_bytes_need_no_text() -> None:
    tokenizer = train_exact("byte", iter([]))
    assert len(tokenizer) == 260
    assert tokenizer.encode("é") == [4 + 0xC3, 4 + 0xA9]
    assert tokenizer.decode([4 + 0xC3]) == "\ufffd"


def test_pieces_can_be_printed() -> None:
    assert CharTokenizer([" ", "\u2028", "x"], tags=["de"]).pieces(range(8)) == [
        *("<pad>", "<unk>", "<s>", "</s>"),
        *("␣", "U+2028", "x"),
        "<de>",
    ]
    assert ByteTokenizer().pieces([4 + 0x41, 4 + 0x0A]) == ["A", "0x0A"]
    assert WordTokenizer(["", "x"]).pieces([4, 5]) == ["␣", "x"]


def test_vocabularies_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="entry 2 of a char vocabulary must be one character, but is 'ab'"):
        CharTokenizer(["a", "ab"])
    with pytest.raises(DataError, match="entry 1 of a word vocabulary must hold no space"):
        WordTokenizer(["a b"])
    with pytest.raises(DataError, match="entry 2 of the vocabulary, 'b', is listed again"):
        WordTokenizer(["a", "b", "c", "b"])
    with pytest.raises(DataError, match="no word that occurs 3 times or more"):
        train_exact("word", ["a b a"], min_frequency=3)
    with pytest.raises(DataError, match="no char that occurs 1 time or more"):
        train_exact("char", [])
