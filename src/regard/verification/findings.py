"""What a check answers: passed, failed, or not exercised. A check that did not run has no other answer than the last.

::

    check_something(subject) -> Finding
        judge(...)                 size against tolerance  ->  passed | failed
        raise NotExercised(why)                            ->  not exercised
        the module itself raised                           ->  failed, with its message
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.verification.subject import Subject

Status = Literal["passed", "failed", "not exercised"]

DOCS = "docs/guide/verify.md"
"""Where each check is explained, under a heading of its name."""


@dataclass(frozen=True)
class Finding:
    """The answer of one check.

    Attributes:
        name: The check, such as ``future_leak``.
        asserts: What it holds the module to, as a sentence.
        status: ``passed``, ``failed`` or ``not exercised``.
        detail: What was seen, or why nothing could be.
        cause: The likely cause of a failure, in one sentence.
        where: Batch row, position, layer or parameter of a failure.
        size: The largest violation, in the unit of what was compared.
        tolerance: The largest that rounding explains; 0 means exactly zero.
        docs: Where the check is explained.
    """

    name: str = ""
    asserts: str = ""
    status: Status = "passed"
    detail: str = ""
    cause: str = ""
    where: str = ""
    size: float | None = None
    tolerance: float | None = None
    docs: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON; numbers that JSON does not have become words."""
        values = dict(vars(self))
        for key in ("size", "tolerance"):
            if values[key] is not None and not math.isfinite(values[key]):
                values[key] = str(values[key])
        return values


class NotExercised(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised in a check that cannot say anything about this module; the message says why."""


class ModuleRaisedError(RegardError):
    """The module under test raised where it should have answered."""


@runtime_checkable
class Check(Protocol):
    """A public check: call it with a subject."""

    __name__: str
    __doc__: str | None

    def __call__(self, subject: Subject) -> Finding:
        """Return what the module does."""
        ...


def check(asserts: str) -> Callable[[Callable[[Subject], Finding]], Check]:
    """Turn a function that judges, or raises, into a check named after it (``check_tied`` is ``tied``)."""

    def decorate(function: Callable[[Subject], Finding]) -> Check:
        @functools.wraps(function)
        def run(subject: Subject) -> Finding:
            try:
                found = function(subject)
            except NotExercised as reason:
                found = Finding(status="not exercised", detail=str(reason))
            except ModuleRaisedError as error:
                found = Finding(status="failed", detail=str(error), cause="the module cannot do this at all")
            except Exception as error:
                found = Finding(status="not exercised", detail=f"the check could not be made: {one_line(error)}")
            name = check_name(run)
            return replace(found, name=name, asserts=asserts, docs=f"{DOCS}#{name}")

        return run

    return decorate


def check_name(check: Check) -> str:
    """Return what a report calls a check."""
    return check.__name__.removeprefix("check_")


def judge(size: float, tolerance: float, *, detail: str = "", cause: str = "", where: str = "") -> Finding:
    """Return a pass if ``size`` is at most ``tolerance``, else a failure with its cause; NaN fails."""
    if size <= tolerance:
        return Finding(status="passed", size=size, tolerance=tolerance)
    return Finding(status="failed", detail=detail, cause=cause, where=where, size=size, tolerance=tolerance)


def fail(detail: str, *, cause: str = "", where: str = "", size: float | None = None) -> Finding:
    """Return a failure that no size measures."""
    return Finding(status="failed", detail=detail, cause=cause, where=where, size=size)


def passed(detail: str = "") -> Finding:
    """Return a pass that no size measures."""
    return Finding(status="passed", detail=detail)


def one_line(error: BaseException) -> str:
    """Return the kind and the first line of the message of ``error``."""
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
