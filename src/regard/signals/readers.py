"""How do files become labelled cases? .npz, .npy, .csv, and the .ts of the UEA and UCR archives.

Arrays of .npy files, and of .npz files written without compression, are mapped and not read, so they may be larger than
memory. Text files, and compressed members, are read whole.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.errors import DataError, ShapeError, nearest
from regard.signals.cases import Array, Cases, as_cases
from regard.signals.ts_format import read_ts

LABELS = ("y", "label", "labels", "class", "target")
"""What an array or a column of labels is called, when nothing says so."""


@dataclass(frozen=True)
class Layout:
    """Where in a file things are.

    Attributes:
        x: the array of an .npz file that holds the signals.
        labels: its array of labels; or a column of a .csv file, by name or number from 1; or, beside an .npy file,
            another file with one label a line. Left out, the first of ``y``, ``label``, ``labels``, ``class`` and
            ``target`` that is there; in a .csv without a header the last column.
        lengths: the array of an .npz file that holds the real length of each case, where they differ.
        groups: further arrays or columns with one value a case, to tell results apart by: the SNR, say.
        channels_last: arrays are [cases, length, channels] and not [cases, channels, length].
    """

    x: str = "X"
    labels: str | None = None
    lengths: str | None = None
    groups: tuple[str, ...] = ()
    channels_last: bool = False


@dataclass(frozen=True)
class SignalSet:
    """Cases, and what is known of them.

    Attributes:
        cases: the signals.
        labels: as text, one a case; None if the file has none.
        groups: name -> value of each case, as text.
    """

    cases: Cases
    labels: Sequence[str] | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_signals(path: str | Path, layout: Layout | None = None, *, labelled: bool = True) -> SignalSet:
    """Read a file of signals.

    Args:
        path: its ending says what it is; .csv and .ts may be compressed (.gz).
        layout: where in it things are.
        labelled: labels must be there; otherwise they are taken if the file names them.

    Raises:
        DataError: the file cannot be read or used; with file and line where there are lines.
    """
    path, layout = Path(path), layout or Layout()
    ending = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    readers = {"npz": _read_npz, "npy": _read_npy, "csv": _read_csv, "ts": _read_ts}
    if ending not in readers:
        raise DataError(f"{path}: signals are read from .npz, .npy, .csv and .ts files, and this is none of them")
    try:
        found = readers[ending](path, layout, labelled)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError):
        raise DataError(f"{path}: is damaged, or cut short") from None
    except (OverflowError, MemoryError):
        raise DataError(f"{path}: says that it holds more than any memory") from None
    except csv.Error as error:
        raise DataError(f"{path}: is no table that can be read ({error})") from None
    except ShapeError as error:
        raise DataError(f"{path}: {error}") from None
    for name, values in {"labels": found.labels, **found.groups}.items():
        if values is not None and len(values) != len(found.cases):
            raise DataError(f"{path}: there are {len(found.cases):,} cases, but {len(values):,} of {name}")
    if labelled and found.labels is None:
        raise DataError(f"{path}: holds no labels; say where they are with `labels`")
    return found


def _read_npz(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}
    except zipfile.BadZipFile:
        raise DataError(f"{path}: is not an .npz file") from None

    def array(name: str) -> Array:
        if name not in members:
            raise DataError(f"{path}: holds no array {name!r}{nearest(name, members)}")
        return _npz_array(path, name, members[name])

    labels = layout.labels or next((name for name in LABELS if name in members), None)
    if not labelled and labels not in members:
        labels = None
    X = array(layout.x)
    if layout.lengths is None:
        cases = as_cases(X, channels_last=layout.channels_last)
    else:
        X = X[:, None, :] if X.ndim == 2 else X.transpose(0, 2, 1) if layout.channels_last else X
        cases = Cases(X, array(layout.lengths))
    return SignalSet(
        cases,
        None if labels is None else as_texts(array(labels)),
        {name: as_texts(array(name)) for name in layout.groups if labelled or name in members},
    )


def _npz_array(path: Path, name: str, member: zipfile.ZipInfo) -> Array:
    """Return an array of an .npz file: mapped where it is stored as it is, else read."""
    if member.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as file:
            file.seek(member.header_offset)
            local = file.read(30)  # the local header ends with the lengths of the name and of what follows it
            file.seek(int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little"), io.SEEK_CUR)
            try:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, in_columns, dtype = read(file)
            except ValueError:
                raise DataError(f"{path}: {name!r} is no array") from None
            if not dtype.hasobject and 0 not in shape:
                try:
                    return np.memmap(path, dtype, "r", file.tell(), shape, "F" if in_columns else "C")
                except ValueError:  # larger than the file
                    raise EOFError from None
    try:
        with np.load(path, allow_pickle=False) as archive:
            loaded: Array = archive[name]
            return loaded
    except ValueError:
        raise DataError(
            f"{path}: {name!r} holds Python objects, which are not read as they can run code; store sequences of "
            "unequal length as one array, filled up, and their `lengths`"
        ) from None


def _read_npy(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{path}: is not an .npy file of numbers ({error})") from None
    labels = None
    if layout.labels is not None:
        beside = path.parent / layout.labels
        try:
            labels = (
                as_texts(np.load(beside, allow_pickle=False))
                if beside.suffix == ".npy"
                else [line.strip() for line in _lines(beside) if line.strip()]
            )
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{beside}: cannot be read as labels ({error})") from None
    return SignalSet(as_cases(X, channels_last=layout.channels_last), labels)


def _read_ts(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    cases, labels = read_ts(path, _lines(path))
    return SignalSet(Cases(cases), labels)


def _read_csv(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    """Read a case a row: its values in order, with columns for label and groups; cells left empty end it early."""
    reader = csv.reader(_lines(path))
    first = next(reader, None)
    if first is None:
        raise DataError(f"{path}: is empty")
    header = [cell.strip() for cell in first]
    has_header = not all(_is_number(cell) for cell in header[:-1])
    columns = {name: place for place, name in enumerate(header)} if has_header else {}
    label = _label_column(path, layout.labels, columns, len(header), labelled=labelled)
    groups = {name: _column(path, name, columns, len(header)) for name in layout.groups if labelled or name in columns}
    values = [place for place in range(len(header)) if place != label and place not in groups.values()]
    cases, labels = [], []
    of_groups: dict[str, list[str]] = {name: [] for name in groups}
    for row in reader if has_header else _again(first, reader):
        where = f"{path}:{reader.line_num}"
        if len(row) != len(header):
            raise DataError(f"{where}: the row has {len(row)} columns, but the first one has {len(header)}")
        cases.append(_row([row[place].strip() for place in values], where))
        labels.append("" if label is None else row[label].strip())
        for name, place in groups.items():
            of_groups[name].append(row[place].strip())
    if not cases:
        raise DataError(f"{path}: no row follows the header")
    return SignalSet(as_cases(cases), None if label is None else labels, of_groups)


def _label_column(
    path: Path, name: str | None, columns: Mapping[str, int], width: int, *, labelled: bool
) -> int | None:
    if name is not None and (labelled or name in columns):
        return _column(path, name, columns, width)
    by_name = next((columns[known] for known in LABELS if known in columns), None)
    return width - 1 if by_name is None and labelled else by_name


def _column(path: Path, name: str, columns: Mapping[str, int], width: int) -> int:
    if name in columns:
        return columns[name]
    if name.isdecimal() and 1 <= int(name) <= width:
        return int(name) - 1
    known = nearest(name, columns) if columns else f", and no header; columns are numbered from 1 to {width}"
    raise DataError(f"{path}: has no column {name!r}{known}")


def _row(cells: list[str], where: str) -> Array:
    while cells and not cells[-1]:
        cells.pop()
    if not cells:
        raise DataError(f"{where}: the row has no value")
    try:
        return np.array([float(cell) if cell else float("nan") for cell in cells])
    except ValueError as error:
        raise DataError(f"{where}: {str(error).partition(': ')[2]} is no number") from None


def _again(first: list[str], rest: Iterable[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text, ended by ``\\n`` alone, whatever else it holds."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{path}:{number}: not valid UTF-8") from None
            yield text.removesuffix("\n").removesuffix("\r")


def as_texts(values: Array) -> list[str]:
    """Return labels or groups as text: 3 and 3.0 are ``3``, bytes are UTF-8.

    Raises:
        ShapeError: there is not one value a case.
    """
    if values.ndim != 1:
        raise ShapeError(f"labels and groups must be one value a case, but have shape {list(values.shape)}")
    return [_as_text(value) for value in values.tolist()]


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
