"""Words of a text, and the tokens that make them."""

from __future__ import annotations

import pytest

from regard.translation.words import is_whole, occurrences, word_spans


def test_spaces_part_words_wherever_they_stand_in_a_token() -> None:
    assert word_spans([b" a", b"b", b"", b" ", b" ", b"c", b" d e"]) == [[0, 1], [5], [6], [6]]
    assert word_spans([b"a", b"b ", b"c", b"\xc3", b"\xa9"]) == [[0, 1], [2, 3, 4]]
    assert word_spans([]) == word_spans([b" ", b""]) == []


@pytest.mark.parametrize(
    ("phrase", "text", "places"),
    [
        ("ab", "ab abc cab ab", [0, 11]),
        ("ab", "ab, (ab) ab-ab", [0, 5, 9, 12]),
        ("a.", "a. a.b xa.", [0, 3]),
        ("水", "水水x", [0, 1]),
        ("é", "éa é", [3]),
        ("é", "é́", []),
        ("x", "", []),
    ],
)
def test_phrases_stand_as_whole_words(phrase: str, text: str, places: list[int]) -> None:
    assert list(occurrences(phrase, text)) == places
    assert all(is_whole(text, place, place + len(phrase)) for place in places)
