"""The demo's dictionary: entries, variants, comments, and the split by word."""

from __future__ import annotations

from collections import Counter

import pytest

from regard.errors import MissingExtraError
from regard.runs import dictionary

TEXT = """'bout B AW1 T
a.d. EY2 D IY1
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
record R AH0 K AO1 R D
record(2) R EH1 K ER0 D
record(3) R AH2 K AO2 R D

"""


def test_entries_lose_stress_comments_and_repeats() -> None:
    assert dictionary.parse_dictionary(TEXT) == {
        "'bout": (("B", "AW", "T"),),
        "aalborg": (("AO", "L", "B", "AO", "R", "G"), ("AA", "L", "B", "AO", "R", "G")),
        "record": (("R", "AH", "K", "AO", "R", "D"), ("R", "EH", "K", "ER", "D")),
    }


def test_a_tenth_of_the_words_is_kept_from_training() -> None:
    parts = Counter(dictionary.part_of(f"word{number}") for number in range(10_000))
    assert 900 < parts["test"] < 1100  # five standard deviations of a binomial at 0.1 are 150
    assert 50 < parts["valid"] < 150
    assert dictionary.part_of("regard") == dictionary.part_of("regard")


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise dictionary.PackageNotFoundError(name)

    monkeypatch.setattr(dictionary, "files", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[demo\]'"):
        dictionary.read_dictionary()


def test_the_real_dictionary_is_there() -> None:
    words = dictionary.read_dictionary()
    assert len(words) > 100_000
    assert words["cat"] == (("K", "AE", "T"),)
    assert not any(character.isdigit() for heard in words.values() for phones in heard for character in "".join(phones))
