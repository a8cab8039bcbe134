"""The setting belongs to the program that asks for it: it is tried in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from regard.cli import allocator

COUNT = """
import resource, sys
import numpy as np
from regard.cli.allocator import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
def use():
    (np.ones(6_000_000) + 1).sum()
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc is of Linux")
def test_freed_memory_is_used_again():
    def run(mode: str) -> tuple[bool, int]:
        output = subprocess.run([sys.executable, "-c", COUNT, mode], check=True, capture_output=True, text=True).stdout
        kept, faults = output.split()
        return kept == "True", int(faults)

    (_, usual), (kept, fewer) = run("leave"), run("keep")
    if not kept:
        pytest.skip("another C library than glibc")
    assert fewer < usual / 4


def test_a_process_without_caches_is_asked_for_once(monkeypatch):
    monkeypatch.setattr(allocator.os, "confstr", {"CS_GNU_LIBC_VERSION": "glibc 2.36"}.__getitem__)
    first = allocator.environment_without_caches({"HOME": "/here"})
    assert first == {"HOME": "/here", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    assert allocator.environment_without_caches(first) is None
    mine = {"GLIBC_TUNABLES": "glibc.malloc.check=3"}
    theirs = allocator.environment_without_caches(mine)
    assert theirs == {"GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.malloc.tcache_count=0"}
    assert allocator.environment_without_caches({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3"}) is None


@pytest.mark.parametrize("trouble", [AttributeError, ValueError, OSError])
def test_another_c_library_is_left_alone(monkeypatch, trouble):
    def confstr(name):
        raise trouble

    monkeypatch.setattr(allocator.os, "confstr", confstr)
    assert allocator.environment_without_caches({}) is None


def test_elsewhere_nothing_is_done(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert allocator.keep_freed_memory() is False


def test_another_c_library(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert allocator.keep_freed_memory() is False
