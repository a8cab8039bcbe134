"""What should a reader know that the results do not show? Counts over all lines, told at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from regard.inspection.alignment import doubt_of_flat
from regard.plural import plural
from regard.translation import Translation

_FEW = 3  # lines, below which one output for all is no sign of anything
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Tally:
    """Lines that hold something, and among them those with a flaw.

    Attributes:
        lines: with text.
        empty: whose output is empty.
        cut: that the model could not read whole.
        unread: that hold what the model does not know.
        unfinished: whose output was cut at the longest length allowed.
        unknown: whose output lacks what the model could not name.
        missing: whose output lacks a phrase that was asked for.
        same: whose output is that of the line before, which is another line.
        aligned: whose output is aligned with it.
        flatness: of the looks that these are aligned by, summed.
    """

    lines: int = 0
    empty: int = 0
    cut: int = 0
    unread: int = 0
    unfinished: int = 0
    unknown: int = 0
    missing: int = 0
    same: int = 0
    aligned: int = 0
    flatness: float = 0.0

    @classmethod
    def of(
        cls, text: str, best: Translation, *, replaced: bool, before: tuple[str, Translation] | None = None
    ) -> Tally:
        """Return the counts of one line and its best output.

        Args:
            text: the line.
            best: its output.
            replaced: unknown words of outputs are replaced.
            before: the line with text before it, and its output.
        """
        if not text.strip():
            return cls()
        return cls(
            1,
            not best.text.strip(),
            best.source_cut,
            best.source_unknown > 0,
            not best.finished,
            best.unknown > 0 and not replaced,
            bool(best.missing),
            before is not None and text != before[0] and best.text == before[1].text != "",
            best.alignment is not None,
            best.flatness,
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(self)))

    def doubt(self, *, least: int = 1) -> str | None:
        """Return a warning if of ``least`` lines or more most outputs are empty, or nearly all of three are one."""
        if self.lines < least:
            return None
        if 2 * self.empty > self.lines:
            found = f"most outputs are empty ({self.empty:,} of {self.lines:,})"
        elif self.lines >= _FEW and self.same >= _NEARLY_ALL * (self.lines - 1):
            found = f"one line after the other gets the same output ({self.lines:,} lines)"
        else:
            return None
        return f"{found}: the model has perhaps not learned enough yet; train it longer"

    def sentences(self) -> Iterator[str]:
        """Yield what else is worth saying."""
        if self.cut:
            yield f"{plural(self.cut, 'line was', 'lines were')} longer than the model reads, and cut at the end"
        if self.unread:
            yield f"{plural(self.unread, 'line holds', 'lines hold')} letters or words that the model does not know"
        if self.unfinished:
            yield f"outputs cut at the longest length allowed: {self.unfinished:,}"
        if self.unknown:
            yield f"outputs that lack a word the model could not name: {self.unknown:,}; see --replace-unknown"
        if self.missing:
            yield f"outputs that lack a phrase asked for, which was impossible: {self.missing:,}"
        if self.aligned and (doubt := doubt_of_flat(self.flatness / self.aligned)) is not None:
            yield doubt
