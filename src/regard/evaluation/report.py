"""What an evaluation found, as lines for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from regard.evaluation.metric import Metric, References, check_lines
from regard.evaluation.significance import bootstrap_interval, paired_bootstrap, paired_randomisation


@dataclass(frozen=True)
class Figure:
    """One metric of one system.

    Attributes:
        name: the metric.
        value: in percent.
        low: lower end of the confidence interval, None unless asked for.
        high: upper end.
        p: of the difference to the first system; None for the first, or when there is one.
        signature: how to get the same figure elsewhere.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    signature: str = ""

    def line(self) -> str:
        """Return ``BLEU 41.02 [39.87, 42.19] p = 0.012  (signature)``, what is unknown left out."""
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        p = "" if self.p is None else f" p = {self.p:.3f}"
        return f"{self.name} {self.value:.2f}{interval}{p}  ({self.signature})"


@dataclass(frozen=True)
class Report:
    """The figures of one system.

    Attributes:
        num_lines: lines compared.
        figures: one per metric, in the order asked.
    """

    num_lines: int
    figures: tuple[Figure, ...]

    def __getitem__(self, name: str) -> float:
        """Return the value of the metric called ``name``."""
        return {figure.name: figure.value for figure in self.figures}[name]

    def lines(self) -> list[str]:
        """Return one line per metric."""
        return [figure.line() for figure in self.figures]

    def to_json(self) -> str:
        """Return the whole as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def evaluate(
    metrics: Sequence[Metric], hypotheses: Sequence[str], references: References, *, intervals: bool = False
) -> Report:
    """Measure one system.

    Args:
        metrics: what to measure.
        hypotheses: one output per line.
        references: one or several per line.
        intervals: add 95 % bootstrap intervals.

    Raises:
        DataError: the numbers of lines differ (both are told), or there are none.
    """
    return compare(metrics, {"": hypotheses}, references, intervals=intervals)[""]


def compare(
    metrics: Sequence[Metric],
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    intervals: bool = True,
    test: Literal["bootstrap", "randomisation"] = "bootstrap",
) -> dict[str, Report]:
    """Measure several systems on the same lines; all but the first carry the p-value of their difference to it."""
    p_value = paired_bootstrap if test == "bootstrap" else paired_randomisation
    for hypotheses in systems.values():
        check_lines(hypotheses, references)
    figures: dict[str, list[Figure]] = {name: [] for name in systems}
    for metric in metrics:
        statistics = {name: metric.statistics(hypotheses, references) for name, hypotheses in systems.items()}
        first = next(iter(statistics.values()))
        for name, of_system in statistics.items():
            low, high = bootstrap_interval(metric, of_system) if intervals else (None, None)
            figures[name].append(
                Figure(
                    metric.name,
                    metric.score(of_system.sum(axis=0)),
                    low,
                    high,
                    None if of_system is first else p_value(metric, of_system, first),
                    metric.signature(references),
                )
            )
    return {name: Report(len(references), tuple(figures[name])) for name in systems}
