"""chrF of two sentences is sacrebleu's."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sacrebleu.metrics import CHRF

from regard.evaluation import likeness, worst
from unit.data.nasty import NASTY

PAIRS = [
    ("the cat", "the cat"),
    ("a", "abcdefgh"),
    ("the dog runs", "a dog ran"),
    ("x", "y"),
    ("", "abc"),
    ("ab ", "a b"),
]


@pytest.mark.parametrize(("ours", "theirs"), [*PAIRS, *pairwise(NASTY[4:41])])
def test_it_is_the_figure_of_sacrebleu(ours: str, theirs: str) -> None:
    assert likeness(ours, theirs) == pytest.approx(CHRF().sentence_score(ours, [theirs]).score, abs=1e-9)


def test_two_empty_outputs_are_alike() -> None:
    assert likeness("", " ") == 100.0


def test_the_worst_lines_come_first() -> None:
    lines = worst(["same", "x", "nearly so"], [["same"], ["good", "fine"], ["other", "nearly"]], 2)
    assert [(line.number, line.output) for line in lines] == [(2, "x"), (3, "nearly so")]
    assert lines[0].chrf == 0.0 and lines[1].references == ("other", "nearly")


def test_lines_that_are_right_are_not_among_the_worst() -> None:
    outputs, references = ["same", "x", "SAME", "two  spaces"], [["same"], ["y"], ["same"], ["two spaces"]]
    assert [line.number for line in worst(outputs, references, 9)] == [2, 3, 4]
    assert [line.number for line in worst(outputs, references, 9, lowercase=True)] == [2, 4]
