"""What is a part of a model called where people read? Layers, heads and steps are counted from 1, everywhere."""

from __future__ import annotations

import re

COUNTED = "Layers, heads and steps are counted from 1: layers:3 here is layers[2] in Python."
"""The convention, told below what is counted."""

IN_WALK = f"{COUNTED} A part stands below what calls it; times are wall time of one run."
IN_LEDGER = f"{COUNTED} A part stands below what it belongs to."
"""What is told below the two trees, which differ where a part is called by another than it belongs to."""


def counted(path: str) -> str:
    """Return ``encoder.layers:3.norm`` for the module ``encoder.layers.2.norm``; a bare ``0`` becomes ``:1``."""
    return re.sub(r"(?:^|\.)(\d+)(?=\.|$)", lambda number: f":{int(number[1]) + 1}", path)


def module_name(path: str, kind: str, *, alone: bool = False) -> str:
    """Return ``EncoderLayer 3`` for ``encoder.layers.2``, and the last step of any other path.

    Args:
        path: Where it is in the model.
        kind: Its class.
        alone: It does not stand below what it is part of, so that its last step would not tell it from others.
    """
    last = path.rpartition(".")[2]
    if last.isdigit():
        return f"{kind} {int(last) + 1}"
    return counted(path) if alone and path else last or kind


def step_name(owner: str, step: str, inside: str) -> str:
    """Return the name of a step that the module ``owner`` takes while the module ``inside`` runs."""
    if owner == inside:
        return step
    return f"{owner.rpartition('.')[2]}.{step}" if inside else counted(f"{owner}.{step}")
