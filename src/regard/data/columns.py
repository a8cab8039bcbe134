"""Columns of numbers and text on disk, larger than memory if need be: written once, appended to, then only read.

A folder holds one file a column and ``columns.json``, which says what each is. It is built under another name and
renamed when it is whole, so that a build that was killed leaves nothing that could be taken for one.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from regard.errors import TrainingError

_DESCRIPTION = "columns.json"
_VERSION = 1
_BUFFERED = 1 << 16

Array = npt.NDArray[Any]
Ids = Sequence[int] | Array


class ColumnWriter:
    """One column being written: numbers of one type, appended one at a time or many."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self._file = file
        self._buffer = array(self.dtype.char)

    def append(self, value: int) -> None:
        """Append one number."""
        self._buffer.append(value)
        if len(self._buffer) >= _BUFFERED:
            self._flush()

    def extend(self, values: Iterable[int]) -> None:
        """Append many numbers."""
        self._buffer.extend(values)
        if len(self._buffer) >= _BUFFERED:
            self._flush()

    def write(self, raw: bytes) -> None:
        """Append numbers that are bytes already; not to be mixed with the others, which wait in memory for a while."""
        self._file.write(raw)

    def finish(self) -> None:
        """Write what is left and make sure that it is on the disk, before the folder gets its name."""
        self._flush()
        self._file.flush()
        os.fsync(self._file.fileno())

    def _flush(self) -> None:
        self._buffer.tofile(self._file)
        del self._buffer[:]


class ColumnsBuilder:
    """The columns of a folder being built, and the facts to store beside them."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self._folder = folder
        self._files = files
        self._writers: dict[str, ColumnWriter] = {}
        self.facts: dict[str, Any] = {}

    def column(self, name: str, dtype: str) -> ColumnWriter:
        """Start a column. ``dtype`` is a NumPy type of integers, as ``int64``."""
        file = self._files.enter_context((self._folder / name).open("wb"))
        writer = self._writers[name] = ColumnWriter(file, dtype)
        return writer

    def finish(self) -> None:
        """Finish all columns and write the description."""
        for writer in self._writers.values():
            writer.finish()
        columns = {
            name: {"dtype": writer.dtype.name, "bytes": (self._folder / name).stat().st_size}
            for name, writer in self._writers.items()
        }
        description = {"version": _VERSION, "columns": columns, "facts": self.facts}
        (self._folder / _DESCRIPTION).write_text(json.dumps(description, indent=1), encoding="utf-8")


@contextmanager
def build_columns(folder: Path) -> Iterator[ColumnsBuilder]:
    """Build ``folder``: it appears whole when the block ends, and not at all when the block fails.

    Raises:
        TrainingError: the disk is full or cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        building = folder.with_name(f"{_temporary(folder)}{os.getpid()}")
        building.mkdir()
    except OSError as error:
        raise TrainingError(f"the cache folder {folder.parent} cannot be written ({error.strerror})") from None
    try:
        with ExitStack() as files:
            builder = ColumnsBuilder(building, files)
            yield builder
            builder.finish()
        _give_name(building, folder)
    except OSError as error:
        raise TrainingError(f"the cache folder {folder.parent} cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


class Columns:
    """The columns of a finished folder, memory-mapped; goes to another process as its folder's name."""

    def __init__(self, folder: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
        self.folder = folder
        self.facts = facts
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return open_columns, (self.folder,)


def open_columns(folder: Path) -> Columns | None:
    """Open a finished folder; None if there is none, or it is of another version, or not whole."""
    try:
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        if description["version"] != _VERSION:
            return None
        arrays: dict[str, Array] = {}
        for name, column in description["columns"].items():
            path = folder / name
            if path.stat().st_size != column["bytes"]:
                return None
            dtype = np.dtype(column["dtype"])
            # an empty file cannot be mapped
            arrays[name] = np.asarray(np.memmap(path, dtype, mode="r")) if column["bytes"] else np.empty(0, dtype)
        return Columns(folder, arrays, description["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _give_name(building: Path, folder: Path) -> None:
    """Rename, unless another process was faster and has made the same."""
    if open_columns(folder) is None:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            building.rename(folder)
        except OSError:
            if open_columns(folder) is None:
                raise


def _temporary(folder: Path) -> str:
    """Return what the names of all builds of ``folder`` on this machine begin with; the process id follows."""
    return f".{folder.name}.{platform.node()}."


def _sweep(folder: Path) -> None:
    """Remove what builds of ``folder`` by processes that are no more have left."""
    for left in folder.parent.glob(f"{_temporary(folder)}*"):
        pid = left.name.rpartition(".")[2]
        if pid == str(os.getpid()) or not _alive(pid):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
