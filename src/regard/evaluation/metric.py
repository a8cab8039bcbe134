"""What a metric is: statistics per line, summed over lines, turned into one figure at the end.

Sums travel and the score is taken once, so a resampled test set costs a sum and not another look at the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from regard.errors import DataError

Floats = npt.NDArray[np.float64]
References = Sequence[Sequence[str]]
"""The references of each line: one or several, and not the same number for all."""


@runtime_checkable
class Metric(Protocol):
    """A figure in percent over aligned lines."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """True for BLEU, false for an error rate."""
        ...

    def statistics(self, hypotheses: Sequence[str], references: References) -> Floats:
        """Return one row of sums for each line."""
        ...

    def score(self, total: Floats) -> float:
        """Return the figure of lines whose statistics add up to ``total``."""
        ...

    def signature(self, references: References) -> str:
        """Return what someone else needs to get the same figure."""
        ...


def measure(metric: Metric, hypotheses: Sequence[str], references: References) -> float:
    """Return the figure of ``hypotheses`` against ``references``.

    Raises:
        DataError: as ``check_lines``.
    """
    check_lines(hypotheses, references)
    return metric.score(metric.statistics(hypotheses, references).sum(axis=0))


def check_lines(hypotheses: Sequence[str], references: References) -> None:
    """Refuse what cannot be compared.

    Raises:
        DataError: the counts differ, there are no lines, or a line has no reference.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"hypotheses and references must have the same number of lines, but have {len(hypotheses)} and "
            f"{len(references)}"
        )
    if not hypotheses:
        raise DataError("there is nothing to evaluate: hypotheses and references have no lines")
    for number, of_line in enumerate(references, start=1):
        if isinstance(of_line, str) or not of_line:
            raise DataError(f"line {number} must have a list of at least one reference, but has {of_line!r}")


def references_signature(references: References) -> str:
    """Return ``nrefs:1``, or ``nrefs:var`` when lines differ in the number of references; the words are sacrebleu's."""
    counts = {len(of_line) for of_line in references}
    return f"nrefs:{counts.pop() if len(counts) == 1 else 'var'}"
