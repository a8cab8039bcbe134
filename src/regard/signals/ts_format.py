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
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.errors import DataError, nearest
from regard.plural import plural
from regard.signals.cases import Array
from regard.signals.numbers import as_number

_FLAGS = {"timestamps", "missing", "univariate", "equallength", "targetlabel"}
_KNOWN = _FLAGS | {"problemname", "dimensions", "dimension", "serieslength", "classlabel", "data"}


@dataclass
class TsHeader:
    """What the lines before ``@data`` say.

    Attributes:
        classes: the labels that may occur; None where cases have no label.
        dimensions: channels, where it is told.
        length: values of a channel, where it is told.
        flags: what is said to be so or not: ``equallength``, ``missing``, ``univariate``.
    """

    classes: tuple[str, ...] | None = None
    dimensions: int | None = None
    length: int | None = None
    flags: dict[str, bool] = field(default_factory=dict)

    def refuse(self, case: Array, first: Array, where: str) -> None:
        """Refuse a case, [channels, length], that is not as it was said to be; ``first`` is the first of the file.

        Raises:
            DataError: with ``where`` before it.
        """
        channels, length = case.shape
        said = None
        if self.dimensions not in (None, channels):
            said = f"has {plural(channels, 'channel')}, but @dimensions says {self.dimensions}"
        elif self.flags.get("univariate") and channels > 1:
            said = f"has {plural(channels, 'channel')}, but @univariate says true"
        elif channels != first.shape[0]:
            said = f"has {plural(channels, 'channel')}, but the first one has {first.shape[0]}"
        elif self.flags.get("equallength", True) and self.length not in (None, length):
            said = f"is {plural(length, 'value')} long, but @seriesLength says {self.length}"
        elif self.flags.get("equallength") and length != first.shape[1]:
            said = f"is {plural(length, 'value')} long, the first one {first.shape[1]}, but @equalLength says true"
        elif not self.flags.get("missing", True) and np.isnan(case).any():
            said = "has a missing value, but @missing says false"
        if said:
            raise DataError(f"{where}: the case {said}")


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
        channels, label = _parted(line.split(":"), header, where)
        cases.append(_case(channels, where))
        header.refuse(cases[-1], cases[0], where)
        labels.append(label)
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
            header.dimensions = _size(word, values, "the number of channels", where)
        case "serieslength":
            # 0 where lengths differ, say some
            header.length = None if values == ["0"] else _size(word, values, "the number of values", where)
        case "equallength" | "missing" | "univariate":
            header.flags[key] = yes
        case "data":
            return True
    return False


def _size(word: str, values: list[str], what: str, where: str) -> int:
    if len(values) != 1 or not values[0].isdecimal() or not values[0].strip("0"):
        raise DataError(f"{where}: @{word} must be followed by {what}, 1 or more")
    if len(values[0]) > 9:
        raise DataError(f"{where}: {values[0][:40]} is too large for @{word}")
    return int(values[0])


def _parted(parts: list[str], header: TsHeader, where: str) -> tuple[list[str], str]:
    """Return the channels and the label of a case, which is empty where cases have none."""
    if header.classes is None:
        return parts, ""
    channels, label = parts[:-1], parts[-1].strip()
    if label not in header.classes:
        if not label or not channels or "," in label or len(parts) == header.dimensions:
            raise DataError(f"{where}: the case has no label; it must end with ':' and one of @classLabel")
        raise DataError(f"{where}: the class {label[:40]!r} is not among those of @classLabel")
    return channels, label


def _case(channels: list[str], where: str) -> Array:
    rows = []
    for text in channels:
        try:
            rows.append([_value(value.strip()) for value in text.split(",")])
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"{where}: the channels have unequal lengths: {', '.join(str(len(row)) for row in rows)}")
    if not rows:
        raise DataError(f"{where}: the case has no channel")
    return np.array(rows)


def _value(text: str) -> float:
    if not text:
        raise ValueError("a value is empty; one that is missing is ?")
    return float("nan") if text == "?" else as_number(text)
