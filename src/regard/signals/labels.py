"""What is a label, and what stands where there is none?"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from regard.errors import ShapeError
from regard.signals.cases import Array

LABELS = ("y", "label", "labels", "class", "target")
"""What an array or a column of labels is called, when nothing says so."""

NO_LABEL = ("", "nan", "NaN", "NA", "N/A")
"""What other programs write where there is no label."""


def can_store(labels: npt.NDArray[Any]) -> bool:
    """Return whether a file can hold them without pickle: numbers, booleans, or texts."""
    kind = labels.dtype.kind
    return kind in "iufbU" or (kind == "O" and all(isinstance(label, str) for label in labels.tolist()))


def as_texts(values: Array) -> list[str]:
    """Return labels or groups as text: 3 and 3.0 are ``3``, bytes are UTF-8.

    Raises:
        ShapeError: there is not one value a case.
    """
    if values.ndim != 1:
        raise ShapeError(f"labels and groups must be one value a case, but have shape {list(values.shape)}")
    return [_as_text(value) for value in values.tolist()]


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
