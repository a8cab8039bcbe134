"""What comes of a translation: the text, its scores, and what a reader should know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from regard.inspection.alignment import Link
from regard.protocols import UNK


@dataclass(frozen=True)
class Translation:
    """One way to put a text.

    Attributes:
        text: the output.
        score: what the search ranks by.
        log_prob: natural-log probability of the whole output under the model.
        finished: the model ended it by itself; otherwise it was cut at the longest length allowed.
        source_cut: the text was longer than the model can read, and its end was left out.
        ids: the output's tokens, without special ones but UNK.
        token_log_probs: natural-log probability of each of them and, when ``finished``, of the end mark.
        missing: phrases asked for that it does not contain: they were impossible.
        source_unknown: tokens of the source that the model does not know.
        alignment: which source word became which target word, words being what spaces part; None if nobody asked.
        flatness: of the look that it was aligned by, see `regard.inspection.flatness`.
    """

    text: str
    score: float
    log_prob: float
    finished: bool
    source_cut: bool
    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    source_unknown: int = 0
    alignment: tuple[Link, ...] | None = None
    flatness: float = 0.0

    @classmethod
    def nothing(cls, missing: tuple[str, ...]) -> Translation:
        """Return the translation of a text without any token, which lacks all phrases asked for."""
        return cls("", 0.0, 0.0, finished=True, source_cut=False, ids=(), missing=missing)

    @property
    def unknown(self) -> int:
        """How many of its tokens are unknown ones, which ``text`` leaves out unless they were replaced."""
        return self.ids.count(UNK)


def one_line(text: str) -> str:
    """Return the text of an output: a model that spells bytes may spell a line end, and an output is one line."""
    return text.replace("\r", " ").replace("\n", " ")


def in_a_row(parts: Sequence[Translation], joined: Callable[[Sequence[str]], str]) -> Translation:
    """Return the translations of several sentences as one: texts joined, scores summed.

    Args:
        parts: at least one.
        joined: of their texts makes one.
    """
    return Translation(
        text=joined([part.text for part in parts]),
        score=sum(part.score for part in parts),
        log_prob=sum(part.log_prob for part in parts),
        finished=all(part.finished for part in parts),
        source_cut=any(part.source_cut for part in parts),
        ids=tuple(chain.from_iterable(part.ids for part in parts)),
        token_log_probs=tuple(chain.from_iterable(part.token_log_probs for part in parts)),
        missing=tuple(chain.from_iterable(part.missing for part in parts)),
        source_unknown=sum(part.source_unknown for part in parts),
    )
