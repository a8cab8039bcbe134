"""How is a table of comma-separated values read? A case a row: its values in order, a label, columns to group by.

::

    site,t0,t1,t2,label
    north,0.5,0.7,0.1,up
    south,0.4,0.6,,down        two values: cells left empty at the end of a row end the case; others are missing values

The first row names the columns, unless it holds numbers: then it is a case like the others.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from regard.errors import DataError, nearest
from regard.plural import plural
from regard.signals.cases import Array
from regard.signals.labels import LABELS, NO_LABEL
from regard.signals.numbers import as_number, is_number

_NUMBERED = "names columns by numbers, it seems; name them by words, or leave the row out"


def read_csv(
    path: Path,
    lines: Iterable[str],
    *,
    labels: str | None,
    groups: Sequence[str],
    perhaps: Sequence[str] = (),
    labelled: bool,
) -> tuple[list[Array], list[str] | None, dict[str, list[str]]]:
    """Return the cases of a table, [length] each, their labels, if it has any, and the groups of each column asked for.

    Args:
        path: for messages.
        lines: of the file.
        labels: the column of the labels, by name or number from 1; None for one of `LABELS`, or the last if no header.
        groups: columns to group by, in the same way.
        perhaps: further ones, which need not be there.
        labelled: each case must have a label; otherwise labels are left aside where they are.

    Raises:
        DataError: with file and line: the table cannot be used.
    """
    rows = _rows(path, lines)
    at_first, first = next(rows, (str(path), None))
    if first is None:
        raise DataError(f"{path}: is empty")
    has_header = _is_header(first, {labels, *groups, *perhaps})
    _refuse_first(first, at_first, has_header=has_header)
    columns = {name: place for place, name in enumerate(first)} if has_header else {}
    label = _label_column(path, labels, columns, first, labelled=labelled)
    places = {name: _column(path, name, columns, len(first)) for name in groups}
    places |= {name: place for name in perhaps if (place := _place(name, columns, len(first))) is not None}
    values = [place for place in range(len(first)) if place != label and place not in places.values()]
    if not has_header and (word := next((first[place] for place in values if not is_number(first[place])), None)):
        _refuse_separator(word, at_first)
        raise DataError(f"{at_first}: {word!r} is no number; a first row that names the columns holds no number at all")
    cases, of_cases = [], []
    of_groups: dict[str, list[str]] = {name: [] for name in places}
    for where, row in _filled(rows if has_header else chain([(at_first, first)], rows)):
        if len(row) != len(first):
            raise DataError(f"{where}: the row has {plural(len(row), 'column')}, but the first one has {len(first)}")
        remedy = "" if label is not None else "; if it is a label, say which column that is with `labels`"
        cases.append(_row([row[place] for place in values], where, remedy))
        of_cases.append("" if label is None else row[label])
        if labelled and of_cases[-1] in NO_LABEL:
            raise DataError(f"{where}: the row has no label; give it one, or leave it out")
        for name, place in places.items():
            of_groups[name].append(row[place])
    if not cases:
        raise DataError(f"{path}: no row follows the header")
    if not has_header and of_cases[0] in LABELS and of_cases.count(of_cases[0]) == 1:
        raise DataError(f"{path}:1: {_NUMBERED}")
    return cases, None if label is None else of_cases, of_groups


def _refuse_first(first: Sequence[str], where: str, *, has_header: bool) -> None:
    """Refuse a first row that names columns, or seems to, in a way that cannot be meant."""
    if not any(first):
        raise DataError(f"{where}: the row is empty; the first one names the columns, or is a case")
    if len(first) == 1:
        _refuse_separator(first[0], where)
    if has_header:
        if "" in first:
            raise DataError(f"{where}: column {first.index('') + 1} has no name; name it, or leave it out")
        if (most := Counter(first).most_common(1)[0])[1] > 1:
            raise DataError(f"{where}: column {most[0]!r} comes twice; names tell columns apart")
    numbered = first[1:] if not first[0] else first
    if len(numbered) > 2 and any(numbered == [str(start + n) for n in range(len(numbered))] for start in (0, 1)):
        raise DataError(f"{where}: {_NUMBERED}")


def _refuse_separator(cell: str, where: str) -> None:
    for sign, name in ((";", "';'"), ("\t", "tabs")):
        if sign in cell:
            raise DataError(
                f"{where}: columns are parted by {name}, it seems, but commas are expected, and points in numbers"
            )


def _rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield where a row is, and its cells, stripped. Each line is read alone, or a lone quote would swallow others."""
    for number, line in enumerate(lines, start=1):
        try:
            for row in csv.reader([line], strict=True):
                yield f"{path}:{number}", [cell.strip() for cell in row]
        except csv.Error as error:
            remedy = "; quotes enclose a whole cell, and close in its line" if '"' in line else ""
            raise DataError(f"{path}:{number}: the row cannot be parted into cells ({error}){remedy}") from None


def _filled(rows: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows that hold something; those at the end that hold nothing are left out."""
    blank = ""
    for where, cells in rows:
        if not any(cells):
            blank = blank or where
        elif blank:
            raise DataError(f"{blank}: the row is empty, but others follow; leave it out")
        else:
            yield where, cells


def _is_header(first: Sequence[str], wanted: set[str | None]) -> bool:
    """Whether a first row names columns: it has words and no number, or one of the names that are wanted."""
    words = {cell for cell in first if not is_number(cell)}
    numbers = any(cell and is_number(cell) for cell in first)
    return bool(words) and (not numbers or not words.isdisjoint(wanted))


def _label_column(
    path: Path, name: str | None, columns: Mapping[str, int], first: Sequence[str], *, labelled: bool
) -> int | None:
    """Return where the labels are, if there are any.

    Where nobody asks for them, and no name tells, a column of words is one of labels, as it cannot be one of values.
    """
    if name is not None:
        return _column(path, name, columns, len(first))
    if (by_name := next((columns[known] for known in LABELS if known in columns), None)) is not None:
        return by_name
    if labelled and columns:
        *others, last = LABELS
        raise DataError(f"{path}: no column is called {', '.join(others)} or {last}; say which it is with `labels`")
    if labelled:
        return len(first) - 1
    words = [place for place, cell in enumerate(first) if not is_number(cell)]
    return words[0] if len(words) == 1 and not columns else None


def _column(path: Path, name: str, columns: Mapping[str, int], width: int) -> int:
    if (place := _place(name, columns, width)) is not None:
        return place
    known = nearest(name, columns) if columns else f", and no header; columns are numbered from 1 to {width}"
    raise DataError(f"{path}: has no column {name!r}{known}")


def _place(name: str, columns: Mapping[str, int], width: int) -> int | None:
    numbered = name.isdecimal() and len(name) < 10 and 1 <= int(name) <= width
    return columns.get(name, int(name) - 1 if numbered else None)


def _row(cells: list[str], where: str, remedy: str) -> Array:
    while cells and not cells[-1]:
        cells.pop()
    if not cells:
        raise DataError(f"{where}: the row has no value")
    try:
        return np.array([as_number(cell) for cell in cells])
    except ValueError as error:
        raise DataError(f"{where}: {error}{remedy}") from None
