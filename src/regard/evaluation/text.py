"""Overlap of texts: BLEU, chrF and TER as sacrebleu computes them, and exact match.

sacrebleu is imported when a metric is first used, since that takes longer than most evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from regard.evaluation.metric import Floats, References, references_signature

BleuTokenizer = Literal["13a", "none", "intl", "zh", "char"]


class _OfSacrebleu:
    """A metric of sacrebleu's, whose per-line statistics stand behind underscores; its own tests use these doors."""

    _peer: Any

    def statistics(self, hypotheses: Sequence[str], references: References) -> Floats:
        """Return the counts of each line that the score is made of, [lines, counts]."""
        return np.array(self._peer._extract_corpus_statistics(hypotheses, _streams(references)), dtype=np.float64)

    def score(self, total: Floats) -> float:
        """Return 0 to 100, or errors in percent."""
        return float(self._peer._compute_score_from_stats(total.tolist()).score)

    def signature(self, references: References) -> str:
        """Return sacrebleu's signature."""
        self._peer._cache_references(_streams(references))  # counts the references
        return str(self._peer.get_signature())


@dataclass(frozen=True)
class Bleu(_OfSacrebleu):
    """Papineni et al. 2002, by sacrebleu (Post 2018).

    Attributes:
        tokenize: ``13a`` for ordinary text, ``none`` for text that is already tokenised, ``zh`` for Chinese, ...
        lowercase: compare without case.
    """

    tokenize: BleuTokenizer = "13a"
    lowercase: bool = False

    name = "BLEU"
    higher_is_better = True

    @cached_property
    def _peer(self) -> Any:
        from sacrebleu.metrics import BLEU

        # force: no warning about tokenised text, which `tokenize` has already declared
        return BLEU(tokenize=self.tokenize, lowercase=self.lowercase, force=True)


@dataclass(frozen=True)
class ChrF(_OfSacrebleu):
    """Popović 2015, by sacrebleu.

    Attributes:
        word_order: 0 is chrF, 2 is chrF++.
        lowercase: compare without case.
    """

    word_order: int = 0
    lowercase: bool = False

    higher_is_better = True

    @property
    def name(self) -> str:
        """Return chrF with a plus for each order of words."""
        return "chrF" + "+" * self.word_order

    @cached_property
    def _peer(self) -> Any:
        from sacrebleu.metrics import CHRF

        return CHRF(word_order=self.word_order, lowercase=self.lowercase)


@dataclass(frozen=True)
class Ter(_OfSacrebleu):
    """Snover et al. 2006, by sacrebleu: edits, shifts included, per reference word.

    Attributes:
        lowercase: compare without case (what sacrebleu does unless told).
    """

    lowercase: bool = False

    name = "TER"
    higher_is_better = False

    @cached_property
    def _peer(self) -> Any:
        from sacrebleu.metrics import TER

        return TER(case_sensitive=not self.lowercase)


@dataclass(frozen=True)
class ExactMatch:
    """The share of lines that equal one of their references, character for character."""

    lowercase: bool = False

    name = "exact"
    higher_is_better = True

    def statistics(self, hypotheses: Sequence[str], references: References) -> Floats:
        """Return (equal, 1) for each line."""
        fold = str.lower if self.lowercase else str
        equal = [
            fold(line) in [fold(reference) for reference in of_line]
            for line, of_line in zip(hypotheses, references, strict=True)
        ]
        return np.column_stack([equal, np.ones(len(equal))])

    def score(self, total: Floats) -> float:
        """Return percent."""
        return float(100 * total[0] / total[1])

    def signature(self, references: References) -> str:
        """Return the number of references and the case."""
        return f"{references_signature(references)}|case:{'lc' if self.lowercase else 'mixed'}"


def _streams(references: References) -> list[list[str | None]]:
    """Return references as sacrebleu wants them: one stream per rank, None where a line has fewer."""
    return [list(stream) for stream in zip_longest(*references)]
