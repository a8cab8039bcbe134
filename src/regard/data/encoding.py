"""How does text become ids on every core? Rows go out to processes in chunks, ids come back in order.

A process gets the folders of text and vocabulary, not their content, and each chunk by its row numbers; what comes back
is small arrays. So memory does not grow with the corpus, nor with the number of processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.columns import Array
from regard.data.filters import FilterOptions, FilterReport
from regard.data.raw import RawCorpus
from regard.data.tokenizers.base import TextTokenizer
from regard.errors import TrainingError

CHUNK = 2048
"""Pairs encoded at a time."""

PROCESSES_FROM = 50_000
"""Pairs from which processes are worth their start."""

_AHEAD = 4  # chunks per process that may wait for their turn
_LOOK_EVERY = 1.0  # seconds


@dataclass(frozen=True)
class Encoded:
    """A chunk of examples.

    Attributes:
        rows: of the text, those that were kept.
        source: source ids, one example after the other.
        source_lengths: how many of them each has.
        target: target ids.
        target_lengths: how many of them each has.
        report: what was kept and dropped.
    """

    rows: Array
    source: Array
    source_lengths: Array
    target: Array
    target_lengths: Array
    report: FilterReport


@dataclass(frozen=True)
class Encoder:
    """Encodes and filters rows of a text.

    Attributes:
        raw: the text.
        source_tokenizer: for the source; it must know the tags of the text.
        target_tokenizer: for the target.
        filters: which pairs to leave out.
    """

    raw: RawCorpus
    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer
    filters: FilterOptions

    def __call__(self, rows: npt.NDArray[np.int64], repeated: npt.NDArray[np.bool_]) -> Encoded:
        """Encode ``rows``, of which some repeat a pair that came before."""
        report = FilterReport(total=len(rows))
        texts = []
        for row, is_repeated in zip(map(int, rows), repeated, strict=True):
            source, target = self.raw.source(row), self.raw.target(row)
            if not self.filters.keep_empty and not (source.strip() and target.strip()):
                report.count("empty")
            elif self.filters.unique and is_repeated:
                report.count("duplicate")
            else:
                texts.append((row, source, target))
        sources = self.source_tokenizer.encode_lines([source for _, source, _ in texts])
        targets = self.target_tokenizer.encode_lines([target for _, _, target in texts])
        kept: list[tuple[int, list[int], list[int]]] = []
        for (row, _, _), source_ids, target_ids in zip(texts, sources, targets, strict=True):
            source_ids = tag_ids(self.raw, self.source_tokenizer, row) + source_ids
            # EOS counts in the lengths that filters speak of
            if reason := self.filters.judge(len(source_ids) + 1, len(target_ids) + 1):
                report.count(reason)
                continue
            clipped = source_ids[: self.filters.max_source_length - 1], target_ids[: self.filters.max_target_length - 1]
            report.clipped += clipped != (source_ids, target_ids)
            kept.append((row, *clipped))
        report.kept = len(kept)
        return Encoded(
            np.array([row for row, _, _ in kept], dtype=np.int64),
            _joined([ids for _, ids, _ in kept], self.source_tokenizer),
            np.array([len(ids) for _, ids, _ in kept], dtype=np.int64),
            _joined([ids for _, _, ids in kept], self.target_tokenizer),
            np.array([len(ids) for _, _, ids in kept], dtype=np.int64),
            report,
        )

    def chunks(
        self, rows: npt.NDArray[np.int64], repeated: npt.NDArray[np.bool_], *, workers: int
    ) -> Iterator[Encoded]:
        """Yield the chunks in order, made here, or by ``workers`` processes when there are many rows.

        Raises:
            TrainingError: a process was killed.
        """
        parts = [slice(start, start + CHUNK) for start in range(0, len(rows), CHUNK)]
        if workers == 1 or len(rows) < PROCESSES_FROM:
            yield from (self(rows[part], repeated[part]) for part in parts)
            return
        waiting: list[Future[Encoded]] = []
        with ProcessPoolExecutor(workers, initializer=_receive, initargs=(self, os.getpid())) as pool:
            try:
                for part in parts:
                    waiting.append(pool.submit(_encode, rows[part], repeated[part]))
                    if len(waiting) == _AHEAD * workers:
                        yield waiting.pop(0).result()
                for future in waiting:
                    yield future.result()
            except BrokenProcessPool:
                raise TrainingError("a process that encoded text was killed, perhaps for want of memory") from None
            finally:
                pool.shutdown(cancel_futures=True)


def tag_ids(raw: RawCorpus, tokenizer: TextTokenizer, row: int) -> list[int]:
    """Return the id of the tag of a row, if it has one."""
    tag = raw.tag_of(row)
    return [tokenizer.tag_id(tag)] if tag else []


def dtype_of(tokenizer: TextTokenizer) -> str:
    """Return the smallest type of number that holds every id."""
    return "uint16" if len(tokenizer) <= 1 << 16 else "uint32"


def _joined(ids: list[list[int]], tokenizer: TextTokenizer) -> Array:
    count = sum(map(len, ids))
    return np.fromiter((i for line in ids for i in line), dtype=dtype_of(tokenizer), count=count)


_here: Encoder | None = None
"""In a process that encodes: what it was given at its start."""


def _receive(encoder: Encoder, parent: int) -> None:
    global _here
    _here = encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # and so is what that one does when it is told to end
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this process when the one that asked was killed: nobody else would."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


def _encode(rows: npt.NDArray[np.int64], repeated: npt.NDArray[np.bool_]) -> Encoded:
    assert _here is not None
    return _here(rows, repeated)
