"""Pictures for paper and screen, by matplotlib (extra ``plot``): each function returns a figure to save or to show.

Colours can be told apart with any eyes and in grey print: one hue from light to dark for amounts, Okabe and Ito's set
for lines, each line with a dash of its own as well. No global state of matplotlib is touched.

Axes: N layers, H heads, Lq queries, Lk keys, L positions, D width, C classes.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from regard.errors import DataError, InputError, MissingExtraError, ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))

_SCRIPTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari")
"""Fonts asked for signs that the first one lacks, where they are installed."""

MAX_LABELS = 60
"""Tokens written along one axis; of more, every n-th is."""


def heat_map(
    weights: Float[Tensor, "Lq Lk"], rows: Sequence[str], columns: Sequence[str], *, title: str = ""
) -> Figure:
    """Return the attention of one head: queries down, keys across, darker is more.

    Raises:
        ShapeError: the weights are not [rows, columns] as named.
    """
    if weights.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"`weights` must be [{len(rows)} rows, {len(columns)} columns] as named, but is {list(weights.shape)}"
        )
    side = 0.28
    with _canvas(2.2 + side * min(len(columns), MAX_LABELS), 1.6 + side * min(len(rows), MAX_LABELS)) as (figure, new):
        axes = new(1, 1, 1)
        image = axes.imshow(weights.float().cpu().numpy(), cmap="Blues", vmin=0, vmax=1, aspect="equal")
        _label(axes.set_xticks, columns, rotation=0 if all(len(name) < 3 for name in columns) else 90)
        _label(axes.set_yticks, rows)
        axes.set_xlabel("looked at")
        axes.set_ylabel("looking")
        axes.set_title(title)
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    return figure


def head_grid(weights: Float[Tensor, "N H Lq Lk"], *, title: str = "") -> Figure:
    """Return all heads of all layers as small maps: layers down, heads across, on one scale."""
    num_layers, num_heads = weights.shape[:2]
    with _canvas(1 + 1.15 * num_heads, 0.8 + 1.2 * num_layers) as (figure, new):
        for layer in range(num_layers):
            for head in range(num_heads):
                axes = new(num_layers, num_heads, layer * num_heads + head + 1)
                image = weights[layer, head].float().cpu().numpy()
                axes.imshow(image, cmap="Blues", vmin=0, vmax=1, aspect="auto")
                axes.set_xticks([])
                axes.set_yticks([])
                if layer == 0:
                    axes.set_title(f"head {head + 1}", fontsize=9)
                if head == 0:
                    axes.set_ylabel(f"layer {layer + 1}", fontsize=9)
        figure.suptitle(title)
    return figure


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the events of a run's ``log.jsonl``; a last line torn by a crash is left out.

    Raises:
        DataError: another line is not JSON.
    """
    lines = path.read_bytes().split(b"\n")
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            events.append(json.loads(line))
        except ValueError:
            if number == len(lines):
                break
            raise DataError(f"{path}:{number}: not a JSON event; delete the line or the file") from None
    return events


def learning_curves(events: Iterable[Mapping[str, Any]], *, title: str = "") -> Figure:
    """Return loss, figures of validation and learning rate over updates, from the events of a run's log.

    Raises:
        InputError: there is no update among them.
    """
    events = list(events)
    updates = [event for event in events if event.get("event") == "update"]
    validations = [event for event in events if event.get("event") == "validation"]
    if not updates:
        raise InputError("the log has no update to draw; train first")
    figures: dict[str, list[tuple[int, float]]] = {}
    for event in validations:
        for name, value in event.get("figures", {}).items():
            if isinstance(value, int | float):
                figures.setdefault(name, []).append((event["update"], value))
    others = [name for name in figures if name != "loss"]
    num_panels = 2 + len(others)
    steps = [event["update"] for event in updates]
    with _canvas(7, 1 + 1.9 * num_panels) as (figure, new):
        axes = new(num_panels, 1, 1)
        losses = [event["loss"] if isinstance(event["loss"], int | float) else float("nan") for event in updates]
        axes.plot(steps, losses, color=COLOURS[0], alpha=0.3, linewidth=0.8)
        axes.plot(steps, _smoothed(losses), color=COLOURS[0], label="training")
        if "loss" in figures:
            axes.plot(*zip(*figures["loss"], strict=True), color=COLOURS[1], marker="o", ms=3, label="validation")
        axes.set_ylabel("loss per token")
        axes.legend()
        for panel, name in enumerate(others, 2):
            below = new(num_panels, 1, panel)
            below.plot(*zip(*figures[name], strict=True), color=COLOURS[1], marker="o", ms=3)
            below.set_ylabel(name)
        rate = new(num_panels, 1, num_panels)
        rate.plot(steps, [event["rate"] for event in updates], color=COLOURS[2])
        rate.set_ylabel("learning rate")
        rate.set_xlabel("update")
        axes.set_title(title)
        for panel_axes in figure.axes:
            panel_axes.set_xlim(0, steps[-1])
    return figure


