"""How do files become labelled cases? .npz, .npy, .csv, and the .ts of the UEA and UCR archives.

Arrays of .npy files, and of .npz files written without compression, are mapped, so they may be larger than memory. Of
an .npz file the checksum of each array is compared once, when it is opened, which reads it piece by piece. Text files,
and compressed members, are read whole.
"""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from regard.errors import DataError, ShapeError, nearest
from regard.plural import plural
from regard.signals.cases import Array, Cases, as_cases
from regard.signals.csv_format import read_csv
from regard.signals.labels import LABELS, NO_LABEL, as_texts
from regard.signals.ts_format import read_ts

_PIECE = 1 << 20
"""Bytes of an array that are read together where its checksum is compared."""

_METHODS = {9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz", 98: "ppmd"}
"""Names of what other programs than numpy compress members of a zip file by."""


_KEYS = {"npz": ("x", "labels", "lengths", "channels_last"), "npy": ("labels", "channels_last"), "csv": ("labels",)}
"""What of a layout files of a format know, beside groups."""

_MEANT = {
    "x": "names the array of an .npz file that holds the signals",
    "labels": "names an array of an .npz file, a column of a .csv file, or a file beside an .npy file",
    "lengths": "names the array of an .npz file that says how long each case is",
    "channels_last": "says how the arrays of .npz and .npy files lie",
}


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
        perhaps: groups that are taken where a file has them.
    """

    x: str = "X"
    labels: str | None = None
    lengths: str | None = None
    groups: tuple[str, ...] = ()
    channels_last: bool = False
    perhaps: tuple[str, ...] = ()

    def with_groups(self, more: Sequence[str]) -> Layout:
        """Return a layout with further groups."""
        return replace(self, groups=tuple(dict.fromkeys([*self.groups, *more])))

    def carried(self, path: str | Path, origin: str | Path) -> Layout:
        """Return what holds for a file too, if this is how ``origin`` is laid out: what the format of the file knows.

        The name of the labels holds for arrays and columns alike, but is not that of a file beside another.
        """
        here, there = _format(path), _format(origin)
        kept = dict.fromkeys(_KEYS.get(here, ()))
        if not {here, there} <= {"npz", "csv"} and here != there:
            kept.pop("labels", None)
        return Layout(groups=self.groups, perhaps=self.perhaps, **{key: getattr(self, key) for key in kept})


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
        labelled: each case must have a label; otherwise labels and groups are left aside where they are.

    Raises:
        DataError: the file cannot be read or used; with file and line where there are lines.
    """
    path, layout = Path(path), layout or Layout()
    if not labelled:
        layout = replace(layout, groups=(), perhaps=(*layout.groups, *layout.perhaps))
    readers = {"npz": _read_npz, "npy": _read_npy, "csv": _read_csv, "ts": _read_ts}
    if (ending := _format(path)) not in readers:
        raise DataError(f"{path}: signals are read from .npz, .npy, .csv and .ts files, and this is none of them")
    for key, meaning in _MEANT.items():
        if key not in _KEYS.get(ending, ()) and getattr(layout, key) != getattr(Layout(), key):
            raise DataError(f"{path}: `{key}` {meaning}; of a .{ending} file it says nothing, so leave it out")
    try:
        with naming(path):
            found = readers[ending](path, layout, labelled)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (EOFError, zlib.error, zipfile.BadZipFile):
        raise DataError(f"{path}: is damaged, or cut short") from None
    except NotImplementedError as error:  # a zip file of a newer version, say
        raise DataError(f"{path}: cannot be read ({error}); write it with np.savez or np.savez_compressed") from None
    except (OverflowError, MemoryError):
        raise DataError(f"{path}: says that it holds more than any memory") from None
    for name, values in {"labels": found.labels, **found.groups}.items():
        if values is not None and len(values) != len(found.cases):
            raise DataError(f"{path}: holds {plural(len(found.cases), 'case')}, but {len(values):,} of {name}")
    if labelled:
        _refuse_missing(path, found.labels)
    return found


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Say which file signals are from that cannot be used.

    Raises:
        DataError: instead of a ShapeError, with the file before its words.
    """
    try:
        yield
    except ShapeError as error:
        raise DataError(f"{path}: {error}") from None


def _refuse_missing(path: Path, labels: Sequence[str] | None) -> None:
    if labels is None:
        raise DataError(f"{path}: holds no labels; say where they are with `labels`")
    missing = next((case for case, label in enumerate(labels) if label in NO_LABEL), None)
    if missing is not None:
        raise DataError(
            f"{path}: case {missing} has no label ({labels[missing] or 'empty'}); label it, or leave it out"
        )


def _read_npz(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    with path.open("rb") as file:
        if file.read(2) != b"PK":  # how a zip file begins, though it be cut short
            raise DataError(f"{path}: is not an .npz file")
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}

    def array(name: str) -> Array:
        if name not in members:
            raise DataError(f"{path}: holds no array {name!r}{nearest(name, members)}")
        return _npz_array(path, name, members[name])

    labels = layout.labels
    if labels is None and labelled:
        labels = next((name for name in LABELS if name in members), None)
    there = [name for name in layout.perhaps if labelled and name in members]
    X = array(layout.x)
    if layout.lengths is None:
        cases = as_cases(X, channels_last=layout.channels_last)
    else:
        X = X[:, None, :] if X.ndim == 2 else X.transpose(0, 2, 1) if layout.channels_last else X
        cases = Cases(X, array(layout.lengths))
    return SignalSet(
        cases,
        None if labels is None else as_texts(array(labels)),
        {name: as_texts(array(name)) for name in (*layout.groups, *there)},
    )


def _npz_array(path: Path, name: str, member: zipfile.ZipInfo) -> Array:
    """Return an array of an .npz file: mapped where it is stored as it is, else read; its checksum is compared."""
    if member.flag_bits & 1:
        raise DataError(f"{path}: {name!r} is encrypted, which is not read; store it as numpy does")
    if (method := member.compress_type) not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # not even where Python knows it: a file that one machine reads is read by all
        known = f" ({_METHODS[method]})" if method in _METHODS else ""
        raise DataError(
            f"{path}: {name!r} is compressed by method {method}{known}, which is not read; write the file with "
            "np.savez_compressed, or np.savez"
        )
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, in_columns, dtype = read(file)
        except ValueError:
            raise DataError(f"{path}: {name!r} is no array") from None
        if dtype.hasobject:
            raise DataError(
                f"{path}: {name!r} holds Python objects, which are not read as they can run code; store sequences of "
                "unequal length as one array, filled up, and their `lengths`"
            )
        header, size = file.tell(), math.prod(shape) * dtype.itemsize
        if header + size != member.file_size:
            raise EOFError
        if member.compress_type != zipfile.ZIP_STORED or not size:
            file.seek(0)
            loaded: Array = np.lib.format.read_array(file, allow_pickle=False)
            file.read()  # to the end, where zipfile compares the checksum
            return loaded
        while file.read(_PIECE):
            pass
    return np.memmap(path, dtype, "r", _data_offset(path, member) + header, shape, "F" if in_columns else "C")


def _data_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Return where the bytes of a stored member begin: its own header ends with the lengths of its name and extras."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        local = file.read(30)
    return member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")


def _read_npy(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    _refuse_groups(path, layout)
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
    _refuse_groups(path, layout)
    cases, labels = read_ts(path, _lines(path))
    return SignalSet(Cases(cases), labels)


def _read_csv(path: Path, layout: Layout, labelled: bool) -> SignalSet:
    cases, labels, groups = read_csv(
        path, _lines(path), labels=layout.labels, groups=layout.groups, perhaps=layout.perhaps, labelled=labelled
    )
    return SignalSet(as_cases(cases), labels, groups)


def _format(path: str | Path) -> str:
    return Path(path).name.removesuffix(".gz").rpartition(".")[2].lower()


def _refuse_groups(path: Path, layout: Layout) -> None:
    if layout.groups:
        raise DataError(f"{path}: has no column {layout.groups[0]!r} to group by; .npz and .csv files can have such")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text, ended by ``\\n`` alone, whatever else it holds."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{path}:{number}: not valid UTF-8") from None
            yield text.removesuffix("\n").removesuffix("\r")
