"""Which word became which in each pair of two files, and which head tells it best? Cross-attention of a forced reading.

Axes: N layers, H heads, T target, S source.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.data import read_lines
from regard.errors import DataError, InputError
from regard.inspection import draw_table, flatness, from_pharaoh, rank_heads
from regard.inspection.alignment import doubt_of_flat
from regard.plural import plural
from regard.runs.looking.heads import aligning_look, alignment
from regard.runs.looking.look import Attention, attentions_of_pair
from regard.runs.saying import Say
from regard.runs.text_set import read_aligned
from regard.translator import Translator


def aligned_lines(
    translator: Translator, source: str | Path, target: str | Path, pattern: str | None = None, *, say: Say
) -> Iterator[str]:
    """Yield a line such as ``0-0 1-2`` for each pair of lines: source word, target word, counted from 0.

    Args:
        translator: A trained model.
        source: File of source lines.
        target: File of their translations, which the model is made to read.
        pattern: By which heads, see `regard.runs.looking.heads.aligning_look`.
        say: Told of pairs that have no line of links because they are empty or too long, and, at the end, when the
            attention is too flat to align anything.

    Raises:
        InputError: A file or part cannot be used.
    """
    shares = []
    for attentions in _read(translator, source, target, say):
        if attentions is None:
            yield ""
            continue
        look = aligning_look(attentions, pattern)
        shares.append(flatness(look.weights[0]))
        yield alignment(look)
    if shares and (sentence := doubt_of_flat(statistics.fmean(shares))) is not None:
        say(sentence)


@dataclass(frozen=True)
class RankedHead:
    """A head, or the mean of a layer's heads, and the error rate of its alignments (0 is perfect)."""

    name: str
    error_rate: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return dict(vars(self))


def ranked_heads(
    translator: Translator, source: str | Path, target: str | Path, links: str | Path, *, say: Say
) -> list[RankedHead]:
    """Return all heads of cross-attention, those first whose alignments are nearest to given ones.

    Args:
        translator: A trained model.
        source: File of source lines.
        target: File of their translations.
        links: File of a line for each pair: links that people are sure of, as ``0-0 1-2``.
        say: Told of pairs that are left out.

    Raises:
        InputError: A file cannot be used, or no pair is left.
    """
    sure = []
    for number, line in enumerate(read_lines(str(links)), 1):
        try:
            sure.append(from_pharaoh(line))
        except InputError as error:
            raise DataError(f"{links}:{number}: {error}") from None
    read = list(_read(translator, source, target, say))
    if len(read) != len(sure):
        raise DataError(
            f"{links} has {plural(len(sure), 'line')} and {source} {len(read):,}; line i of both must belong together"
        )
    told = [
        ([one for one in attentions if one.address.endswith(".cross")], wanted)
        for attentions, wanted in zip(read, sure, strict=True)
        if attentions is not None
    ]
    if not told:
        raise DataError(f"{source} holds no pair that the model can read")
    names = [attention.address for attention in told[0][0]]
    ranking = rank_heads(
        [torch.stack([attention.weights for attention in cross]) for cross, _ in told],
        [cross[0].column_words for cross, _ in told],
        [cross[0].row_words for cross, _ in told],
        [wanted for _, wanted in told],
    )
    return [
        RankedHead(names[choice.layer] + ("" if choice.head is None else f".head:{choice.head + 1}"), choice.error_rate)
        for choice in ranking
    ]


def ranking_lines(ranking: Sequence[RankedHead]) -> Iterator[str]:
    """Yield the ranking for a terminal, the best first."""
    table = [["by", "alignment error rate"], *([one.name, f"{100 * one.error_rate:.1f} %"] for one in ranking)]
    yield draw_table(table, left=(0,))


def _read(
    translator: Translator, source: str | Path, target: str | Path, say: Say
) -> Iterator[Sequence[Attention] | None]:
    """Yield where the model looks as it reads each pair, or None for a pair that it cannot read."""
    text = read_aligned(str(source), [str(target)])
    for number, (line, (answer, *_)) in enumerate(zip(text.sources, text.references, strict=True), 1):
        try:
            attentions = attentions_of_pair(translator, line, answer)
        except InputError as error:
            say(f"line {number}: {error}; not aligned")
            yield None
        else:
            yield attentions
