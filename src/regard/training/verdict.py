"""How did the loss go? A curve read as a person would, by rules that are written down.

Training losses are means over tokens of ten equal stretches of updates; of validation, each figure counts. In this
order:

============  =======================================================================================================
too short     fewer than 20 updates
diverged      the last stretch is more than 5 % above the best one, and has lost half or more of what that had gained on
              the first; or it is not finite
overfitting   three or more validations came after the lowest loss, the last is more than 1 % above it, and the
              training loss has fallen since
falling       the newest third of the validations (of the stretches, if there are fewer than six validations) has a
              lowest loss more than 1 % below that of everything before
plateau       anything else
============  =======================================================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.plural import plural

STRETCHES, LEAST_UPDATES, LEAST_VALIDATIONS = 10, 20, 6
CLEARLY = 0.01  # a change of the loss, as a share of it, that is no noise
DIVERGED = 0.05

Kind = Literal["too short", "diverged", "overfitting", "falling", "plateau"]


@dataclass(frozen=True)
class Curve:
    """What a run logged.

    Attributes:
        updates: (update, mean loss of a token, tokens), oldest first.
        validations: (update, loss), oldest first.
    """

    updates: Sequence[tuple[int, float, int]]
    validations: Sequence[tuple[int, float]]

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Curve:
        """Read the events of a log; what was not finite is null there."""
        updates, validations = [], []
        for event in events:
            if event.get("event") == "update":
                updates.append((event["update"], _number(event["loss"]), event["tokens"]))
            elif event.get("event") == "validation" and "loss" in event["figures"]:
                validations.append((event["update"], _number(event["figures"]["loss"])))
        return cls(updates, validations)

    @classmethod
    def read(cls, log: str | Path) -> Curve:
        """Read ``log.jsonl``; lines that were cut are left out, and without a file there is nothing."""
        events = []
        try:
            lines = Path(log).read_bytes().split(b"\n")
        except OSError:
            lines = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return cls.of(events)

    @property
    def tokens(self) -> int:
        """Target tokens learned from."""
        return sum(tokens for _, _, tokens in self.updates)

    def stretches(self) -> list[tuple[int, float]]:
        """Return (last update, mean loss of a token) of ten equal parts."""
        size = len(self.updates) / STRETCHES
        parts = [self.updates[round(i * size) : round((i + 1) * size)] for i in range(STRETCHES)]
        return [
            (part[-1][0], sum(loss * tokens for _, loss, tokens in part) / sum(tokens for _, _, tokens in part))
            for part in parts
            if part
        ]


@dataclass(frozen=True)
class Verdict:
    """What a curve says.

    Attributes:
        kind: one of the words above.
        sentence: the same for a person, with figures and what to do.
    """

    kind: Kind
    sentence: str


def verdict(curve: Curve) -> Verdict:
    """Judge a curve by the rules above."""
    if len(curve.updates) < LEAST_UPDATES:
        return Verdict(
            "too short", f"{plural(len(curve.updates), 'update is', 'updates are')} too few to judge the loss by"
        )
    stretches = curve.stretches()
    first, last = stretches[0][1], stretches[-1][1]
    best = min((loss for _, loss in stretches if math.isfinite(loss)), default=math.nan)
    lost, gained = last - best, first - best
    if not math.isfinite(last) or (lost > DIVERGED * best and lost >= gained / 2):
        return Verdict(
            "diverged",
            f"the training loss has diverged: {_shown(best)} at its lowest and {_shown(last)} at the end; a new run "
            "with a lower learning_rate or a longer warmup may hold",
        )
    return _overfitting(curve, stretches) or _falling_or_not(curve, stretches)


def _overfitting(curve: Curve, stretches: Sequence[tuple[int, float]]) -> Verdict | None:
    if not curve.validations:
        return None
    losses = [loss for _, loss in curve.validations]
    lowest = min(range(len(losses)), key=losses.__getitem__)
    update, loss = curve.validations[lowest]
    then = next((of for end, of in stretches if end >= update), stretches[-1][1])
    if len(losses) - 1 - lowest >= 3 and losses[-1] > (1 + CLEARLY) * loss and stretches[-1][1] < then:
        return Verdict(
            "overfitting",
            f"overfitting: the validation loss was lowest, {_shown(loss)}, after update {update:,}, and is "
            f"{_shown(losses[-1])} now, while the training loss went on falling; more of the same will not help, more "
            "text, more dropout or a smaller model may",
        )
    return None


def _falling_or_not(curve: Curve, stretches: Sequence[tuple[int, float]]) -> Verdict:
    validated = len(curve.validations) >= LEAST_VALIDATIONS
    what, points = ("validation", curve.validations) if validated else ("training", stretches)
    newest = max(1, len(points) // 3)
    before, after = min(loss for _, loss in points[:-newest]), min(loss for _, loss in points[-newest:])
    figures = f"{_shown(after)} now, {_shown(before)} up to update {points[-newest - 1][0]:,}"
    if after < (1 - CLEARLY) * before:
        return Verdict("falling", f"the {what} loss is still falling: {figures}; longer training will help")
    return Verdict("plateau", f"the {what} loss has reached a plateau: {figures}; more of the same will hardly help")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _shown(loss: float) -> str:
    return f"{loss:.3g}" if math.isfinite(loss) else "not finite"
