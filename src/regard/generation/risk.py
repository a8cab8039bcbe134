"""Minimum Bayes risk: of several outputs, the one that is most like all the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from regard.generation.hypothesis import Hypothesis

Utility = Callable[[tuple[int, ...], tuple[int, ...]], float]
"""How good the first output is if the second is right, such as the chrF of their texts."""


def least_risk(samples: Sequence[Hypothesis], utility: Utility) -> list[Hypothesis]:
    """Return the distinct outputs, best first, each with its expected utility as score (Eikema and Aziz 2020).

    Args:
        samples: of one sentence, drawn from the model: an output counts as often as it was drawn.
        utility: asked once for each ordered pair of distinct outputs, and for each output with itself.
    """
    times = Counter(hypothesis.ids for hypothesis in samples)
    distinct = {hypothesis.ids: hypothesis for hypothesis in samples}
    scored = [
        replace(hypothesis, score=sum(count * utility(ids, other) for other, count in times.items()) / len(samples))
        for ids, hypothesis in distinct.items()
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)
