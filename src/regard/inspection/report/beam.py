"""How did the search get there? The data of the report's beam section."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import InputError


@dataclass(frozen=True)
class Beam:
    """One hypothesis after one step.

    Attributes:
        token: What this step added, as it shall be read.
        score: What hypotheses are ranked by.
        parent: The rank, from 0, in the step before of the hypothesis it goes on from; None in the first.
        finished: Whether it ended here.
        log_prob: The sum of the log-probabilities of its tokens, if known.
    """

    token: str
    score: float
    parent: int | None = None
    finished: bool = False
    log_prob: float | None = None


@dataclass(frozen=True)
class BeamSection:
    """The beam tab.

    Attributes:
        steps: Per step its hypotheses, the best first.
        won: Step and rank, from 0, of the hypothesis that became the output; it need not be in the last step.
        note: A sentence below: how scores are made, say.
        name: The tab's name.
    """

    steps: Sequence[Sequence[Beam]]
    won: tuple[int, int] | None = None
    note: str = ""
    name: str = "Beam"

    def data(self) -> dict[str, Any]:
        """Return the section as the page reads it.

        Raises:
            InputError: a step is empty, a parent or the winner is not there, or a score is not finite.
        """
        if not self.steps or not all(self.steps):
            raise InputError("a beam must have at least one step, and each step at least one hypothesis")
        ranks = 0
        for number, step in enumerate(self.steps, 1):
            for beam in step:
                if not math.isfinite(beam.score):
                    raise InputError(
                        f"the score of {beam.token!r} in step {number} must be finite, but is {beam.score}"
                    )
                if beam.parent is not None and not 0 <= beam.parent < ranks:
                    raise InputError(f"step {number} goes on from rank {beam.parent}, but the one before has {ranks}")
            ranks = len(step)
        if self.won is not None:
            step_number, rank = self.won
            if not (0 <= step_number < len(self.steps) and 0 <= rank < len(self.steps[step_number])):
                raise InputError(f"the winner is at step {step_number} and rank {rank}, from 0, where nothing is")
        return {
            "type": "beam",
            "name": self.name,
            "steps": [[asdict(beam) for beam in step] for step in self.steps],
            "won": self.won,
            "note": self.note,
        }
