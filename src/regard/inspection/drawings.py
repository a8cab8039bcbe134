"""How does it look in a terminal? Masks as triangles, weights as numbers, the walk and the ledger as tables.

Axes: Lq queries, Lk keys.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError
from regard.inspection.ledger import Ledger
from regard.inspection.trace import Walk

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
    table = [["", *columns], *([name, *line] for name, line in zip(rows, cells, strict=True))]
    return _table(table, left=0, least=digits + 2)


def draw_walk(walk: Walk, *, depth: int = 99) -> str:
    """Return a line per call down to ``depth``: what goes in and out, its numbers, its time and its formula."""
    table = [["module", "in", "out", "type", "mean", "std", "min", "max", "bad", "ms"]]
    for visit in walk:
        if visit.depth > depth:
            continue
        shapes = (" ".join(f"[{t.axes}]" for t in tensors) for tensors in (visit.inputs, visit.outputs))
        numbers = [""] * 6
        if visit.outputs:
            out = visit.outputs[0]
            bad = str(out.num_nan + out.num_inf or "")
            numbers = [out.dtype, *map(_number, (out.mean, out.std, out.low, out.high)), bad]
        name = "  " * visit.depth + (visit.path.split(".")[-1] or visit.kind)
        table.append([name, *shapes, *numbers, f"{1000 * visit.seconds:.2f}"])
    formulas = ["", *(str(visit.formula) for visit in walk if visit.depth <= depth)]
    lines = zip(_table(table, left=4, gap=2).split("\n"), formulas, strict=True)
    return "\n".join(f"{line}   {formula}".rstrip() for line, formula in lines)


def draw_ledger(ledger: Ledger, *, depth: int = 3) -> str:
    """Return a line per module down to ``depth`` with its parts included; columns that are zero are left out."""
    names = {"parameters": "parameters", "num_bytes": "bytes", "flops": "FLOPs", "activations": "kept for backward"}
    shown = {name: title for name, title in names.items() if getattr(ledger.total, name)}
    table = [["module", *shown.values()]]
    for entry in ledger:
        if entry.depth <= depth:
            name = "  " * entry.depth + (entry.path.split(".")[-1] or entry.kind)
            table.append([name, *(f"{getattr(entry.total, column):,}" for column in shown)])
    return _table(table, left=1, gap=2)


def _table(rows: Sequence[Sequence[str]], *, left: int, gap: int = 1, least: int = 0) -> str:
    """Return rows of cells below each other, the first ``left`` columns flush left and the others flush right."""
    widths = [max(least if i else 0, *map(_width, column)) for i, column in enumerate(zip(*rows, strict=True))]
    lines = []
    for row in rows:
        cells = [
            cell + " " * (width - _width(cell)) if i < left else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * gap).join(cells).rstrip())
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: wide East Asian signs and emoji take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
