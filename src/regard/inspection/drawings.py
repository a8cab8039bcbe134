"""How does it look in a terminal? Masks as triangles, weights as numbers, the walk and the ledger as tables.

Axes: Lq queries, Lk keys.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import InputError
from regard.inspection.facts import TensorFacts
from regard.inspection.ledger import Ledger
from regard.inspection.names import counted, module_name
from regard.inspection.predictions import Choice
from regard.inspection.trace import Walk
from regard.plural import plural

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
    """Return each different mask once, below the names of the attentions that have it."""
    drawn: dict[str, list[str]] = {}
    for path, mask in masks.items():
        drawn.setdefault(draw_mask(mask), []).append(counted(path))
    return "\n".join(f"{', '.join(_runs(paths))}\n{picture}" for picture, paths in drawn.items())


def _runs(paths: Sequence[str]) -> list[str]:
    """Return ``a:1-3.b`` for ``a:1.b``, ``a:2.b`` and ``a:3.b``."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        number = re.search(r"(?<=:)\d+", path)
        before, after = (path[: number.start()], path[number.end() :]) if number else (path, "")
        found.setdefault((before, after), []).append(number[0] if number else "")
    return [
        before + (numbers[0] if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}") + after
        for (before, after), numbers in found.items()
    ]


def draw_weights(
    weights: Float[Tensor, "Lq Lk"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    digits: int = 2,
    width: int | None = None,
) -> str:
    """Return the weights of one head as a table of numbers with its tokens; exact zeros are left blank.

    Columns that do not fit into ``width`` go on in a further table below.

    Raises:
        InputError: The weights are not [rows, columns] as named.
    """
    if weights.shape != (len(rows), len(columns)):
        raise InputError(
            f"{plural(len(rows), 'row')} and {plural(len(columns), 'column')} were named, but weights are "
            f"{list(weights.shape)}"
        )
    cells = [["" if w == 0 else f"{w:.{digits}f}" for w in row] for row in weights.tolist()]
    taken = max(map(_width, rows), default=0)
    parts: list[list[int]] = [[]]
    room = taken
    for i, column in enumerate(columns):
        room += 1 + max(digits + 2, _width(column))
        if width is not None and room > width and parts[-1]:
            parts.append([])
            room = taken + 1 + max(digits + 2, _width(column))
        parts[-1].append(i)
    tables = [
        [
            ["", *(columns[i] for i in part)],
            *([name, *(line[i] for i in part)] for name, line in zip(rows, cells, strict=True)),
        ]
        for part in parts
    ]
    return "\n\n".join(draw_table(table, left=(), gap=1, least=digits + 2) for table in tables)


_LESS_NEEDED = ("memory", "ms", "max", "min", "std", "mean", "type")
"""Columns of the walk in the order in which a narrow terminal loses them."""


def draw_walk(walk: Walk, *, depth: int = 99, width: int | None = None) -> str:
    """Return a line per call down to ``depth``: its shapes, numbers of what came out, time, memory and formula.

    One shape stands for in and out alike where the two do not differ; of a step that a module takes itself only what
    comes out is shown. Columns that would be empty are left out.

    Args:
        walk: What ``trace`` told.
        depth: Calls further inside are left out.
        width: Columns of the terminal: what does not fit is left out, the least needed first; a last line says so.
    """
    visits = [visit for visit in walk if visit.depth <= depth]
    has_bad = any(out.num_nan or out.num_inf for visit in visits for out in visit.outputs[:1])
    types = {out.dtype for visit in visits for out in visit.outputs[:1]}
    table = [["module", "in → out", "type", "mean", "std", "min", "max", "bad", "ms", "memory"]]
    for visit in visits:
        before, after = _shapes(visit.inputs), _shapes(visit.outputs)
        if visit.kind == "step" and before != after:
            before = ""  # it is what the lines above gave, and would make the whole column wide
        numbers = [""] * 6
        if visit.outputs:
            out = visit.outputs[0]
            bad = str(out.num_nan + out.num_inf or "")
            numbers = [out.dtype, *map(_number, (out.mean, out.std, out.low, out.high)), bad]
        table.append(
            [
                "  " * visit.depth + visit.name,
                after if before == after else f"{before} → {after}".lstrip(),
                *numbers,
                f"{1000 * visit.seconds:.2f}",
                _memory(sum(t.num_bytes for t in visit.outputs)),
            ]
        )
    dull = {title for title, is_dull in (("type", len(types) < 2), ("bad", not has_bad)) if is_dull}
    shown = [title for title in table[0] if title not in dull]
    drawn = _columns(table, shown)
    lost = [title for title in _LESS_NEEDED if title in shown]
    missing = []
    while width is not None and max(map(_width, drawn)) > width and lost:
        missing.append(lost.pop(0))
        shown.remove(missing[-1])
        drawn = _columns(table, shown)
    formulas = ["", *(str(visit.formula) for visit in visits)]
    if width is not None and max(map(_width, drawn)) + 3 + _LEAST_FORMULA > width:
        missing.append("formulas")
        formulas = [""] * len(drawn)
    lines = [_cropped(f"{line}   {formula}".rstrip(), width) for line, formula in zip(drawn, formulas, strict=True)]
    if "type" in dull and types:
        lines.append(f"All of it is {types.pop()}.")
    if missing:
        lines.append(f"Left out at {width} columns: {', '.join(missing)}.")
    return "\n".join(lines)


def _shapes(tensors: Sequence[TensorFacts]) -> str:
    """Return ``[B=1, T=7]`` for each tensor, and ``3 × [B=1, T=7]`` for three alike in a row."""
    runs = [(axes, len(list(alike))) for axes, alike in groupby(t.axes for t in tensors)]
    return " ".join(f"[{axes}]" if count == 1 else f"{count} × [{axes}]" for axes, count in runs)


_LEAST_FORMULA = 24
"""Columns below which the beginning of a formula says nothing."""


def _columns(table: Sequence[Sequence[str]], titles: Sequence[str]) -> list[str]:
    """Return the lines of the columns of ``table`` that have these titles."""
    kept = [i for i, title in enumerate(table[0]) if title in titles]
    left = [place for place, i in enumerate(kept) if table[0][i] in ("module", "in → out", "type")]
    return draw_table([[row[i] for i in kept] for row in table], left=left).split("\n")


def draw_choices(choices: Sequence[Choice], *, others: int = 3, width: int | None = None) -> str:
    """Return a line per target position: what was read, what came next, and what else it might have been.

    Lines longer than ``width`` lose their end.
    """
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
    return "\n".join(_cropped(line, width) for line in draw_table(table, left=(0, 1, 4)).split("\n"))


def draw_gradients(walk: Walk) -> str:
    """Return a line per parameter: its shape, the norm of its gradient, and its units that get none."""
    table = [["parameter", "shape", "norm", "units", "dead", "bad"]]
    for g in walk.gradients:
        norm = "none" if g.norm is None else _number(g.norm)
        dead = f"{g.num_dead:,}" if g.num_dead else ""
        table.append(
            [counted(g.path), " × ".join(map(str, g.shape)), norm, f"{g.num_units:,}", dead, str(g.num_bad or "")]
        )
    return draw_table(table, left=(0, 1))


def draw_ledger(ledger: Ledger, *, depth: int = 2) -> str:
    """Return a line per module down to ``depth`` with its parts included; columns that are zero are left out.

    At its end stands with which parts a module shares parameters that are counted there.
    """
    names = {"parameters": "parameters", "num_bytes": "bytes", "flops": "FLOPs", "activations": "kept for backward"}
    shown = {name: title for name, title in names.items() if getattr(ledger.total, name)}
    table = [["module", *shown.values(), ""]]
    for entry in ledger:
        if entry.depth <= depth:
            name = "  " * entry.depth + module_name(entry.path, entry.kind)
            others = ledger.shared_with(entry)
            numbers = [f"{getattr(entry.total, column):,}" for column in shown]
            table.append([name, *numbers, f"shared with {', '.join(others)}" if others else ""])
    return draw_table(table, left=(0, len(shown) + 1))


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


def _memory(number: float) -> str:
    """Return ``12 bytes`` or ``3.4 kB``: a B alone is the batch."""
    for unit in ("bytes", "kB", "MB"):
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
