"""Where a run is, what decides which point of it was best, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Better:
    """Which validation figure decides what is best, and whether a higher one is better."""

    metric: str = "loss"
    higher: bool = False

    def first(self, values: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
        """Return (value, update) pairs, best first; of equals, the older."""
        return sorted(values, key=lambda pair: (-pair[0] if self.higher else pair[0], pair[1]))


LOWEST_LOSS = Better()


@dataclass
class State:
    """Where a run is; with weights, optimiser and random generators, all that is needed to go on.

    Attributes:
        update: changes of the weights so far.
        epoch: pass over the data, from 0.
        batch: batches of this epoch already used.
        tokens: target tokens learned from so far.
        validated: the update of the last validation.
        since_best: validations since the best.
        best: (value, update) of the best validations, best first.
        saved: updates of the last scheduled checkpoints, oldest first.
        scale: the loss scale of float16.
        clean: updates since it changed.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    validated: int = 0
    since_best: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    scale: float = 1.0
    clean: int = 0

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> State:
        """Return the state whose fields were stored as JSON, which has lists only."""
        return cls(**{**fields, "best": [(float(value), update) for value, update in fields["best"]]})


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: ``updates``, ``epochs``, ``minutes``, ``patience``, or ``terminated`` by a signal.
        update: changes of the weights so far.
        best: (value, update) of the best validations, best first.
        saved: updates of the last scheduled checkpoints, oldest first.
        began_at: the update after which this session began; that of its end if there was nothing to do.
        seconds: spent, over all resumed runs.
    """

    reason: str
    update: int
    best: tuple[tuple[float, int], ...]
    saved: tuple[int, ...]
    began_at: int
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the options ended the run; otherwise the same command goes on."""
        return self.reason != "terminated"
