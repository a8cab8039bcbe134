"""How does it look in a terminal? Masks as triangles, weights as numbers, the walk and the ledger as tables.

Axes: Lq queries, Lk keys.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError
from regard.inspection.ledger import Ledger
from regard.inspection.predictions import Choice
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


def draw_masks(masks: Mapping[str, Bool[Tensor, "Lq Lk"]]) -> str:
    """Return each different mask once, below the paths of the attentions that have it."""
    drawn: dict[str, list[str]] = {}
    for path, mask in masks.items():
        drawn.setdefault(draw_mask(mask), []).append(path)
    return "\n".join(f"{', '.join(_runs(paths))}\n{picture}" for picture, paths in drawn.items())


def _runs(paths: Sequence[str]) -> list[str]:
    """Return ``a.0-3.b`` for ``a.0.b``, ``a.1.b``, ``a.2.b`` and ``a.3.b``."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        number = re.search(r"\d+", path)
        before, after = (path[: number.start()], path[number.end() :]) if number else (path, "")
        found.setdefault((before, after), []).append(number[0] if number else "")
    return [
        before + (numbers[0] if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}") + after
        for (before, after), numbers in found.items()
    ]


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
    return draw_table(table, left=(), gap=1, least=digits + 2)


def draw_walk(walk: Walk, *, depth: int = 99, width: int | None = None) -> str:
    """Return a line per call down to ``depth``: its shapes, numbers of what came out, time, memory and formula.

    One shape stands for in and out alike where the two do not differ; columns that would be empty are left out.

    Args:
        walk: What ``trace`` told.
        depth: Calls further inside are left out.
        width: Columns of the terminal: longer lines lose their end.
    """
    visits = [visit for visit in walk if visit.depth <= depth]
    has_bad = any(out.num_nan or out.num_inf for visit in visits for out in visit.outputs[:1])
    types = {out.dtype for visit in visits for out in visit.outputs[:1]}
    table = [["module", "in → out", "type", "mean", "std", "min", "max", "bad", "ms", "memory"]]
    for visit in visits:
        before, after = (" ".join(f"[{t.axes}]" for t in tensors) for tensors in (visit.inputs, visit.outputs))
        numbers = [""] * 6
        if visit.outputs:
            out = visit.outputs[0]
            bad = str(out.num_nan + out.num_inf or "")
            numbers = [out.dtype, *map(_number, (out.mean, out.std, out.low, out.high)), bad]
        table.append(
            [
                "  " * visit.depth + _name(visit.path, visit.kind),
                after if before == after else f"{before} → {after}",
                *numbers,
                f"{1000 * visit.seconds:.2f}",
                _memory(sum(t.num_bytes for t in visit.outputs)),
            ]
        )
    dull = {"type": len(types) < 2, "bad": not has_bad}
    kept = [i for i, title in enumerate(table[0]) if not dull.get(title)]
    drawn = draw_table([[row[i] for i in kept] for row in table], left=(0, 1, *([2] if 2 in kept else []))).split("\n")
    formulas = ["", *(str(visit.formula) for visit in visits)]
    lines = [f"{line}   {formula}".rstrip() for line, formula in zip(drawn, formulas, strict=True)]
    if dull["type"] and types:
        lines.append(f"All of it is {types.pop()}.")
    return "\n".join(_cropped(line, width) for line in lines)


def draw_choices(choices: Sequence[Choice], *, others: int = 3) -> str:
    """Return a line per target position: what was read, what came next, and what else it might have been."""
    table = [["after", "came", "", "logit", *(["might have come"] if others else [])]]
    for choice in choices:
        logits = {candidate.token: candidate.logit for candidate in choice.candidates}
        rivals = [c for c in choice.candidates if c.token != choice.token][:others]
        table.append(
            [
                choice.after,
                choice.token,
                _percent(choice.probability),
                _number(logits.get(choice.token)),
                *(["   ".join(f"{c.token} {_percent(c.probability)}" for c in rivals)] if others else []),
            ]
        )
    return draw_table(table, left=(0, 1, 4))


def draw_gradients(walk: Walk) -> str:
    """Return a line per parameter: its shape, the norm of its gradient, and its units that get none."""
    table = [["parameter", "shape", "norm", "units", "dead", "bad"]]
    for g in walk.gradients:
        norm = "none" if g.norm is None else _number(g.norm)
        dead = f"{g.num_dead:,}" if g.num_dead else ""
        table.append([g.path, " × ".join(map(str, g.shape)), norm, f"{g.num_units:,}", dead, str(g.num_bad or "")])
    return draw_table(table, left=(0, 1))


def draw_ledger(ledger: Ledger, *, depth: int = 3) -> str:
    """Return a line per module down to ``depth`` with its parts included; columns that are zero are left out."""
    names = {"parameters": "parameters", "num_bytes": "bytes", "flops": "FLOPs", "activations": "kept for backward"}
    shown = {name: title for name, title in names.items() if getattr(ledger.total, name)}
    table = [["module", *shown.values()]]
    for entry in ledger:
        if entry.depth <= depth:
            name = "  " * entry.depth + _name(entry.path, entry.kind)
            table.append([name, *(f"{getattr(entry.total, column):,}" for column in shown)])
    return draw_table(table, left=(0,))


def draw_table(rows: Sequence[Sequence[str]], *, left: Collection[int], gap: int = 2, least: int = 0) -> str:
    """Return rows of cells below each other, the columns ``left`` flush left and the others flush right."""
    widths = [max(least if i else 0, *map(_width, column)) for i, column in enumerate(zip(*rows, strict=True))]
    lines = []
    for row in rows:
        cells = [
            cell + " " * (width - _width(cell)) if i in left else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * gap).join(cells).rstrip())
    return "\n".join(lines)


def _name(path: str, kind: str) -> str:
    """Return ``EncoderLayer 3`` for ``encoder.layers.2``: people count from 1."""
    last = path.rpartition(".")[2]
    return f"{kind} {int(last) + 1}" if last.isdigit() else last or kind


def _memory(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000 or unit == "MB":
            break
        number /= 1000
    return f"{number:.3g} {unit}"


def _cropped(line: str, width: int | None) -> str:
    if width is None or _width(line) <= width:
        return line
    while _width(line) >= width:
        line = line[:-1]
    return line + "…"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: wide East Asian signs and emoji take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
