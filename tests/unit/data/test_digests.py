"""Digests are those of the content, and a file that did not change is not read again."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from regard.data import digests
from regard.data.digests import Digests


def write(path: Path, content: bytes, *, seconds_ago: float = 100.0) -> Path:
    path.write_bytes(content)
    changed = time.time() - seconds_ago
    os.utime(path, (changed, changed))
    return path


def of(known: Path, path: Path) -> bytes:
    remembered = Digests(known)
    found = remembered.of(path)
    remembered.keep()
    return found


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, known = write(tmp_path / "x", b"one"), tmp_path / "cache" / "digests.json"
    assert of(known, path) == hashlib.sha256(b"one").digest()
    with monkeypatch.context() as patch:
        patch.setattr(digests.hashlib, "file_digest", lambda *_: pytest.fail("read again"))
        assert of(known, path) == hashlib.sha256(b"one").digest()
    for content, seconds_ago in ((b"two", 99.0), (b"three", 99.0)):  # another time, another size
        write(path, content, seconds_ago=seconds_ago)
        assert of(known, path) == hashlib.sha256(content).digest()


def test_a_file_that_may_still_be_written_is_not_remembered(tmp_path: Path) -> None:
    path, known = write(tmp_path / "x", b"one", seconds_ago=0), tmp_path / "digests.json"
    of(known, path)
    facts = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert of(known, path) == hashlib.sha256(b"two").digest()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"x": "not hex"}', b'{"x": 7}', b"\xff"])
def test_a_damaged_memory_is_forgotten(tmp_path: Path, content: bytes) -> None:
    path, known = write(tmp_path / "x", b"one"), write(tmp_path / "digests.json", content)
    assert of(known, path) == hashlib.sha256(b"one").digest()


def test_where_nothing_can_be_written_digests_are_right(tmp_path: Path) -> None:
    path = write(tmp_path / "x", b"one")
    assert of(path / "digests.json", path) == hashlib.sha256(b"one").digest()
