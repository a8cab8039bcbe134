"""How do files become lines and pairs of text?

One rule for every command: the bytes are UTF-8 whatever the locale; a line ends at ``\\n`` and nowhere else (``\\r\\n``
is accepted, a byte-order mark is dropped), so that U+2028, U+0085, form feeds and the like stay inside their line and
the number of lines is what ``wc -l`` counts, plus one for a last line without ``\\n``. Bytes that are not UTF-8, and
NUL (the sign of UTF-16 or of a binary file), are refused with file and line. gzip is recognised by its first two bytes,
which no UTF-8 text has, so that a name or a pipe need not say it. ``-`` is standard input.

Everything streams: one line is in memory at a time.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, cast

from regard.errors import DataError, RecipeError
from regard.plural import plural

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


class Pair(NamedTuple):
    """A source line, its target line, and the tag (language, domain) to put before the source, or ``""``."""

    source: str
    target: str
    tag: str = ""


Format = Literal["lines", "tsv", "jsonl", "nbest"]


@dataclass(frozen=True)
class CorpusFiles:
    """Where the pairs of one corpus are.

    Attributes:
        source: file of source lines, or of pairs (TSV, JSONL) when ``target`` is None; ``-`` is standard input.
        target: file of target lines, aligned with ``source`` line by line.
        columns: for TSV, which columns hold source and target, from 1; None demands exactly two columns.
        weight: how many times an epoch sees each pair, on average; 0.5 is every other epoch.
        tag: put before every source as one token that text cannot spell, such as ``de``; empty for none.
        nbest: the last file is an n-best list, of which so many outputs of each source are read; see `read_nbest`.
    """

    source: str
    target: str | None = None
    columns: tuple[int, int] | None = None
    weight: float = 1.0
    tag: str = ""
    nbest: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1e6:
            raise RecipeError(f"`weight` of {self.source} must be above 0, but is {self.weight}")
        if self.columns is not None and (min(self.columns) < 1 or self.columns[0] == self.columns[1]):
            raise RecipeError(f"`columns` must be two different numbers from 1, but is {list(self.columns)}")
        if self.columns is not None and self.format != "tsv":
            raise RecipeError(f"`columns` is for a .tsv file, but {self.source} is read as {self.format}")
        if self.target is not None and self.source == self.target:
            raise RecipeError(f"`source` and `target` are the same file: {self.source}")

    @property
    def format(self) -> Format:
        """``lines`` with a target file; else by the ending of ``source``: .jsonl, .jsonl.gz, anything else is TSV."""
        if self.nbest is not None:
            return "nbest"
        if self.target is not None:
            return "lines"
        return "jsonl" if self.source.removesuffix(".gz").endswith(".jsonl") else "tsv"

    @property
    def paths(self) -> tuple[str, ...]:
        """The one or two files."""
        return (self.source,) if self.target is None else (self.source, self.target)

    def read(self) -> Iterator[Pair]:
        """Yield the pairs, tagged with ``tag`` unless a pair brings its own.

        Raises:
            DataError: a file or a line cannot be used; the message says which.
        """
        match self.format:
            case "lines":
                assert self.target is not None
                pairs = read_parallel(self.source, self.target)
            case "tsv":
                pairs = read_tsv(self.source, self.columns)
            case "jsonl":
                pairs = read_jsonl(self.source)
            case "nbest":
                from regard.data.nbest import read_nbest  # which reads its lines with what is below

                pairs = read_nbest(self.paths[-1], None if self.target is None else self.source, keep=self.nbest or 1)
        return (pair if pair.tag or not self.tag else pair._replace(tag=self.tag) for pair in pairs)


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file, plain or gzip, without their line ends. ``-`` is standard input.

    Raises:
        DataError: the file is missing, unreadable, a folder, damaged gzip, not UTF-8, or holds a NUL.
    """
    name = _name(path)
    with _open(path) as file:
        for number, raw in enumerate(file, 1):
            if number == 1:
                raw = raw.removeprefix(_BOM)
            if b"\0" in raw:
                raise DataError(f"{name}:{number}: holds a NUL, so this is not UTF-8 text; convert it to UTF-8 first")
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}:{number}: not valid UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1}); "
                    "convert the file to UTF-8 first"
                ) from None
            if line.endswith("\n"):
                line = line[:-2] if line.endswith("\r\n") else line[:-1]
            yield line


