"""Which pairs are left out of training, and how many that were."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Literal

from regard.errors import refuse
from regard.plural import plural


@dataclass(frozen=True)
class FilterOptions:
    """What a pair must be like. Lengths are in tokens as the model sees them: tag and end mark count.

    Attributes:
        max_source_length: longest source.
        max_target_length: longest target.
        overlong: ``drop`` pairs with a longer side, or ``clip`` that side.
        max_ratio: longest side over shortest; left out, any is allowed.
        keep_empty: keep pairs with an empty or blank side.
        unique: keep only the first of exactly equal pairs.
    """

    max_source_length: int = 512
    max_target_length: int = 512
    overlong: Literal["drop", "clip"] = "drop"
    max_ratio: float | None = None
    keep_empty: bool = False
    unique: bool = False

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        for name in ("max_source_length", "max_target_length"):
            if getattr(self, name) < 2:
                yield (f"`{name}` must be at least 2 (a token and the end mark), but is {getattr(self, name)}")
        if self.max_ratio is not None and not 1 <= self.max_ratio < math.inf:
            yield f"`max_ratio` must be at least 1, or left out, but is {self.max_ratio}"

    def judge(self, source_length: int, target_length: int) -> str | None:
        """Return the name of the count in ``FilterReport`` for which lengths drop a pair, or None to keep it."""
        if self.overlong == "drop" and source_length > self.max_source_length:
            return "long_source"
        if self.overlong == "drop" and target_length > self.max_target_length:
            return "long_target"
        if self.max_ratio is not None and max(source_length, target_length) > self.max_ratio * min(
            source_length, target_length
        ):
            return "ratio"
        return None


@dataclass
class FilterReport:
    """How many pairs there were, were kept, and were dropped for each reason (the first that held).

    Attributes:
        total: pairs read.
        kept: pairs kept, ``clipped`` ones included.
        empty: dropped because a side is empty or blank.
        duplicate: dropped because an equal pair came before.
        long_source: dropped because the source is too long.
        long_target: dropped because the target is too long.
        ratio: dropped because one side is too long for the other.
        clipped: kept after cutting a side to its longest length.
    """

    total: int = 0
    kept: int = 0
    empty: int = field(default=0, metadata={"said": "empty"})
    duplicate: int = field(default=0, metadata={"said": "duplicate"})
    long_source: int = field(default=0, metadata={"said": "source too long"})
    long_target: int = field(default=0, metadata={"said": "target too long"})
    ratio: int = field(default=0, metadata={"said": "lengths too unlike"})
    clipped: int = 0

    def count(self, reason: str) -> None:
        """Count one pair more for ``reason``, the name of a field."""
        setattr(self, reason, getattr(self, reason) + 1)

    def add(self, other: FilterReport) -> None:
        """Add the counts of another part of the text."""
        for column in fields(self):
            setattr(self, column.name, getattr(self, column.name) + getattr(other, column.name))

    def sentence(self) -> str:
        """Say it in one line for people."""
        dropped = [
            f"{getattr(self, column.name):,} {column.metadata['said']}"
            for column in fields(self)
            if "said" in column.metadata and getattr(self, column.name)
        ]
        said = f"{self.kept:,} of {plural(self.total, 'pair')} kept"
        if dropped:
            said += f" (dropped: {', '.join(dropped)})"
        return said + (f"; {self.clipped:,} clipped" if self.clipped else "")

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)
