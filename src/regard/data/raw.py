"""The text of one or more corpora on disk: every line by its number, without reading the rest.

A row is a pair. Columns: ``source`` and ``target`` (UTF-8 bytes, lines one after the other), ``*_offsets`` [rows + 1],
``part`` (which corpus), ``tag`` (0 for none, else index + 1), ``source_hash`` and ``pair_hash`` (64 bits each).
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.columns import Columns, ColumnWriter, build_columns, open_columns
from regard.data.digests import Digests
from regard.data.readers import CorpusFiles, Pair
from regard.errors import DataError, RecipeError, TrainingError

_VERSION = 2


class RawCorpus:
    """Pairs of text, memory-mapped.

    Attributes:
        key: SHA-256 of the files' bytes and of how they were read.
        tags: the tags that occur, in the order first seen.
        target_words: words of all target lines, parted by spaces.
        target_characters: characters of all target lines.
        weights: one per corpus.
        part: [rows] which corpus a row is from.
        source_hash: [rows] 64 bits of the source line, equal for equal lines.
    """

    def __init__(self, columns: Columns, key: str, weights: Sequence[float]) -> None:
        self._columns = columns
        self.key = key
        self.weights = tuple(weights)
        self.tags: tuple[str, ...] = tuple(columns.facts["tags"])
        self.target_words: int = columns.facts.get("target_words", 0)
        self.target_characters: int = columns.facts.get("target_characters", 0)
        self.part = columns["part"]
        self.source_hash = columns["source_hash"]

    def __len__(self) -> int:
        return len(self.part)

    def __reduce__(self) -> tuple[Any, ...]:
        return RawCorpus, (self._columns, self.key, self.weights)

    def sizes(self) -> list[int]:
        """Return how many rows each corpus has."""
        return list(map(int, np.bincount(self.part, minlength=len(self.weights))))

    def source(self, row: int) -> str:
        """Return the source line of ``row``."""
        return self._line("source", row)

    def target(self, row: int) -> str:
        """Return the target line of ``row``."""
        return self._line("target", row)

    def source_lines(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[str]:
        """Yield the source line of each row, or of all."""
        return map(self.source, range(len(self)) if rows is None else map(int, rows))

    def target_lines(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[str]:
        """Yield the target line of each row, or of all."""
        return map(self.target, range(len(self)) if rows is None else map(int, rows))

    def pairs(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Pair]:
        """Yield each row, or all, as it was read."""
        for row in range(len(self)) if rows is None else map(int, rows):
            yield Pair(self.source(row), self.target(row), self.tag_of(row))

    def tag_of(self, row: int) -> str:
        """Return the tag of ``row``, empty for none."""
        tag = int(self._columns["tag"][row])
        return self.tags[tag - 1] if tag else ""

    def repeated(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return, for each of ``rows``, whether an equal pair (tag included) stands before it in ``rows``."""
        hashes = self._columns["pair_hash"][rows]
        order = np.argsort(hashes, kind="stable")
        repeats = np.zeros(len(rows), dtype=np.bool_)
        repeats[order[1:]] = hashes[order[1:]] == hashes[order[:-1]]
        firsts: dict[int, list[int]] = {}
        for position in np.flatnonzero(np.isin(hashes, hashes[repeats])):  # equal hashes need not be equal texts
            row, equal = int(rows[position]), firsts.setdefault(int(hashes[position]), [])
            repeats[position] = any(
                (self.source(row), self.target(row), self.tag_of(row))
                == (self.source(other), self.target(other), self.tag_of(other))
                for other in equal
            )
            if not repeats[position]:
                equal.append(row)
        return repeats

    def _line(self, side: str, row: int) -> str:
        start, end = self._columns[f"{side}_offsets"][row : row + 2]
        return self._columns[side][start:end].tobytes().decode("utf-8")


