"""What does the estimator's ``verbose`` tell on stderr? What it learns from, how it goes, and the last loss."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from regard.models import SequenceClassifier
from regard.plural import plural
from regard.protocols import Observer
from regard.training.observers import Progress

_EVERY = 3.0
"""Seconds between lines that stay; those of a terminal, which are overwritten, come as `Progress` has them."""


def tellers(model: SequenceClassifier, num_cases: int, updates: int) -> list[Observer]:
    """Tell what ``model`` learns from, and return the observers that tell the rest."""
    of_what = f"{plural(num_cases, 'case')} of {plural(model.spec.num_classes, 'class', 'classes')}"
    weights = plural(sum(parameter.numel() for parameter in model.parameters()), "parameter")
    _tell(f"learning from {of_what}: {weights}, {plural(updates, 'update')}")
    last: dict[str, Any] = {}

    def end(event: str, facts: Mapping[str, Any]) -> None:
        if event == "update":
            last.update(facts)
        elif event == "ended" and last:
            _tell(f"ended after {plural(last['update'], 'update')}: loss {last['loss']:.3f} nats/case")

    return [Progress(unit="case", every=None if sys.stderr.isatty() else _EVERY), end]


def tell_part(number: int, num_cases: int, events: Sequence[Mapping[str, Any]]) -> None:
    """Tell what was learned from part ``number``."""
    made = f"{plural(num_cases, 'case')}, {plural(len(events), 'update')}"
    _tell(f"part {number}: {made}, loss {events[-1]['loss']:.3f} nats/case")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
