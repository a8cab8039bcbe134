"""Phrases as whole words of a text."""

from __future__ import annotations

import pytest

from regard.translation.words import is_whole, occurrences


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
