"""How is a file of the UEA and UCR archives read? Header lines that start with ``@``, then a case a line.

::

    @problemName JapaneseVowels
    @classLabel true 1 2 3
    @data
    0.5,0.7,0.1:1.2,1.3,1.1:2        two channels of three values, class 2

Channels are parted by ``:``, values by ``,``; ``?`` is a missing value. Cases, not channels, may differ in length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import DataError, nearest
from regard.plural import plural
from regard.signals.cases import Array

_FLAGS = {"timestamps", "missing", "univariate", "equallength", "targetlabel"}
_KNOWN = _FLAGS | {"problemname", "dimensions", "dimension", "serieslength", "classlabel", "data"}


@dataclass
class TsHeader:
    """What the lines before ``@data`` say.

    Attributes:
        classes: the labels that may occur; None where cases have no label.
        dimensions: channels, where it is told.
    """

    classes: tuple[str, ...] | None = None
    dimensions: int | None = None


def read_ts(path: str | Path, lines: Iterable[str]) -> tuple[list[Array], list[str] | None]:
    """Return the cases of a ``.ts`` file, [channels, length] each, and their labels, if it has any.

    Args:
        path: for messages.
        lines: of the file.

    Raises:
        DataError: with file and line: a header or a case cannot be used.
    """
    header, cases, labels = TsHeader(), [], []
    in_data = False
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith(("#", "%")):
            continue
        where = f"{path}:{number}"
        if not in_data:
            in_data = _read_header(line, header, where)
            continue
        *channels, label = line.split(":") if header.classes is not None else [*line.split(":"), ""]
        if header.classes is not None and label.strip() not in header.classes:
            raise DataError(f"{where}: the class {label.strip()[:40]!r} is not among those of @classLabel")
        if header.dimensions is not None and len(channels) != header.dimensions:
            raise DataError(
                f"{where}: the case has {plural(len(channels), 'channel')}, but @dimensions says {header.dimensions}"
            )
        cases.append(_case(channels, where))
        if cases[-1].shape[0] != cases[0].shape[0]:
            raise DataError(
                f"{where}: the case has {plural(cases[-1].shape[0], 'channel')}, but the first one has "
                f"{cases[0].shape[0]}"
            )
        labels.append(label.strip())
    if not in_data:
        raise DataError(f"{path}: no line says @data, so this is not a .ts file")
    if not cases:
        raise DataError(f"{path}: no case follows @data")
    return cases, None if header.classes is None else labels


def _read_header(line: str, header: TsHeader, where: str) -> bool:
    """Take one header line in; return whether it was the last."""
    if not line.startswith("@"):
        raise DataError(f"{where}: a header line must start with @, up to @data; this one is {line[:40]!r}")
    word, *values = line[1:].split() or [""]
    key = word.lower()
    if key not in _KNOWN:
        raise DataError(f"{where}: @{word} is unknown{nearest(key, _KNOWN)}")
    if key in _FLAGS | {"classlabel"} and (not values or values[0].lower() not in ("true", "false")):
        raise DataError(f"{where}: @{word} must be followed by true or false")
    yes = bool(values) and values[0].lower() == "true"
    match key:
        case "timestamps" if yes:
            raise DataError(f"{where}: values with time stamps are not read; give them at equal distances, without")
        case "targetlabel" if yes:
            raise DataError(f"{where}: this is a file for regression; a classifier needs @classLabel")
        case "classlabel" if yes:
            if len(values) < 2:
                raise DataError(f"{where}: @classLabel true must be followed by the classes")
            header.classes = tuple(values[1:])
        case "dimensions" | "dimension":
            if len(values) != 1 or not values[0].isdecimal() or len(values[0]) > 9 or int(values[0]) < 1:
                raise DataError(f"{where}: @{word} must be followed by the number of channels")
            header.dimensions = int(values[0])
        case "data":
            return True
    return False


def _case(channels: list[str], where: str) -> Array:
    rows = []
    for text in channels:
        try:
            rows.append([float("nan") if value.strip() == "?" else float(value) for value in text.split(",")])
        except ValueError as error:
            what = str(error).partition(": ")[2] or "nothing"
            raise DataError(f"{where}: {what} is no number") from None
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"{where}: the channels have unequal lengths: {', '.join(str(len(row)) for row in rows)}")
    if not rows:
        raise DataError(f"{where}: the case has no channel")
    return np.array(rows)
