"""Figures are drawn, labelled and leave matplotlib as it was."""

from __future__ import annotations

import builtins
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import DataError, InputError, MissingExtraError, ShapeError
from regard.inspection import figures

matplotlib = pytest.importorskip("matplotlib")


def png(figure: Any) -> bytes:
    """Draw it: a missing sign or label would warn, and warnings are errors."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def test_a_heat_map_names_its_tokens() -> None:
    weights = torch.rand(3, 5).softmax(-1)
    before = dict(matplotlib.rcParams)
    figure = figures.heat_map(weights, ["W", "ER", "D"], [*"word", "$x$"], title="layer 1, head 2")
    assert png(figure)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["W", "ER", "D"]
    assert axes.get_xlabel() == "looked at"
    assert torch.equal(torch.tensor(axes.images[0].get_array().data), weights)
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(ShapeError, match=r"\[2 rows, 5 columns\] as named, but is \[3, 5\]"):
        figures.heat_map(weights, ["W", "ER"], [*"words"])


def test_labels_of_a_long_sentence_are_thinned() -> None:
    tokens = [f"t{i}" for i in range(200)]
    figure = figures.heat_map(torch.rand(200, 200), tokens, tokens)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][:2] == ["t0", "t4"]
    assert png(figure)


def test_a_head_grid_has_a_panel_per_head() -> None:
    figure = figures.head_grid(torch.rand(2, 3, 7, 5), title="cross")
    assert len(figure.axes) == 6
    assert figure.axes[3].get_ylabel() == "layer 2"
    assert png(figure)


def test_learning_curves_are_drawn_from_a_log(tmp_path: Path) -> None:
    events = [{"event": "started", "update": 0}]
    for update in range(1, 31):
        events.append({"event": "update", "update": update, "loss": 3 / update, "rate": 1e-3 * update})
    events.append({"event": "update", "update": 31, "loss": None, "rate": 1e-3})
    events.append({"event": "validation", "update": 30, "figures": {"loss": 0.3, "bleu": 21.5}})
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(event) for event in events) + '\n{"event": "upd', encoding="utf-8")
    read = figures.read_log(log)
    assert read == events
    figure = figures.learning_curves(read, title="run")
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss per token", "bleu", "learning rate"]
    assert png(figure)

    log.write_text('{"event": "update"\n{}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"log\.jsonl:1: not a JSON event"):
        figures.read_log(log)
    with pytest.raises(InputError, match="no update to draw"):
        figures.learning_curves([])


def test_the_smoothed_loss_starts_at_the_first_value_and_skips_holes() -> None:
    assert figures._smoothed([2.0, 2.0, float("nan"), 2.0]) == pytest.approx([2.0, 2.0, 2.0, 2.0])
    # (0.95 · 0.05 · 1 + 0.05 · 3) / (0.95 · 0.05 + 0.05)
    assert figures._smoothed([1.0, 3.0]) == pytest.approx([1.0, 0.1975 / 0.0975])


def test_rates_codes_and_confusions() -> None:
    schedules: dict[str, Callable[[int], float]] = {f"s{i}": lambda step, i=i: i / step for i in range(9)}
    rates = figures.rate_curves(schedules, 5000)
    assert len(rates.axes[0].lines) == 9
    assert rates.axes[0].lines[1].get_ydata()[0] == 1.0
    assert png(rates)

    assert png(figures.position_codes(torch.rand(7, 12) - 0.5))
    assert png(figures.position_codes(torch.zeros(7, 12)))

    matrix = figures.confusion_matrix([[3, 1], [0, 0]], ["a", "b"])
    assert [text.get_text() for text in matrix.axes[0].texts] == ["3", "1", "0", "0"]
    assert matrix.axes[0].images[0].get_array().tolist() == [[0.75, 0.25], [0.0, 0.0]]
    assert png(matrix)
    with pytest.raises(InputError, match="must be 3 × 3"):
        figures.confusion_matrix([[3, 1], [0, 0]], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("groups", "places", "line"),
    [(("10", "-5"), [-5, 10], "-"), (("north", "south"), [0, 1], "None"), (("2", "nan"), [0, 1], "None")],
)
def test_a_line_joins_groups_that_are_numbers_and_no_others(
    groups: tuple[str, str], places: list[float], line: str
) -> None:
    axes = figures.accuracy_by_group("of", {"model": dict(zip(groups, (70.0, 80.0), strict=True))}).axes[0]
    assert axes.lines[0].get_xdata().tolist() == places
    assert axes.lines[0].get_linestyle() == line


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'regard\[plot\]'"):
        figures.head_grid(torch.rand(1, 1, 2, 2))
