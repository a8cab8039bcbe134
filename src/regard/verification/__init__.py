"""Named checks that anyone can run on any Transformer: padding, causality, cache, gradients, loss and more."""

from regard.verification.adapter import Adapter, Decoding
from regard.verification.checks import CHECKS
from regard.verification.findings import Check, Finding, NotExercised, check, fail, judge, passed
from regard.verification.inputs import Frames, Inputs, Tokens
from regard.verification.recognise import recognise
from regard.verification.report import Report, VerificationError
from regard.verification.subject import Subject
from regard.verification.testing import parametrize_with_checks
from regard.verification.verify import verify

__all__ = [
    "CHECKS",
    "Adapter",
    "Check",
    "Decoding",
    "Finding",
    "Frames",
    "Inputs",
    "NotExercised",
    "Report",
    "Subject",
    "Tokens",
    "VerificationError",
    "check",
    "fail",
    "judge",
    "parametrize_with_checks",
    "passed",
    "recognise",
    "verify",
]