def open_raw(corpora: Sequence[CorpusFiles], cache: str | Path, *, temperature: float = 1.0) -> RawCorpus:
    """Read ``corpora`` into the folder ``cache``, or open what an earlier run has made of the same bytes.

    Args:
        corpora: one or more; rows are numbered through them in order.
        cache: a folder, made if need be; each content has its own subfolder.
        temperature: multiply the weights so that a corpus has a share of the epoch ∝ size^(1/temperature) instead of
            its size; above 1 brings small corpora forward (Arivazhagan et al. 2019, section 4.2).

    Raises:
        DataError: a file or line cannot be used, files have unequal lengths, or there is no pair at all.
        TrainingError: the cache cannot be written.
    """
    cache = Path(cache)
    if sum("-" in files.paths for files in corpora) > 1:
        raise DataError("only one corpus can be read from standard input; give files for the others")
    corpora = [_spooled(files, cache) for files in corpora]
    key = _key(corpora, cache)
    folder = cache / f"text-{key[:16]}"
    columns = open_columns(folder)
    if columns is None:
        _build(corpora, folder)
        columns = open_columns(folder)
        if columns is None:
            raise DataError(f"the cache {folder} was changed while it was being used")
    sizes = np.bincount(columns["part"], minlength=len(corpora)).tolist()
    warmed = temperature_weights(sizes, temperature)
    return RawCorpus(columns, key, [files.weight * factor for files, factor in zip(corpora, warmed, strict=True)])


def temperature_weights(sizes: Sequence[int], temperature: float) -> list[float]:
    """Return a weight per corpus that gives it a share ∝ size^(1/temperature) of an epoch of unchanged length."""
    if temperature <= 0:
        raise RecipeError(f"`temperature` must be above 0, but is {temperature}")
    if temperature == 1:
        return [1.0] * len(sizes)
    warmed = [size ** (1 / temperature) for size in sizes]
    return [sum(sizes) * share / sum(warmed) / size for share, size in zip(warmed, sizes, strict=True)]


def _build(corpora: Sequence[CorpusFiles], folder: Path) -> None:
    with build_columns(folder) as builder:
        sides = {
            side: _TextWriter(builder.column(side, "uint8"), builder.column(f"{side}_offsets", "int64"))
            for side in ("source", "target")
        }
        part, tag = builder.column("part", "uint16"), builder.column("tag", "uint16")
        source_hash, pair_hash = builder.column("source_hash", "uint64"), builder.column("pair_hash", "uint64")
        tags: dict[str, int] = {"": 0}
        words = characters = 0
        for index, files in enumerate(corpora):
            empty = True
            for pair in files.read():
                empty = False
                source, target = pair.source.encode("utf-8"), pair.target.encode("utf-8")
                sides["source"].append(source)
                sides["target"].append(target)
                part.append(index)
                tag.append(tags.setdefault(pair.tag, len(tags)))
                source_hash.append(_hash(source))
                pair_hash.append(_hash(b"\n".join((pair.tag.encode("utf-8"), source, target))))
                words, characters = words + pair.target.count(" ") + 1, characters + len(pair.target)
            if empty:
                raise DataError(f"{' and '.join(files.paths)}: empty; there is nothing to train on")
        builder.facts |= {"tags": list(tags)[1:], "target_words": words, "target_characters": characters}


class _TextWriter:
    """The bytes of lines, and where each begins."""

    def __init__(self, text: ColumnWriter, offsets: ColumnWriter) -> None:
        self._text, self._offsets, self._end = text, offsets, 0
        offsets.append(0)

    def append(self, line: bytes) -> None:
        self._end += len(line)
        self._text.write(line)
        self._offsets.append(self._end)


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _key(corpora: Sequence[CorpusFiles], cache: Path) -> str:
    digest = hashlib.sha256(f"{_VERSION}".encode())
    known = Digests(cache / "digests.json")
    for files in corpora:
        how = repr((files.format, files.columns, files.tag, *(() if files.nbest is None else (files.nbest,))))
        digest.update(how.encode("utf-8"))
        for path in files.paths:
            try:
                digest.update(known.of(Path(path)))
            except OSError:
                next(files.read(), None)  # says in words what is wrong with the file
                raise DataError(f"{path}: cannot be read") from None
    known.keep()
    return digest.hexdigest()


def _spooled(files: CorpusFiles, cache: Path) -> CorpusFiles:
    """Copy standard input to a file, since it can be read only once."""
    if "-" not in files.paths:
        return files
    spool = cache / "standard-input"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        raise TrainingError(f"the cache folder {cache} cannot be written ({error.strerror})") from None
    source = str(spool) if files.source == "-" else files.source
    target = str(spool) if files.target == "-" else files.target
    return replace(files, source=source, target=target)
