"""How does a matrix look in a terminal? Masks as triangles, weights as numbers.

Axes: Lq queries, Lk keys.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError

MAX_SIDE = 40
"""Rows and columns drawn; of a larger mask every n-th is."""


def draw_mask(mask: Bool[Tensor, "Lq Lk"]) -> str:
    """Return the mask with ■ where a query (row) may attend to a key (column): causal masks are triangles.

    ::

        ■··
        ■■·
        ■■■
    """
    step = max(1, -(-max(mask.shape) // MAX_SIDE))
    lines = ["".join("■" if allowed else "·" for allowed in row) for row in mask[::step, ::step].tolist()]
    if step > 1:
        lines.append(f"(one in {step} rows and columns of {mask.shape[0]} × {mask.shape[1]})")
    return "\n".join(lines)


def draw_weights(
    weights: Float[Tensor, "Lq Lk"], rows: Sequence[str], columns: Sequence[str], *, digits: int = 2
) -> str:
    """Return the weights of one head as a table of numbers with its tokens; exact zeros are left blank."""
    if weights.shape != (len(rows), len(columns)):
        raise InputError(
            f"{len(rows)} rows and {len(columns)} columns were named, but weights are {list(weights.shape)}"
        )
    cells = [["" if w == 0 else f"{w:.{digits}f}" for w in row] for row in weights.tolist()]
    width = max([digits + 2, *map(_width, columns)])
    margin = max(map(_width, rows), default=0)
    lines = [" " * margin + "".join(" " + _padded(name, width) for name in columns)]
    lines += [
        _padded(name, margin) + "".join(" " + _padded(cell, width) for cell in line)
        for name, line in zip(rows, cells, strict=True)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: wide East Asian signs and emoji take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text
