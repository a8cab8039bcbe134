"""How long does a training on so many cases last where nobody says so? The same for the estimator and for recipes."""

from __future__ import annotations

from dataclasses import dataclass

BATCH_SIZE = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.01

PASSES, FEWEST, MOST = 40, 300, 20_000
"""Updates where none are asked for: so many passes over the cases, and within these bounds."""

WARMUP = FEWEST // 10
"""Updates of linear rise where nobody knows how many there will be."""


@dataclass(frozen=True)
class Pace:
    """How long, and how often is looked.

    Attributes:
        updates: changes of the weights.
        warmup: updates of linear rise at the start.
        validate_every: updates between validations: a pass, but 20 at least.
    """

    updates: int
    warmup: int
    validate_every: int


def pace(num_cases: int, batch_size: int, updates: int | None = None) -> Pace:
    """Return what fits so many cases; ``updates`` that somebody chose stay."""
    a_pass = -(-num_cases // batch_size)
    chosen = min(max(PASSES * a_pass, FEWEST), MOST) if updates is None else updates
    return Pace(chosen, max(chosen // 10, 1), max(a_pass, 20))
