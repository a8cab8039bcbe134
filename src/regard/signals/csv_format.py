"""How is a table of comma-separated values read? A case a row: its values in order, a label, columns to group by.

::

    site,t0,t1,t2,label
    north,0.5,0.7,0.1,up
    south,0.4,0.6,,down        two values: cells left empty at the end of a row end the case; others are missing values

The first row names the columns, unless it holds numbers: then it is a case like the others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.errors import DataError, nearest
from regard.plural import plural
from regard.signals.cases import Array
from regard.signals.labels import LABELS, NO_LABEL


def read_csv(
    path: Path, lines: Iterable[str], *, labels: str | None, groups: Sequence[str], labelled: bool
) -> tuple[list[Array], list[str] | None, dict[str, list[str]]]:
    """Return the cases of a table, [length] each, their labels, if it has any, and the groups of each column asked for.

    Args:
        path: for messages.
        lines: of the file.
        labels: the column of the labels, by name or number from 1; None for one of `LABELS`, or else the last.
        groups: columns to group by, in the same way.
        labelled: labels and groups must be there; otherwise they are left aside where they are.

    Raises:
        DataError: with file and line: the table cannot be used.
    """
    reader = csv.reader(lines)
    first = next(reader, None)
    if first is None:
        raise DataError(f"{path}: is empty")
    where, first = f"{path}:{reader.line_num}", [cell.strip() for cell in first]
    has_header = _is_header(first, {labels, *groups})
    if has_header and "" in first:
        raise DataError(f"{where}: column {first.index('') + 1} has no name; name it, or leave it out")
    columns = {name: place for place, name in enumerate(first)} if has_header else {}
    label = _label_column(path, labels, columns, first, labelled=labelled)
    places = {name: _column(path, name, columns, len(first)) for name in groups if labelled or name in columns}
    values = [place for place in range(len(first)) if place != label and place not in places.values()]
    if not has_header and (word := next((first[place] for place in values if not _is_number(first[place])), None)):
        raise DataError(f"{where}: {word!r} is no number; a first row that names the columns holds no number at all")
    cases, of_cases = [], []
    of_groups: dict[str, list[str]] = {name: [] for name in places}
    for row in reader if has_header else _again(first, reader):
        where = f"{path}:{reader.line_num}"
        if len(row) != len(first):
            raise DataError(f"{where}: the row has {plural(len(row), 'column')}, but the first one has {len(first)}")
        cases.append(_row([row[place].strip() for place in values], where))
        of_cases.append("" if label is None else row[label].strip())
        if labelled and of_cases[-1] in NO_LABEL:
            raise DataError(f"{where}: the row has no label; give it one, or leave it out")
        for name, place in places.items():
            of_groups[name].append(row[place].strip())
    if not cases:
        raise DataError(f"{path}: no row follows the header")
    if not has_header and labelled and of_cases[0] in LABELS and of_cases.count(of_cases[0]) == 1:
        raise DataError(f"{path}:1: names columns by numbers, it seems; name them by words, or leave the row out")
    return cases, None if label is None else of_cases, of_groups


def _is_header(first: Sequence[str], wanted: set[str | None]) -> bool:
    """Whether a first row names columns: it has words and no number, or one of the names that are wanted."""
    words = {cell for cell in first if not _is_number(cell)}
    numbers = any(cell and _is_number(cell) for cell in first)
    return bool(words) and (not numbers or not words.isdisjoint(wanted))


def _label_column(
    path: Path, name: str | None, columns: Mapping[str, int], first: Sequence[str], *, labelled: bool
) -> int | None:
    """Return where the labels are, if there are any.

    Where nobody asks for them, and no name tells, a column of words is one of labels, as it cannot be one of values.
    """
    if name is not None and (labelled or name in columns):
        return _column(path, name, columns, len(first))
    if (by_name := next((columns[known] for known in LABELS if known in columns), None)) is not None:
        return by_name
    if labelled:
        return len(first) - 1
    if columns:
        return None
    place = int(name) - 1 if name is not None and name.isdecimal() and 1 <= int(name) <= len(first) else len(first) - 1
    return None if _is_number(first[place]) else place


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
