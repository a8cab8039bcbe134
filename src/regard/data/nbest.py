"""How does a list of a model's outputs become pairs to learn from? Sequence-level distillation (Kim and Rush 2016)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from regard.data.readers import Pair, json_object, json_text, read_lines
from regard.errors import DataError


def read_nbest(path: str | Path, source: str | Path | None = None, *, keep: int = 1) -> Iterator[Pair]:
    """Yield each source with its best outputs, as `regard translate` writes them; the list says which are best.

    Args:
        path: with ``source`` an n-best list of Moses, ``0 ||| text ||| ...`` with the number of the source line from 0,
            best first; without, objects of ``regard translate --jsonl``.
        source: the lines that were translated.
        keep: outputs of each source, at most.

    Raises:
        DataError: a line cannot be used, or belongs to no source.
    """
    return _jsonl(path, keep) if source is None else _moses(path, source, keep)


def _jsonl(path: str | Path, keep: int) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        record = json_object(line, where, '{"source": "…", "translation": "…"}')
        source, several = json_text(record, "source", where), record.get("nbest", [record])
        if not isinstance(several, list) or not all(isinstance(one, dict) for one in several):
            raise DataError(f"{where}: `nbest` is not a list of objects but {json.dumps(several)[:40]}")
        for one in several[:keep]:
            yield Pair(source, json_text(one, "translation", where))


def _moses(path: str | Path, source: str | Path, keep: int) -> Iterator[Pair]:
    sources = read_lines(source)
    line, at, seen = "", -1, 0
    for number, row in enumerate(read_lines(path), 1):
        where = f"{path}:{number}"
        index, *fields = row.split(" ||| ")
        if not fields or not index.strip().isdecimal():
            raise DataError(f"{where}: not a line of an n-best list; expected: number ||| text ||| ...")
        wanted = int(index)
        if wanted < at:
            raise DataError(f"{where}: line {wanted} of the source comes after line {at}; the numbers must not fall")
        if wanted > at:
            found = next(islice(sources, wanted - at - 1, None), None)
            if found is None:
                raise DataError(f"{where}: is of line {wanted} of {source}, counted from 0, which has fewer lines")
            line, at, seen = found, wanted, 0
        seen += 1
        if seen <= keep:
            yield Pair(line, fields[0])
