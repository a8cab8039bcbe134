"""What processes encode comes back in order, and what goes wrong there in words; that it is right, the corpus tells."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from regard.data import CharTokenizer, FilterOptions, Pair, encoding, open_raw
from regard.data.encoding import Encoder
from regard.errors import InputError, TrainingError
from unit.data.test_raw import jsonl

LETTERS = CharTokenizer("abcdefgh", tags=["de"])


class Deadly(CharTokenizer):
    def encode(self, text: str) -> list[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


def encoder(folder: Path, pairs: list[Pair], tokenizer: CharTokenizer = LETTERS) -> Encoder:
    raw = open_raw([jsonl(folder / "x.jsonl", pairs)], folder / "cache")
    return Encoder(raw, tokenizer, tokenizer, FilterOptions())


def rows_of(encode: Encoder, workers: int) -> list[int]:
    rows = np.arange(len(encode.raw), dtype=np.int64)
    chunks = encode.chunks(rows, np.zeros(len(rows), dtype=np.bool_), workers=workers)
    return [row for chunk in chunks for row in chunk.rows.tolist()]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 3)
    monkeypatch.setattr(encoding, "PROCESSES_FROM", 1)


def test_more_chunks_than_may_wait_come_in_order(tmp_path: Path) -> None:
    encode = encoder(tmp_path, [Pair("ab", "cd")] * 97)
    assert rows_of(encode, 2) == rows_of(encode, 1) == list(range(97))


def test_a_mistake_in_a_process_is_told_here(tmp_path: Path) -> None:
    encode = encoder(tmp_path, [Pair("ab", "cd", "fr")] * 7)
    with pytest.raises(InputError, match="no tag 'fr'"):
        rows_of(encode, 2)


def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    encode = encoder(tmp_path, [Pair("ab", "cd")] * 7, Deadly("abcdefgh"))
    with pytest.raises(TrainingError, match="a process that encoded text was killed"):
        rows_of(encode, 2)
