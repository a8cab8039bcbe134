"""The setting belongs to the program that asks for it: it is tried in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from regard.training import allocator

COUNT = """
import resource, sys
import numpy as np
from regard.training.allocator import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
def use():
    (np.ones(6_000_000) + 1).sum()
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_used_again():
    def run(mode: str) -> tuple[bool, int]:
        output = subprocess.run([sys.executable, "-c", COUNT, mode], check=True, capture_output=True, text=True).stdout
        kept, faults = output.split()
        return kept == "True", int(faults)

    (_, usual), (kept, fewer) = run("leave"), run("keep")
    if kept:
        assert fewer < usual / 4


def test_elsewhere_nothing_is_done(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert allocator.keep_freed_memory() is False


def test_another_c_library(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert allocator.keep_freed_memory() is False
