"""How good outputs are: BLEU, chrF, TER, error rates, their intervals, whether two systems differ; and classes."""

from regard.evaluation.classification import ClassificationReport, classification_report
from regard.evaluation.edit import LineErrorRate, TokenErrorRate, edit_distance
from regard.evaluation.likeness import likeness
from regard.evaluation.metric import Metric, measure
from regard.evaluation.options import EvaluationOptions
from regard.evaluation.report import Figure, Report, compare, evaluate
from regard.evaluation.significance import bootstrap_interval, paired_bootstrap, paired_randomisation
from regard.evaluation.text import Bleu, ChrF, ExactMatch, Ter
from regard.evaluation.worst import Line, worst

__all__ = [
    "Bleu",
    "ChrF",
    "ClassificationReport",
    "EvaluationOptions",
    "ExactMatch",
    "Figure",
    "Line",
    "LineErrorRate",
    "Metric",
    "Report",
    "Ter",
    "TokenErrorRate",
    "bootstrap_interval",
    "classification_report",
    "compare",
    "edit_distance",
    "evaluate",
    "likeness",
    "measure",
    "paired_bootstrap",
    "paired_randomisation",
    "worst",
]
