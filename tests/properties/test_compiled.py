"""Compiled attention is attention: random settings of masks, forward and backward, within 1e-5."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def compare(backend: str, count: int) -> None:
    program = [sys.executable, str(TESTS / "properties" / "compiled.py"), backend, str(count)]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    result = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert len(result.stdout.splitlines()) == count


def test_traced_attention_gives_the_same() -> None:
    """What the compiler captures, without the minutes that generating code for each setting takes."""
    compare("aot_eager", 5)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_compiled_attention_gives_the_same() -> None:
    compare("inductor", 20)
