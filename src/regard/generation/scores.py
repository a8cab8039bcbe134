"""How hypotheses of unequal length compare: log-probability and length in, score out.

A sum of log-probabilities shrinks with every token, so ranking by it prefers short outputs. Each score here corrects
for that in its own way. The length |Y| counts the end mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from regard.generation.prefixes import Floats


@runtime_checkable
class Score(Protocol):
    """Never falls when ``log_prob`` rises; rises or falls with ``length``, never both. ``best_possible`` needs both."""

    def __call__(self, log_prob: float, length: int) -> float:
        """Return the score of a hypothesis of ``length`` tokens; higher is better."""
        ...


@dataclass(frozen=True)
class Sum:
    """The plain sum of log-probabilities."""

    def __call__(self, log_prob: float, length: int) -> float:
        """Return ``log_prob``."""
        return log_prob


@dataclass(frozen=True)
class LengthPenalty:
    """``log P / ((5 + |Y|) / 6)^alpha``: Wu et al. 2016, equation 14; 0.6 in "Attention Is All You Need"."""

    alpha: float = 0.6

    def __call__(self, log_prob: float, length: int) -> float:
        """Return the penalised log-probability."""
        return float(log_prob / ((5 + length) / 6) ** self.alpha)


@dataclass(frozen=True)
class Average:
    """``log P / |Y|^alpha``: the mean log-probability of a token when alpha is 1."""

    alpha: float = 1.0

    def __call__(self, log_prob: float, length: int) -> float:
        """Return the average."""
        return float(log_prob / max(length, 1) ** self.alpha)


@dataclass(frozen=True)
class WordReward:
    """``log P + reward * |Y|``: He et al. 2016, a fixed gain for each token."""

    reward: float

    def __call__(self, log_prob: float, length: int) -> float:
        """Return the rewarded log-probability."""
        return log_prob + self.reward * length


def coverage_cost(coverage: Floats, penalty: float) -> Floats:
    """Return what it costs to have left source tokens without attention, 0 or below: Wu et al. 2016, equation 14.

    Args:
        coverage: [N, S] attention that each source token has had, 1 on padding.
        penalty: beta; what a token costs of which nothing was seen is ``penalty * log(1e-9)``.
    """
    cost: Floats = penalty * np.log(coverage.clip(1e-9, 1.0)).sum(axis=-1)
    return cost


def best_possible(score: Score, log_prob: float, shortest: int, longest: int) -> float:
    """Return a bound on the score of whatever a prefix with ``log_prob`` can become.

    Further tokens can only lower the log-probability, and for a fixed log-probability a score is monotone in length,
    so the best case keeps ``log_prob`` and lies at one of the two ends of ``shortest <= |Y| <= longest``. This holds
    for every sign of the exponent.
    """
    return max(score(log_prob, shortest), score(log_prob, longest))
