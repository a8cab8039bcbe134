"""What has finished in each race, and whether anything that still runs can win.

Axes: R races (one per sentence, or per group of a sentence), N prefixes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from regard.generation.hypothesis import Hypothesis, ranked
from regard.generation.options import SearchOptions
from regard.generation.phrases import ForcedPhrases
from regard.generation.prefixes import Ints, Prefixes
from regard.generation.scores import best_possible, coverage_cost


class Races:
    """The hypotheses that hold a place for good, race by race, and the limits of each race.

    Args:
        options: score, width and n-best.
        fewest: [R] words that a sentence must have.
        most: [R] words that it may have.
        ceiling: the highest score that controls can give a word; log-probabilities alone never exceed 0.
        phrases: what hypotheses must contain.
    """

    def __init__(
        self,
        options: SearchOptions,
        fewest: Ints,
        most: Ints,
        ceiling: float = 0.0,
        phrases: ForcedPhrases | None = None,
    ) -> None:
        self.fewest, self.most = fewest, most
        self._width = options.beam // options.groups
        self._nbest = min(options.nbest, self._width)
        self._coverage_penalty = options.coverage_penalty
        self._score = options.scorer()
        self._ceiling = ceiling
        self._phrases = phrases or ForcedPhrases({})
        self._done: list[list[Hypothesis]] = [[] for _ in most]

    @property
    def places(self) -> Ints:
        """Return how many prefixes may still run, [R]."""
        return self._width - np.array([len(hypotheses) for hypotheses in self._done], dtype=np.int64)

    def done(self, race: int) -> list[Hypothesis]:
        """Return the hypotheses of a race, best first."""
        return ranked(self._done[race])

    def add(self, prefixes: Prefixes, *, finished: bool) -> None:
        """Give each of the prefixes a place for good; the last id of a finished one is its end mark."""
        coverage = coverage_cost(prefixes.coverage, self._coverage_penalty)
        words = (prefixes.ids[:, :-1] if finished else prefixes.ids).tolist()
        for n, (race, sentence) in enumerate(zip(prefixes.race.tolist(), prefixes.sentence.tolist(), strict=True)):
            parts, adjustment = tuple(prefixes.log_probs[n].tolist()), float(prefixes.adjustment[n])
            score = self._score(math.fsum(parts) + adjustment, len(parts)) + float(coverage[n])
            missing = tuple(self._phrases.missing(sentence, words[n]))
            self._done[race].append(Hypothesis(tuple(words[n]), parts, score, finished, adjustment, missing))

    def open(self, prefixes: Prefixes) -> npt.NDArray[np.bool_]:
        """Tell of each race whether one of its prefixes, sorted best first, can still enter the n-best, [R].

        The bound holds for the coverage penalty too, which can at best become 0.
        """
        still = np.zeros(len(self._done), dtype=bool)
        races, first = np.unique(prefixes.race, return_index=True)
        for race, total in zip(races.tolist(), prefixes.totals[first].tolist(), strict=True):
            hypotheses = self._done[race]
            if len(hypotheses) < self._nbest:
                still[race] = True
                continue
            kept = sorted(hypothesis.score for hypothesis in hypotheses)[-self._nbest]
            shortest = max(prefixes.num_words, int(self.fewest[race])) + 1  # the end mark
            longest = int(self.most[race]) + 1
            total += self._ceiling * (longest - prefixes.num_words)
            still[race] = best_possible(self._score, total, shortest, longest) > kept
        return still
