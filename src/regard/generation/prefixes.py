"""The unfinished hypotheses of a batch, side by side.

Axes: N prefixes, T words so far, S source length. All of it lives on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prefixes:
    """What still runs, sorted by race; in a beam search, best first within a race.

    Attributes:
        race: [N] where each prefix competes: its sentence's place in the batch, or one of the groups of it.
        sentence: [N] the number by which the caller knows its sentence.
        most: [N] words that it may have.
        ids: [N, T] the words, without BOS.
        log_probs: [N, T] the model's log-probability of each.
        adjustment: [N] what controls have added to their sum.
        coverage: [N, S] attention that each source token has had, 1 on padding; [N, 0] when nobody asks.
    """

    race: Ints
    sentence: Ints
    most: Ints
    ids: Ints
    log_probs: Floats
    adjustment: Floats
    coverage: Floats

    @classmethod
    def beginnings(cls, sentence: Ints, most: Ints, coverage: Floats | None = None) -> Prefixes:
        """Return an empty prefix for each of the sentences, each in its own race, with at most ``most`` words."""
        count = len(sentence)
        nothing = np.zeros((count, 0))
        return cls(
            race=np.arange(count),
            sentence=sentence,
            most=most,
            ids=nothing.astype(np.int64),
            log_probs=nothing,
            adjustment=np.zeros(count),
            coverage=nothing if coverage is None else coverage,
        )

    def __len__(self) -> int:
        return len(self.race)

    @property
    def num_words(self) -> int:
        """Return T."""
        return int(self.ids.shape[1])

    @property
    def totals(self) -> Floats:
        """Return what the prefixes are ranked by, [N]: log-probability and adjustment."""
        totals: Floats = self.log_probs.sum(axis=1) + self.adjustment
        return totals

    def at(self, rows: Ints | npt.NDArray[np.bool_]) -> Prefixes:
        """Return the prefixes at ``rows``: indices, which may repeat, or a choice of them."""
        return Prefixes(*(getattr(self, field.name)[rows] for field in fields(self)))

    def extended(self, words: Ints, log_probs: Floats, added: Floats, attention: Floats | None = None) -> Prefixes:
        """Return each prefix with one word more, its log-probability, what controls added, where it looked [N, S]."""
        return Prefixes(
            race=self.race,
            sentence=self.sentence,
            most=self.most,
            ids=np.column_stack([self.ids, words]),
            log_probs=np.column_stack([self.log_probs, log_probs]),
            adjustment=self.adjustment + added,
            coverage=self.coverage if attention is None else self.coverage + attention,
        )
