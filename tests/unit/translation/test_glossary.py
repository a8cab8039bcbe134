"""A glossary asks for what its terms become, where they stand as whole words."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.translation import Glossary, read_glossary


def test_the_longest_term_counts_and_each_once() -> None:
    glossary = Glossary({"dog": "Hund", "hot dog": "Bockwurst", "run": "laufen"})
    assert glossary.constraints("a hot dog and a dog run, dog") == ("Bockwurst", "Hund", "laufen")
    assert glossary.constraints("dogs running, Dog") == ()
    assert glossary.constraints("") == ()


def test_a_file_is_read_and_its_mistakes_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("\ufeffdog\t Hund \n\nhot dog\tBockwurst\r\ndog\tHund\n", encoding="utf-8")
    assert dict(read_glossary(path).terms) == {"dog": "Hund", "hot dog": "Bockwurst"}
    for text, sentence in [
        ("dog\n", "terms.tsv:1: a glossary line must be two phrases"),
        ("a\tb\na\tb\tc\n", "terms.tsv:2: a glossary line"),
        ("a\t \n", "terms.tsv:1"),
        ("a\tb\n\na\tc\n", "terms.tsv:3: 'a' becomes 'b' already"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=sentence):
            read_glossary(path)
    with pytest.raises(DataError, match=r"terms.tsv:3: 'a' becomes"):
        read_glossary(path, "dictionary")
    path.write_text("a b\n")
    with pytest.raises(DataError, match=r"terms.tsv:1: a dictionary line must be two phrases"):
        read_glossary(path, "dictionary")
