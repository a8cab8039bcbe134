"""What happened to the tensors? The data of the report's walk section."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.inspection.facts import TensorFacts
from regard.inspection.names import IN_WALK
from regard.inspection.predictions import Choice
from regard.inspection.trace import Visit, Walk


@dataclass(frozen=True)
class WalkSection:
    """The walk tab.

    Attributes:
        walk: What ``trace`` told.
        choices: How logits became tokens, position by position, from ``choices``.
        name: The tab's name.
    """

    walk: Walk
    choices: Sequence[Choice] = ()
    name: str = "Walk"

    def data(self) -> dict[str, Any]:
        """Return the section as the page reads it."""
        return {
            "type": "walk",
            "name": self.name,
            "legend": IN_WALK,
            "visits": [_visit_data(visit) for visit in self.walk],
            "masks": {path: _mask_data(mask) for path, mask in self.walk.masks.items()},
            "gradients": [
                {"path": g.path, "norm": _finite(g.norm), "units": g.num_units, "dead": g.num_dead}
                for g in self.walk.gradients
            ],
            "choices": [_choice_data(choice) for choice in self.choices],
        }


def _choice_data(choice: Choice) -> dict[str, Any]:
    return {
        "after": choice.after,
        "token": choice.token,
        "probability": _short(_finite(choice.probability)),
        "rank": choice.rank,
        "candidates": [
            {"token": c.token, "logit": _short(_finite(c.logit)), "probability": _short(_finite(c.probability))}
            for c in choice.candidates
        ],
    }


def _visit_data(visit: Visit) -> dict[str, Any]:
    return {
        "path": visit.path,
        "name": visit.name,
        "kind": visit.kind,
        "depth": visit.depth,
        "formula": visit.formula.text,
        "source": visit.formula.source,
        "inputs": [_tensor_data(tensor) for tensor in visit.inputs],
        "outputs": [_tensor_data(tensor) for tensor in visit.outputs],
        "seconds": round(visit.seconds, 7),
        "parameters": visit.num_parameters,
    }


def _tensor_data(facts: TensorFacts) -> dict[str, Any]:
    return {
        "axes": facts.axes,
        "dtype": facts.dtype,
        "mean": _short(facts.mean),
        "std": _short(facts.std),
        "low": _short(facts.low),
        "high": _short(facts.high),
        "nan": facts.num_nan,
        "inf": facts.num_inf,
        "bytes": facts.num_bytes,
    }


def _mask_data(mask: Tensor) -> dict[str, Any]:
    bits = np.packbits(mask.numpy().reshape(-1))
    return {"rows": mask.shape[0], "columns": mask.shape[1], "data": base64.b64encode(bits.tobytes()).decode("ascii")}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and np.isfinite(value) else None
