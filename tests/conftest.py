"""Under pytest, the shapes and types in Regard's signatures are checked at every call."""

from __future__ import annotations

import os
from collections.abc import Iterator

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# before torch is imported: several workers share few cores, and sums in one order are the same everywhere
os.environ.setdefault("OMP_NUM_THREADS", "1")

install_import_hook("regard", "typecheck.check")  # tests/typecheck.py

settings.register_profile("regard", deadline=None)
settings.load_profile("regard")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Leave out the checks of signatures, so that a wrong shape meets the words that a user would read."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
