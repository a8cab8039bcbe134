"""How much of a figure, or of a difference between two systems, is the luck of the test set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regard.evaluation.metric import Floats, Metric

SAMPLES = 1000
SEED = 12_345  # the same resamples for every system and metric, today and tomorrow


def bootstrap_interval(
    metric: Metric, statistics: Floats, *, confidence: float = 0.95, samples: int = SAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """Return the percentile interval of a figure over test sets drawn with replacement (Koehn 2004, section 3).

    Args:
        metric: whose figure.
        statistics: one row per line, from ``metric.statistics``.
        confidence: the share of resampled figures inside.
        samples: how many test sets are drawn.
        seed: of the draws.
    """
    figures = [metric.score(weights @ statistics) for weights in _resamples(len(statistics), samples, seed)]
    low, high = np.quantile(figures, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def paired_bootstrap(
    metric: Metric, ours: Floats, theirs: Floats, *, samples: int = SAMPLES, seed: int = SEED
) -> float:
    """Return the two-sided p-value of the difference between two systems on the same lines.

    The differences on resampled test sets, moved so that their mean is 0, stand for what chance alone does; p is the
    share of them that are at least as large as the difference found (Koehn 2004; Riezler and Maxwell 2005).
    sacrebleu and Moses take the mean after the sign has gone, which calls small differences surer than they are.
    """
    found = metric.score(ours.sum(axis=0)) - metric.score(theirs.sum(axis=0))
    differences = np.array(
        [
            metric.score(weights @ ours) - metric.score(weights @ theirs)
            for weights in _resamples(len(ours), samples, seed)
        ]
    )
    return _p_value(differences - differences.mean(), found)


def paired_randomisation(
    metric: Metric, ours: Floats, theirs: Floats, *, samples: int = SAMPLES, seed: int = SEED
) -> float:
    """Return the two-sided p-value of the difference when each line's outputs change sides by the toss of a coin.

    Approximate randomisation assumes nothing about the test set (Riezler and Maxwell 2005).
    """
    our_total, both = ours.sum(axis=0), (ours + theirs).sum(axis=0)
    found = metric.score(our_total) - metric.score(both - our_total)
    random = np.random.default_rng(seed)
    differences = []
    for _ in range(samples):
        swapped = our_total + random.integers(2, size=len(ours)) @ (theirs - ours)
        differences.append(metric.score(swapped) - metric.score(both - swapped))
    return _p_value(np.array(differences), found)


def _resamples(num_lines: int, samples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each line is drawn, [lines], for each test set."""
    random = np.random.default_rng(seed)
    for _ in range(samples):
        yield np.bincount(random.integers(num_lines, size=num_lines), minlength=num_lines).astype(np.float64)


def _p_value(differences: Floats, found: float) -> float:
    # One is added to both: the found difference is itself one of the possible ones, and p is never 0. The margin
    # keeps an equal difference equal whatever the order of its sums.
    as_large = int((np.abs(differences) >= abs(found) - 1e-9).sum())
    return (as_large + 1) / (len(differences) + 1)
