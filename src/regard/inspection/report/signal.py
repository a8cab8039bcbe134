"""What in a signal made the model answer as it did? The data of the report's signal section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SignalView:
    """One case and how much each of its values counted.

    Attributes:
        title: what it is called in the list.
        answer: what the model said.
        signal: channels of values.
        views: name -> channels of weights, above 0 for the answer and below against it; one channel stands for all.
    """

    title: str
    answer: str
    signal: Sequence[Sequence[float]]
    views: dict[str, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class SignalSection:
    """The signals tab: each case drawn over time, with its weights behind it.

    Attributes:
        cases: to choose from.
        note: a sentence that says what the weights mean.
        name: the tab's name.
    """

    cases: Sequence[SignalView]
    note: str = ""
    name: str = "Signals"

    def data(self) -> dict[str, Any]:
        """Return the section as the page reads it; four digits are more than a screen shows."""
        return {
            "type": "signal",
            "name": self.name,
            "note": self.note,
            "cases": [
                {
                    "title": case.title,
                    "answer": case.answer,
                    "signal": [_short(channel) for channel in case.signal],
                    "views": [
                        {"name": name, "weights": [_short(channel) for channel in channels]}
                        for name, channels in case.views.items()
                    ],
                }
                for case in self.cases
            ],
        }


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
