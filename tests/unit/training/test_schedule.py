"""Every schedule against its written formula for forty updates, and at its ends."""

from __future__ import annotations

import math

import pytest

from regard.errors import RecipeError
from regard.training import TrainingOptions
from regard.training.schedule import constant, cosine, inverse_sqrt, linear, noam

STEPS = range(1, 41)


def rates(name: str, **more) -> list[float]:
    options = TrainingOptions(schedule=name, learning_rate=0.5, warmup=more.pop("warmup", 7), updates=40, **more)
    schedule = options.rates(d_model=64)
    return [schedule(step) for step in STEPS]


def test_formulas():
    up = [0.5 * min(1, step / 7) for step in STEPS]
    down = [max(0, step - 7) / 34 for step in STEPS]  # 34 steps from the peak at 7 to zero at 41
    assert rates("constant") == pytest.approx(up, rel=1e-15)
    assert rates("linear") == pytest.approx([u * (1 - d) for u, d in zip(up, down, strict=True)], rel=1e-12)
    halves = [(1 + math.cos(math.pi * d)) / 2 for d in down]
    assert rates("cosine") == pytest.approx([u * h for u, h in zip(up, halves, strict=True)], rel=1e-12)
    assert rates("inverse_sqrt") == pytest.approx([0.5 * min(s / 7, (7 / s) ** 0.5) for s in STEPS], rel=1e-15)
    theirs = [2 * 64**-0.5 * min(s**-0.5, s * 7**-1.5) for s in STEPS]
    assert rates("noam", schedule_factor=2.0) == pytest.approx(theirs, rel=1e-14)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt", "noam"])
@pytest.mark.parametrize("warmup", [0, 1, 7, 40, 60])
def test_positive_from_the_first_update_to_the_last(name, warmup):
    if warmup == 0 and name in ("inverse_sqrt", "noam"):
        with pytest.raises(RecipeError, match="`warmup` must be at least 1"):
            rates(name, warmup=0)
        return
    values = rates(name, warmup=warmup)
    assert all(value > 0 for value in values)
    if warmup <= 40:  # the peak is reached exactly, at the end of the warm-up
        peak = 1 / math.sqrt(64 * warmup) if name == "noam" else 0.5
        assert values[max(warmup, 1) - 1] == max(values) == pytest.approx(peak, rel=1e-14)
    assert len(set(values[: min(warmup, 40)])) == min(warmup, 40), "each update of the warm-up has its own rate"


def test_nothing_after_the_end():
    assert linear(41, rate=1.0, updates=40, warmup=7) == 0
    assert cosine(99, rate=1.0, updates=40, warmup=7) == 0
    assert constant(10**9, rate=1.0) == 1.0


def test_worked_by_hand():
    assert noam(4000, d_model=512, warmup=4000) == pytest.approx(6.98771e-4, rel=1e-5)
    assert inverse_sqrt(16, rate=1.0, warmup=4) == 0.5
    assert linear(1, rate=1.0, updates=4) == 1.0
    assert [linear(step, rate=1.0, updates=4) for step in (2, 3, 4)] == [0.75, 0.5, 0.25]


def test_noam_needs_a_width():
    with pytest.raises(RecipeError, match="width"):
        TrainingOptions(schedule="noam").rates()