def range_curve(rates: Sequence[float], losses: Sequence[float], suggested: float | None = None) -> Figure:
    """Return the losses of a learning-rate range test over their rates, and the suggested rate as a line."""
    with _canvas(6, 3.6) as (figure, new):
        axes = new(1, 1, 1)
        axes.plot(rates, losses, color=COLOURS[0])
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss per token")
        if suggested is not None:
            axes.axvline(suggested, color=COLOURS[1], linestyle=DASHES[1], label=f"suggested: {suggested:.1e}")
            axes.legend()
    return figure


def rate_curves(schedules: Mapping[str, Callable[[int], float]], updates: int, *, title: str = "") -> Figure:
    """Return learning rates over ``updates`` steps, one line per named schedule (step from 1 → rate)."""
    steps = range(1, updates + 1, max(1, updates // 1000))
    with _canvas(7, 4) as (figure, new):
        axes = new(1, 1, 1)
        for (name, schedule), colour, dash in zip(schedules.items(), cycle(COLOURS), cycle(DASHES), strict=False):
            axes.plot(steps, [schedule(step) for step in steps], color=colour, linestyle=dash, label=name)
        axes.set_xlabel("update")
        axes.set_ylabel("learning rate")
        axes.set_title(title)
        axes.legend()
    return figure


def position_codes(table: Float[Tensor, "L D"], *, title: str = "") -> Figure:
    """Return what positions add to the embeddings (section 3.5): positions down, features across, blue − red +."""
    values = table.detach().float().cpu().numpy()
    reach = float(abs(values).max()) or 1.0
    with _canvas(7, 4.5) as (figure, new):
        axes = new(1, 1, 1)
        image = axes.imshow(values, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
        axes.set_xlabel("feature")
        axes.set_ylabel("position")
        axes.set_title(title)
        figure.colorbar(image, ax=axes, label="value")
    return figure


def confusion_matrix(counts: Sequence[Sequence[int]], labels: Sequence[str], *, title: str = "") -> Figure:
    """Return how often each class (down) was taken for each (across): colour is the share of the row, numbers count.

    Raises:
        InputError: it is not one row and one column per label.
    """
    if len(counts) != len(labels) or any(len(row) != len(labels) for row in counts):
        raise InputError(f"`counts` must be {len(labels)} × {len(labels)} as there are labels, but is not")
    shares = [[value / (sum(row) or 1) for value in row] for row in counts]
    side = 1.6 + 0.55 * len(labels)
    with _canvas(side + 0.8, side) as (figure, new):
        axes = new(1, 1, 1)
        image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=1)
        for row, values in enumerate(counts):
            for column, value in enumerate(values):
                ink = "black" if shares[row][column] > 0.6 else "white"
                axes.text(column, row, str(value), ha="center", va="center", color=ink)
        _label(axes.set_xticks, labels, rotation=90)
        _label(axes.set_yticks, labels)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        axes.set_title(title)
        figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    return figure


def compared_variants(figures: Mapping[str, Mapping[str, Sequence[float]]], *, title: str = "") -> Figure:
    """Return a panel per figure: variants down, a dot for each seed, a line through their mean.

    Args:
        figures: Name of the figure → name of the variant → its value with each seed; what is not finite is not drawn.
        title: Above all panels.

    Raises:
        InputError: There is nothing to draw.
    """
    if not figures:
        raise InputError("there is no figure to compare; train first")
    names = list(next(iter(figures.values())))
    with _canvas(2.5 + 2.6 * len(figures), 1.4 + 0.42 * len(names)) as (figure, new):
        for panel, (name, by_variant) in enumerate(figures.items(), 1):
            axes = new(1, len(figures), panel)
            for row, (variant, colour) in enumerate(zip(names, cycle(COLOURS), strict=False)):
                values = [value for value in by_variant.get(variant, ()) if math.isfinite(value)]
                axes.plot(values, [row] * len(values), "o", color=colour, ms=5, alpha=0.7, clip_on=False)
                if values:
                    mean = sum(values) / len(values)
                    axes.plot([mean, mean], [row - 0.3, row + 0.3], color=colour, linewidth=2)
            axes.set_ylim(len(names) - 0.5, -0.5)
            _label(axes.set_yticks, names if panel == 1 else [""] * len(names))
            axes.set_xlabel(name)
            axes.margins(x=0.15)
            axes.locator_params(axis="x", nbins=4)
            axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        figure.suptitle(title)
    return figure


def image_bytes(figure: Figure, kind: str = "png") -> bytes:
    """Return a figure as a file of a kind: ``png``, ``svg``, ``pdf``.

    Raises:
        ValueError: matplotlib knows no such kind.
    """
    file = io.BytesIO()
    figure.savefig(file, format=kind)
    return file.getvalue()


def calibration(bins: Sequence[tuple[float, float, int]], *, title: str = "") -> Figure:
    """Return accuracy over confidence, both in percent; the area of a point is its share of the cases.

    Args:
        bins: (mean confidence, accuracy, cases) of each bin.
        title: above it.
    """
    most = max((cases for _, _, cases in bins), default=1)
    with _canvas(4.4, 4.2) as (figure, new):
        axes = new(1, 1, 1)
        axes.plot([0, 100], [0, 100], color="0.6", linestyle=DASHES[1], linewidth=1, label="as sure as right")
        confidence, accuracy = [bin[0] for bin in bins], [bin[1] for bin in bins]
        axes.plot(confidence, accuracy, color=COLOURS[0], linewidth=1)
        axes.scatter(confidence, accuracy, s=[8 + 120 * bin[2] / most for bin in bins], color=COLOURS[0], alpha=0.7)
        axes.set_xlim(0, 101)
        axes.set_ylim(0, 101)
        axes.set_xlabel("confidence (%)")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(title)
        axes.legend()
    return figure


def accuracy_by_group(column: str, curves: Mapping[str, Mapping[str, float]], *, title: str = "") -> Figure:
    """Return accuracy in percent over the groups of a column, by system.

    Numbers stand at their distances, joined by a line; others are points, as there is nothing between them.

    Args:
        column: what the groups are groups of, such as ``snr``.
        curves: name of a system -> group -> accuracy.
        title: above it.
    """
    names = list(dict.fromkeys(group for curve in curves.values() for group in curve))
    try:
        places = {name: float(name) for name in names}
        joined = all(map(math.isfinite, places.values()))
    except ValueError:
        joined = False
    if not joined:
        places = {name: float(place) for place, name in enumerate(names)}
    with _canvas(5.6, 3.8) as (figure, new):
        axes = new(1, 1, 1)
        for (name, curve), colour, dash in zip(curves.items(), cycle(COLOURS), cycle(DASHES), strict=False):
            points = sorted((places[group], accuracy) for group, accuracy in curve.items())
            axes.plot(
                *zip(*points, strict=True), color=colour, linestyle=dash if joined else "", marker="o", ms=4, label=name
            )
        axes.set_xticks(list(places.values()), names)
        axes.set_ylim(0, 102)
        axes.set_xlabel(column)
        axes.set_ylabel("accuracy (%)")
        axes.set_title(title)
        axes.legend()
    return figure


@contextmanager
def _canvas(width: float, height: float) -> Iterator[tuple[Figure, Callable[[int, int, int], Axes]]]:
    """Yield a new figure, in inches, and what adds a panel to it; texts made inside find signs of many scripts."""
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    installed = set(font_manager.get_font_names())
    style = {
        "font.family": ["DejaVu Sans", *(name for name in _SCRIPTS if name in installed)],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "pdf.fonttype": 42,  # text in a PDF stays text
    }
    with rc_context(style):
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        yield figure, figure.add_subplot


def _label(set_ticks: Callable[..., object], names: Sequence[str], *, rotation: float = 0) -> None:
    step = -(-len(names) // MAX_LABELS)
    # a dollar would start a formula
    shown = [name.replace("$", r"\$") for name in names[::step]]
    set_ticks(range(0, len(names), step), shown, rotation=rotation)


def _smoothed(values: Sequence[float], weight: float = 0.95) -> list[float]:
    """Return the exponential moving mean, corrected for its start; values that are not numbers are skipped."""
    total = norm = 0.0
    means = []
    for value in values:
        if value == value:
            total = weight * total + (1 - weight) * value
            norm = weight * norm + (1 - weight)
        means.append(total / norm if norm else value)
    return means
