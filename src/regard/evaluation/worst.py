"""Which lines of a system are the worst? Those to read first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.evaluation.likeness import likeness
from regard.evaluation.metric import References, check_lines
from regard.evaluation.text import ExactMatch


@dataclass(frozen=True)
class Line:
    """One line of a test set.

    Attributes:
        number: from 1.
        chrf: of the output against the nearest of its references.
        output: what the system wrote.
        references: what is right.
    """

    number: int
    chrf: float
    output: str
    references: tuple[str, ...]


def worst(hypotheses: Sequence[str], references: References, count: int, *, lowercase: bool = False) -> list[Line]:
    """Return the ``count`` lines with the lowest chrF, lowest first; fewer if fewer are wrong.

    A line is wrong that equals none of its references, with ``lowercase`` whatever the case.

    Raises:
        DataError: the numbers of lines differ, or there are none.
    """
    check_lines(hypotheses, references)
    equal = ExactMatch(lowercase).statistics(hypotheses, references)[:, 0]
    lines = [
        Line(number, max(likeness(output, reference) for reference in of_line), output, tuple(of_line))
        for number, (output, of_line) in enumerate(zip(hypotheses, references, strict=True), 1)
        if not equal[number - 1]
    ]
    return sorted(lines, key=lambda line: line.chrf)[:count]
