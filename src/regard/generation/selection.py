"""Which extensions of the prefixes take the free places.

Axes: N prefixes, K candidates per prefix, M chosen ones, R races.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from regard.generation.prefixes import Floats, Ints, Prefixes


@runtime_checkable
class Selection(Protocol):
    """A rule by which a beam chooses."""

    def wanted(self, prefixes: Prefixes) -> Ints | None:
        """Return words that must be among the candidates however improbable, [N, P], padded with PAD."""
        ...

    def choose(self, prefixes: Prefixes, words: Ints, totals: Floats, places: Ints) -> tuple[Ints, Ints]:
        """Return row and column of the chosen candidates, [M] each, sorted by race and best first.

        Args:
            prefixes: what is extended.
            words: [N, K] by which words.
            totals: [N, K] the sums that they would then have; -inf is never chosen.
            places: [R] how many each race may choose.
        """
        ...


@dataclass(frozen=True)
class Best:
    """The highest sums."""

    def wanted(self, prefixes: Prefixes) -> None:
        """Want nothing but the best."""

    def choose(self, prefixes: Prefixes, words: Ints, totals: Floats, places: Ints) -> tuple[Ints, Ints]:
        """Return the best candidates of each race."""
        return best(prefixes.race, totals, places)


@dataclass(frozen=True)
class Diverse:
    """Races come in runs of ``groups``, one after the other choosing what its predecessors have not.

    Vijayakumar et al. 2018 with the Hamming distance: in a group's choice a word costs ``diversity`` for each time that
    an earlier group of the sentence has taken it in this step. Scores are not touched.

    Attributes:
        groups: races per sentence.
        diversity: in nats.
    """

    groups: int
    diversity: float

    def wanted(self, prefixes: Prefixes) -> None:
        """Want nothing but the best."""

    def choose(self, prefixes: Prefixes, words: Ints, totals: Floats, places: Ints) -> tuple[Ints, Ints]:
        """Return the choice of each group."""
        first_race = prefixes.race - prefixes.race % self.groups
        word_of_sentence = first_race[:, None] * (words.max() + 1) + words
        taken = np.zeros(0, dtype=np.int64)
        rows, columns = [], []
        for group in range(self.groups):
            times = np.searchsorted(taken, word_of_sentence, "right") - np.searchsorted(taken, word_of_sentence, "left")
            in_group = (prefixes.race % self.groups == group)[:, None]
            penalised = np.where(in_group, totals - self.diversity * times, -np.inf)
            its_rows, its_columns = best(prefixes.race, penalised, places)
            rows.append(its_rows)
            columns.append(its_columns)
            taken = np.sort(np.concatenate([taken, word_of_sentence[its_rows, its_columns]]))
        return in_order(prefixes.race, totals, np.concatenate(rows), np.concatenate(columns))


def best(race: Ints, totals: Floats, places: Ints) -> tuple[Ints, Ints]:
    """Return row and column of the ``places[r]`` highest finite totals of each race r, in order."""
    rows, columns = in_order(race, totals, *np.nonzero(totals > -np.inf))
    races = race[rows]
    rank = np.arange(len(races)) - np.searchsorted(races, races)
    keep = rank < places[races]
    return rows[keep], columns[keep]


def in_order(race: Ints, totals: Floats, rows: Ints, columns: Ints) -> tuple[Ints, Ints]:
    """Return the candidates sorted by race and, within it, best first."""
    order = np.lexsort((-totals[rows, columns], race[rows]))
    return rows[order], columns[order]
