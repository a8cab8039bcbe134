"""Where do results go? To stdout or a file, which keeps its content until there is something to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from regard.errors import InputError
from regard.storage import MANIFEST, write_bytes

Put = Callable[[Sequence[str]], None]
"""Writes lines, and hands them on at once."""


@contextmanager
def printer(path: Path | None) -> Iterator[Put]:
    """Give what writes lines to ``path``; None and ``-`` are stdout."""
    with ExitStack() as opened:
        file: TextIO | None = sys.stdout if path is None or str(path) == "-" else None

        def put(lines: Sequence[str]) -> None:
            nonlocal file
            if file is None:
                assert path is not None
                try:
                    file = opened.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                except OSError as error:
                    raise InputError(f"{path}: cannot be written ({error.strerror})") from None
            file.writelines(f"{line}\n" for line in lines)
            file.flush()

        yield put
        put([])  # no lines in, an empty file out


def write_result(path: str | Path, data: bytes) -> None:
    """Write a whole result: a file appears at once, a link leads to its file, a device just takes it."""
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            device.write(data)
    else:
        write_bytes(path, data)


def refuse_output(output: Path | None, inputs: Sequence[str | Path | None]) -> None:
    """Refuse, before anything is loaded, an output that is read as well, is part of a model, or has no place to be.

    Args:
        output: a file to be written; None and ``-`` are stdout.
        inputs: what is read, None where there is nothing; ``-`` is standard input, which may be a file too.

    Raises:
        InputError: saying which.
    """
    if output is None or str(output) == "-":
        return
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(f"{output}: cannot be written; name a file in a folder that exists")
    if not os.access(output if output.exists() else output.absolute().parent, os.W_OK):
        raise InputError(f"{output}: cannot be written; you have not the right to")
    if (output.resolve().parent / MANIFEST).is_file():
        raise InputError(f"{output.parent} is the folder of a model or a checkpoint; write to another one")
    for path in inputs:
        reads = None if path is None else _status(path)
        if reads is not None and output.is_file() and os.path.samestat(output.stat(), reads):
            raise InputError(f"{output} is the input as well; write to another file")


def refuse_output_folder(folder: Path) -> None:
    """Refuse, before anything is loaded, a folder of results that cannot be made or written in, or is of a model.

    Raises:
        InputError: saying why.
    """
    place = next(there for there in (folder.absolute(), *folder.absolute().parents) if there.exists())
    if not place.is_dir():
        raise InputError(f"{folder}: cannot be a folder, because {place} is a file; name another one")
    if not os.access(place, os.W_OK):
        raise InputError(f"{folder}: cannot be written; you have not the right to")
    if (folder / MANIFEST).is_file():
        raise InputError(f"{folder} is the folder of a model or a checkpoint; write to another one")


def _status(path: str | Path) -> os.stat_result | None:
    """Return what identifies the file that is read, if there is one."""
    try:
        return os.fstat(sys.stdin.fileno()) if str(path) == "-" else Path(path).stat()
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # no such file, which is told when it is read; or an input that is none
        return None
