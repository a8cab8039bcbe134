"""One pytest test per check, for a class of one's own.

::

    @parametrize_with_checks([build_small, build_with_rotary])
    def test_my_transformer(check):
        check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.errors import MissingExtraError
from regard.verification.checks import CHECKS
from regard.verification.findings import Check, check_name
from regard.verification.verify import verify

if TYPE_CHECKING:
    import pytest


class CheckRun:
    """One check on one module; calling it fails, passes or skips the test."""

    def __init__(self, make: Callable[[], nn.Module], check: Check, given: dict[str, Any]) -> None:
        self.make = make
        self.check = check
        self.given = given

    def __call__(self) -> None:
        """Make the module and run the check.

        Raises:
            VerificationError: the check failed.
        """
        import pytest

        report = verify(self.make(), checks=[self.check], **self.given)
        report.raise_for_failures()
        if report.not_exercised:
            pytest.skip(report.not_exercised[0].detail)


def parametrize_with_checks(
    makers: Sequence[Callable[[], nn.Module]], *, checks: Iterable[Check] = CHECKS, **given: Any
) -> pytest.MarkDecorator:
    """Return a mark that runs a test once per module and check, with the argument ``check``.

    Args:
        makers: Functions that make the modules, so that each test has a fresh one.
        checks: Which checks.
        given: What else `verify` is to be told.

    Raises:
        MissingExtraError: pytest is not installed.
    """
    try:
        import pytest
    except ModuleNotFoundError as error:
        raise MissingExtraError("pytest", "dev") from error
    runs = [
        pytest.param(CheckRun(make, check, given), id=f"{getattr(make, '__name__', index)}-{check_name(check)}")
        for index, make in enumerate(makers)
        for check in tuple(checks)
    ]
    return pytest.mark.parametrize("check", runs)
