"""Properties compare values over thousands of small calls; the shapes of the same signatures are checked elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture(autouse=True)
def shapes_unchecked() -> Iterator[None]:
    """Leave out the checks of signatures, which would be three quarters of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
