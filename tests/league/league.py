"""The league: every fault found and named, no alarm on a model that is right."""

from __future__ import annotations

from dataclasses import dataclass

import faults_huggingface
import faults_plain
import faults_regard
import faults_torch
import torch
from correct import CORRECT
from planting import Fault

from regard.verification import CHECKS, Report, verify

FAULTS: tuple[Fault, ...] = (
    *faults_plain.FAULTS,
    *faults_torch.FAULTS,
    *faults_huggingface.FAULTS,
    *faults_regard.FAULTS,
)


@dataclass(frozen=True)
class Result:
    """What became of one fault.

    Attributes:
        fault: The fault.
        failed: The checks that failed, in the order of the report.
        named: The check that names it, or an empty word.
        cause: What that check says.
    """

    fault: Fault
    failed: tuple[str, ...]
    named: str
    cause: str


def try_fault(fault: Fault, seed: int = 0) -> Result:
    torch.manual_seed(seed)
    model = fault.build()
    # Exporting takes longer than all other checks together and finds one kind of fault alone.
    checks = [check for check in CHECKS if check.__name__ != "check_export" or "export" in fault.named_by]
    report = verify(model, checks=checks, seed=seed, **fault.given)
    naming = next((finding for finding in report.failed if finding.name in fault.named_by), None)
    failed = tuple(finding.name for finding in report.failed)
    return Result(fault, failed, naming.name if naming else "", naming.cause if naming else "")


def try_correct(name: str, seed: int = 0) -> Report:
    make, given = CORRECT[name]
    torch.manual_seed(seed)
    return verify(make(), seed=seed, **given)
