"""What an evaluation measures, in words that a recipe can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from regard.errors import nearest, refuse
from regard.evaluation.edit import LineErrorRate, TokenErrorRate
from regard.evaluation.metric import Metric
from regard.evaluation.text import Bleu, BleuTokenizer, ChrF, ExactMatch, Ter

MetricName = Literal["bleu", "chrf", "chrf++", "ter", "exact", "wer", "per", "cer", "line-errors"]


@dataclass(frozen=True)
class EvaluationOptions:
    """The evaluation protocol.

    Attributes:
        metrics: what to measure: ``bleu``, ``chrf``, ``chrf++``, ``ter``, ``exact`` (lines entirely right),
            ``line-errors`` (lines that are not), and edits per word (``wer``), phone (``per``) or character (``cer``)
            of the reference.
        bleu_tokenize: sacrebleu's tokenizer for BLEU: ``13a`` for ordinary text, ``none`` for tokenised text, ``intl``,
            ``zh`` or ``char``.
        lowercase: compare without case.
    """

    metrics: tuple[MetricName, ...] = ("bleu", "chrf", "exact")
    bleu_tokenize: BleuTokenizer = "13a"
    lowercase: bool = False

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        if not self.metrics:
            yield "`evaluation.metrics` must name at least one metric, but is empty"
        for name in self.metrics:
            if name not in get_args(MetricName):
                yield (f"`evaluation.metrics` holds {name!r}, which is no metric{nearest(name, get_args(MetricName))}")
        if self.bleu_tokenize not in get_args(BleuTokenizer):
            yield (
                f"`evaluation.bleu_tokenize` is {self.bleu_tokenize!r}, which is no tokenizer"
                f"{nearest(self.bleu_tokenize, get_args(BleuTokenizer))}"
            )

    def build(self) -> list[Metric]:
        """Return the metrics, in the order named."""
        made: dict[MetricName, Metric] = {
            "bleu": Bleu(self.bleu_tokenize, self.lowercase),
            "chrf": ChrF(0, self.lowercase),
            "chrf++": ChrF(2, self.lowercase),
            "ter": Ter(self.lowercase),
            "exact": ExactMatch(self.lowercase),
            "wer": TokenErrorRate("WER", self.lowercase),
            "per": TokenErrorRate("PER", self.lowercase),
            "cer": TokenErrorRate("CER", self.lowercase),
            "line-errors": LineErrorRate(self.lowercase),
        }
        return [made[name] for name in self.metrics]
