"""A corpus as ids on disk, derived from its text: what training reads, and how an example finds its text again.

An example is a pair that the filters kept. Columns: ``source`` and ``target`` (ids, 16 or 32 bits, without EOS; a tag
is the first source id), ``*_offsets`` [examples + 1], ``rows`` (the row of the text that an example is).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from regard.data.columns import Array, Columns, ColumnWriter, build_columns, open_columns
from regard.data.encoding import Encoder, dtype_of, tag_ids
from regard.data.filters import FilterOptions, FilterReport
from regard.data.raw import RawCorpus
from regard.data.tokenizers.base import TextTokenizer
from regard.errors import DataError

_VERSION = 2
_COUNTED = 1 << 22  # ids counted at a time: NumPy makes 64 bits of each


class EncodedCorpus:
    """Examples as ids, memory-mapped; goes to a worker process as the names of its folders.

    Attributes:
        source_lengths: [examples] source ids without EOS.
        target_lengths: [examples] target ids without EOS.
        report: what the filters dropped.
        max_source_length: what the filters allow, EOS included.
        max_target_length: the same for the target.
        source_tokenizer: makes source ids.
        target_tokenizer: makes target ids.
        raw: the text.
    """

    def __init__(
        self, columns: Columns, raw: RawCorpus, source_tokenizer: TextTokenizer, target_tokenizer: TextTokenizer
    ) -> None:
        self._columns = columns
        self.raw = raw
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.report = FilterReport(**columns.facts["report"])
        self.max_source_length: int = columns.facts["max_source_length"]
        self.max_target_length: int = columns.facts["max_target_length"]
        self.source_lengths: npt.NDArray[np.int32] = np.diff(columns["source_offsets"]).astype(np.int32)
        self.target_lengths: npt.NDArray[np.int32] = np.diff(columns["target_offsets"]).astype(np.int32)

    def __len__(self) -> int:
        return len(self._columns["rows"])

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedCorpus, (self._columns, self.raw, self.source_tokenizer, self.target_tokenizer)

    def source_ids(self, example: int) -> Array:
        """Return the source ids of an example, its tag first if it has one, without EOS."""
        return self._ids("source", example)

    def target_ids(self, example: int) -> Array:
        """Return the target ids of an example, with neither BOS nor EOS."""
        return self._ids("target", example)

    def pair(self, example: int) -> tuple[str, str]:
        """Return the text of an example."""
        row = int(self._columns["rows"][example])
        return self.raw.source(row), self.raw.target(row)

    def source_hashes(self) -> npt.NDArray[np.uint64]:
        """Return 64 bits of the source line of each example, equal for equal lines."""
        return np.asarray(self.raw.source_hash[self._columns["rows"]])

    def counts(self, side: Literal["source", "target"]) -> npt.NDArray[np.int64]:
        """Return how often each id of the vocabulary of ``side`` occurs."""
        ids, size = self._columns[side], len(self.source_tokenizer if side == "source" else self.target_tokenizer)
        found = np.zeros(size, dtype=np.int64)
        for start in range(0, len(ids), _COUNTED):
            found += np.bincount(ids[start : start + _COUNTED], minlength=size)
        return found

    def weights(self) -> npt.NDArray[np.float64]:
        """Return how many times an epoch sees each example, on average: the weight of its corpus."""
        return np.asarray(self.raw.weights, dtype=np.float64)[self.raw.part[self._columns["rows"]]]

    def sampled_source(self, example: int, *, seed: int, strength: float) -> list[int]:
        """Return the source of an example cut into pieces anew; see ``encode_sampled`` of the tokenizer."""
        row = int(self._columns["rows"][example])
        text = self.source_tokenizer.encode_sampled(self.raw.source(row), seed=seed, strength=strength)
        return tag_ids(self.raw, self.source_tokenizer, row) + text

    def sampled_target(self, example: int, *, seed: int, strength: float) -> list[int]:
        """Return the target of an example cut into pieces anew."""
        row = int(self._columns["rows"][example])
        return self.target_tokenizer.encode_sampled(self.raw.target(row), seed=seed, strength=strength)

    def _ids(self, side: str, example: int) -> Array:
        start, end = self._columns[f"{side}_offsets"][example : example + 2]
        return self._columns[side][start:end]


def encode_corpus(
    raw: RawCorpus,
    source_tokenizer: TextTokenizer,
    target_tokenizer: TextTokenizer,
    cache: str | Path,
    *,
    filters: FilterOptions,
    rows: npt.NDArray[np.int64] | None = None,
    workers: int = 1,
) -> EncodedCorpus:
    """Encode and filter ``raw``, or open what an earlier run has made of the same text, tokenizers and filters.

    Args:
        raw: the text.
        source_tokenizer: for the source; it must know the tags of the text.
        target_tokenizer: for the target.
        cache: the folder of the text's cache, or another.
        filters: which pairs to leave out.
        rows: the rows to take, such as those not held out; None takes all.
        workers: processes to encode a large corpus with; the result is the same for any number.

    Raises:
        DataError: no pair is left, or a tag is unknown to the tokenizer.
        TrainingError: the cache cannot be written.
    """
    rows = np.arange(len(raw), dtype=np.int64) if rows is None else rows
    folder = Path(cache) / f"ids-{_key(raw, rows, source_tokenizer, target_tokenizer, filters)[:16]}"
    columns = open_columns(folder)
    if columns is None:
        _build(folder, Encoder(raw, source_tokenizer, target_tokenizer, filters), rows, workers)
        columns = open_columns(folder)
        if columns is None:
            raise DataError(f"the cache {folder} was changed while it was being used")
    corpus = EncodedCorpus(columns, raw, source_tokenizer, target_tokenizer)
    if len(corpus) == 0:
        raise DataError(f"the filters left nothing to train on: {corpus.report.sentence()}")
    return corpus


def _build(folder: Path, encoder: Encoder, rows: npt.NDArray[np.int64], workers: int) -> None:
    report = FilterReport()
    repeated = encoder.raw.repeated(rows) if encoder.filters.unique else np.zeros(len(rows), dtype=np.bool_)
    with build_columns(folder) as builder:
        source = _IdsWriter(
            builder.column("source", dtype_of(encoder.source_tokenizer)), builder.column("source_offsets", "int64")
        )
        target = _IdsWriter(
            builder.column("target", dtype_of(encoder.target_tokenizer)), builder.column("target_offsets", "int64")
        )
        kept = builder.column("rows", "int64")
        for chunk in encoder.chunks(rows, repeated, workers=workers):
            source.append(chunk.source, chunk.source_lengths)
            target.append(chunk.target, chunk.target_lengths)
            kept.write(chunk.rows.tobytes())
            report.add(chunk.report)
        builder.facts |= {
            "report": report.to_dict(),
            "max_source_length": encoder.filters.max_source_length,
            "max_target_length": encoder.filters.max_target_length,
        }


class _IdsWriter:
    """The ids of lines, and where each begins."""

    def __init__(self, ids: ColumnWriter, offsets: ColumnWriter) -> None:
        self._ids, self._offsets, self._end = ids, offsets, 0
        offsets.write(np.zeros(1, dtype=np.int64).tobytes())

    def append(self, ids: Array, lengths: Array) -> None:
        ends = self._end + np.cumsum(lengths)
        self._end += len(ids)
        self._ids.write(ids.tobytes())
        self._offsets.write(ends.tobytes())


def _key(
    raw: RawCorpus,
    rows: npt.NDArray[np.int64],
    source_tokenizer: TextTokenizer,
    target_tokenizer: TextTokenizer,
    filters: FilterOptions,
) -> str:
    digest = hashlib.sha256(f"{_VERSION} {raw.key} {json.dumps(asdict(filters), sort_keys=True)}".encode())
    digest.update(rows.tobytes())
    for files in (source_tokenizer.to_files(), target_tokenizer.to_files()):
        digest.update(_digest(files))
    return digest.hexdigest()


def _digest(files: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name} {len(files[name])} ".encode())
        digest.update(files[name])
    return digest.digest()
