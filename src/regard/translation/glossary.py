"""A glossary: which phrase of the source becomes which phrase of the target, a tab between them, one pair a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.data import read_lines
from regard.errors import DataError
from regard.translation.words import occurrences


@dataclass(frozen=True)
class Glossary:
    """Terms and what they become.

    Attributes:
        terms: source phrase -> target phrase.
        places: source phrase -> the file and line that say so, for messages.
    """

    terms: Mapping[str, str]
    places: Mapping[str, str] = field(default_factory=dict)

    def constraints(self, text: str) -> tuple[str, ...]:
        """Return what the translation of ``text`` must contain.

        A term counts where it stands as whole words, in the same case. Of terms that overlap the longest counts.
        """
        taken = [False] * len(text)
        found: dict[int, str] = {}
        for term in sorted(self.terms, key=lambda term: (-len(term), term)):
            for start in occurrences(term, text):
                if not any(taken[start : start + len(term)]):
                    taken[start : start + len(term)] = [True] * len(term)
                    found[start] = self.terms[term]
        return tuple(dict.fromkeys(found[start] for start in sorted(found)))


def read_glossary(path: str | Path, kind: str = "glossary") -> Glossary:
    """Read a glossary. Empty lines are left out, spaces around a phrase too.

    Args:
        path: the file.
        kind: what it is called in messages.

    Raises:
        DataError: a line has not two phrases, or a source phrase is given two translations; with file and line.
    """
    terms: dict[str, str] = {}
    places: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        source, _, target = (part.strip() for part in line.partition("\t"))
        if not source or not target or "\t" in target:
            raise DataError(f"{path}:{number}: a {kind} line must be two phrases with one tab between, but is {line!r}")
        if terms.setdefault(source, target) != target:
            raise DataError(
                f"{path}:{number}: {source!r} becomes {terms[source]!r} already, so it cannot become {target!r} too"
            )
        places.setdefault(source, f"{path}:{number}")
    return Glossary(terms, places)
