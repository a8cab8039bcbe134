"""Edit distance and the error rates made of it: WER, PER, CER, and the share of lines that are wrong.

Two different figures are called "word error rate". In recognition and translation it is edits per reference word:
``TokenErrorRate``. In pronunciation, where a line is one word, it is the share of words that are not entirely right:
``LineErrorRate``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import DataError
from regard.evaluation.metric import Floats, References, references_signature
from regard.evaluation.text import ExactMatch


def edit_distance(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that turn one sequence into the other.

    A column of the dynamic programme is held in two integers, one bit a row, that say where it rises and where it
    falls: Myers 1999 in the form of Hyyrö 2003.
    """
    if not ours:
        return len(theirs)
    places: dict[Hashable, int] = {}
    for row, token in enumerate(ours):
        places[token] = places.get(token, 0) | 1 << row
    last = 1 << (len(ours) - 1)
    everywhere = (last << 1) - 1
    distance, rises, falls = len(ours), everywhere, 0
    for token in theirs:
        equal = places.get(token, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        grows = falls | ~(diagonal | rises) & everywhere
        shrinks = rises & diagonal
        distance += bool(grows & last) - bool(shrinks & last)
        grows = grows << 1 | 1
        shrinks <<= 1
        rises = (shrinks | ~(diagonal | grows)) & everywhere
        falls = grows & diagonal
    return distance


@dataclass(frozen=True)
class TokenErrorRate:
    """Edits to the nearest reference, summed, over the summed length of those references; can exceed 100.

    Attributes:
        name: ``WER`` counts words and ``PER`` phones, both parted by white space; ``CER`` counts characters.
        lowercase: compare without case.
    """

    name: Literal["WER", "PER", "CER"] = "WER"
    lowercase: bool = False

    higher_is_better = False

    def _tokens(self, line: str) -> Sequence[str]:
        line = line.lower() if self.lowercase else line
        return line if self.name == "CER" else line.split()

    def statistics(self, hypotheses: Sequence[str], references: References) -> Floats:
        """Return (edits, reference length) for each line; of equally near references the shortest counts."""
        return np.array(
            [
                min((edit_distance(ours, theirs), len(theirs)) for theirs in map(self._tokens, of_line))
                for ours, of_line in zip(map(self._tokens, hypotheses), references, strict=True)
            ],
            dtype=np.float64,
        )

    def score(self, total: Floats) -> float:
        """Return percent.

        Raises:
            DataError: the references are empty.
        """
        if total[1] == 0:
            raise DataError(f"{self.name} needs references with at least one token, but all are empty")
        return float(100 * total[0] / total[1])

    def signature(self, references: References) -> str:
        """Return the number of references, the case and the unit."""
        unit = "char" if self.name == "CER" else "space"
        return f"{references_signature(references)}|case:{'lc' if self.lowercase else 'mixed'}|tok:{unit}"


@dataclass(frozen=True)
class LineErrorRate:
    """The share of lines that equal none of their references: what pronunciation papers call word error rate."""

    lowercase: bool = False

    name = "line errors"
    higher_is_better = False

    def statistics(self, hypotheses: Sequence[str], references: References) -> Floats:
        """Return (wrong, 1) for each line."""
        equal, one = ExactMatch(self.lowercase).statistics(hypotheses, references).T
        return np.column_stack([one - equal, one])

    def score(self, total: Floats) -> float:
        """Return percent."""
        return float(100 * total[0] / total[1])

    def signature(self, references: References) -> str:
        """Return the number of references and the case."""
        return ExactMatch(self.lowercase).signature(references)
