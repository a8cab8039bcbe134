"""Standard input that says when it pauses."""

from __future__ import annotations

import io
import os
import sys

import pytest

from regard.cli.pauses import pauses
from regard.data import read_lines


def test_lines_before_a_pause_are_handed_on_before_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    reader = os.fdopen(out)
    monkeypatch.setattr("sys.stdin", reader)
    waiting: list[str] = []
    seen: list[list[str]] = []
    later = [b"thi", b"rd\n", b""]  # what the writer sends each time that the reader would wait

    def paused() -> None:
        seen.append(list(waiting))
        waiting.clear()
        if chunk := later.pop(0):
            os.write(into, chunk)
        else:
            os.close(into)

    os.write(into, b"first\nsecond\n")
    before = sys.stdin
    with pauses(paused):
        for line in read_lines("-"):
            waiting.append(line)
    assert sys.stdin is before
    reader.close()
    assert seen == [["first", "second"], [], ["third"]]


def test_where_nothing_can_be_waited_for_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    with pauses(lambda: pytest.fail("paused")):
        assert list(read_lines("-")) == ["a", "b"]