def read_parallel(source: str | Path, target: str | Path) -> Iterator[Pair]:
    """Yield line i of ``source`` with line i of ``target``.

    Raises:
        DataError: one file has more lines than the other (both counts are told), or one cannot be read.
    """
    if str(source) == str(target) == "-":
        raise DataError("source and target cannot both be standard input; give a .tsv or .jsonl file, or two files")
    counts = [0, 0]
    for source_line, target_line in zip_longest(read_lines(source), read_lines(target)):
        counts[0] += source_line is not None
        counts[1] += target_line is not None
        if counts[0] == counts[1]:
            yield Pair(source_line, target_line)
    if counts[0] != counts[1]:
        raise DataError(
            f"{_name(source)} has {plural(counts[0], 'line')} but {_name(target)} has {counts[1]:,}; "
            "line i of one must belong to line i of the other"
        )


def read_tsv(path: str | Path, columns: tuple[int, int] | None = None) -> Iterator[Pair]:
    """Yield the pairs of a tab-separated file. Quotes are ordinary characters; every line has the same columns.

    Args:
        path: the file.
        columns: which columns hold source and target, from 1. None demands exactly two columns.

    Raises:
        DataError: a line has another number of columns, or the file cannot be read.
    """
    expected = 2 if columns is None else 0
    first, second = columns or (1, 2)
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        expected = expected or len(fields)
        if len(fields) != expected:
            remedy = (
                "name the two with `columns`" if columns is None and len(fields) > 2 else "separate them by one tab"
            )
            raise DataError(
                f"{_name(path)}:{number}: {plural(len(fields), 'column')} where {expected} are expected; {remedy}"
            )
        if max(first, second) > expected:
            raise DataError(f"{_name(path)}: there is no column {max(first, second)}; its lines have {expected}")
        yield Pair(fields[first - 1], fields[second - 1])


def read_jsonl(path: str | Path) -> Iterator[Pair]:
    """Yield the pairs of a file with one ``{"source": …, "target": …}`` a line; ``"tag"`` is optional, others free.

    Raises:
        DataError: a line is not such an object, a text holds a line end, or the file cannot be read.
    """
    for number, line in enumerate(read_lines(path), 1):
        where = f"{_name(path)}:{number}"
        record = json_object(line, where, '{"source": "…", "target": "…"}')
        yield Pair(
            json_text(record, "source", where), json_text(record, "target", where), json_text(record, "tag", where)
        )


def json_object(line: str, where: str, wish: str) -> dict[str, object]:
    """Return the JSON object that a line is. Raises DataError at ``where`` that shows the wish."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON; expected {wish}") from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: not an object; expected {wish}")
    return record


def json_text(record: dict[str, object], key: str, where: str) -> str:
    """Return a text of a JSON object, which must be one line; ``tag`` may be missing. Raises DataError at ``where``."""
    text = record.get(key, "" if key == "tag" else None)
    if not isinstance(text, str):
        state = "missing" if text is None else f"not a text but {json.dumps(text)[:40]}"
        raise DataError(f"{where}: `{key}` is {state}")
    if "\n" in text or "\0" in text:
        raise DataError(f"{where}: `{key}` holds a line end or a NUL; a text here is one line")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: `{key}` holds half of a surrogate pair, which is no character") from None
    return text


def _name(path: str | Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


@contextmanager
def _open(path: str | Path) -> Iterator[io.BufferedIOBase]:
    """Open for buffered binary reading, through gzip if need be; say in words what goes wrong, then or later."""
    name = _name(path)
    try:
        if str(path) == "-":
            yield _through_gzip(cast(io.BufferedIOBase, sys.stdin.buffer))
            return
        with Path(path).open("rb") as file:
            yield _through_gzip(file)
    except FileNotFoundError:
        raise DataError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder, not a text file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: is damaged gzip ({error}); it was perhaps cut while being copied") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from None


def _through_gzip(file: io.BufferedIOBase) -> io.BufferedIOBase:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    return gzip.GzipFile(fileobj=buffered) if buffered.peek(2)[:2] == _GZIP else buffered
