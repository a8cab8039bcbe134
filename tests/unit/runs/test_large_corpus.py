"""A million pairs: read, encoded and trained on in bounded memory, and found again at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_million_pairs(tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "corpus.py"
    command = [sys.executable, str(script), "--lines", "1000000", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = map(json.loads, done.stdout.split("\n")[:2])
    assert max(first["process_mb"], second["process_mb"]) < 1000, done.stdout
    assert second["seconds"] < first["seconds"] / 2, done.stdout
