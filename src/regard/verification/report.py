"""All findings about one module, as text, as JSON, or as an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError
from regard.verification.findings import Finding


class VerificationError(RegardError):
    """The module failed at least one check."""


@dataclass(frozen=True)
class Report:
    """What each check found.

    Attributes:
        module: The module's class.
        called: How it was called.
        precision: What it was computed in, such as ``float64``.
        findings: One per check, from the most telling cause to the most general symptom.
        seconds: How long it took.
    """

    module: str
    called: str
    precision: str
    findings: tuple[Finding, ...]
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that failed; the first names the cause best, for one fault fails several."""
        return self._with("failed")

    @property
    def passed(self) -> tuple[Finding, ...]:
        """The checks that passed."""
        return self._with("passed")

    @property
    def not_exercised(self) -> tuple[Finding, ...]:
        """The checks that could not say anything, with the reason."""
        return self._with("not exercised")

    def _with(self, status: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == status)

    def __getitem__(self, name: str) -> Finding:
        """Return the finding of the check ``name``."""
        return next(finding for finding in self.findings if finding.name == name)

    def __str__(self) -> str:
        """Return a table: one line per check, and under a failure its cause and place."""
        lines = [f"{self.module}: {self.called}, in {self.precision}", ""]
        width = max((len(finding.name) for finding in self.findings), default=0)
        for finding in self.findings:
            mark = {"passed": "pass", "failed": "FAIL", "not exercised": "-"}[finding.status]
            lines.append(f"{mark:4}  {finding.name:{width}}  {_in_short(finding)}".rstrip())
            if finding.status == "failed":
                indent = " " * (width + 8)
                lines += [
                    f"{indent}{words}" for words in (finding.cause, finding.where, f"see {finding.docs}") if words
                ]
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        """The counts in a sentence, and where to start reading."""
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.not_exercised)} not exercised"
        return f"{counts}; start with {self.failed[0].name}" if self.failed else counts

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        return {
            "module": self.module,
            "called": self.called,
            "precision": self.precision,
            "seconds": round(self.seconds, 3),
            "passed": len(self.passed),
            "failed": len(self.failed),
            "not_exercised": len(self.not_exercised),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def raise_for_failures(self) -> None:
        """Raise if a check failed.

        Raises:
            VerificationError: with the table as its message.
        """
        if self.failed:
            raise VerificationError(str(self))


def _in_short(finding: Finding) -> str:
    if finding.status == "passed":
        return finding.asserts
    size = ""
    if finding.size is not None and finding.status == "failed":
        size = f" ({finding.size:.3g}" + (
            f", allowed {finding.tolerance:.3g})" if finding.tolerance is not None else ")"
        )
    return f"{finding.detail}{size}"
