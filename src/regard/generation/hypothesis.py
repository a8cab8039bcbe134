"""One output of a search, with its score in parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAN_LOGITS = "the model gave NaN for the next word: its weights are damaged, or overflowed in half precision"
"""What every search says when a step's scores are no numbers; going on would return noise."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sentence that a search proposes.

    Attributes:
        ids: the words, with neither BOS nor EOS.
        token_log_probs: the model's natural-log probability of each id and, when ``finished``, of the end mark.
        score: what the search ranks by: ``log_prob + adjustment`` put through the length normalisation.
        finished: the model ended it with the end mark; otherwise it was cut, at the length limit or because nothing
            could follow.
        adjustment: what controls such as a token bias added to the log-probability, 0 without them.
        missing: forced phrases that it does not contain: they were impossible, and it is not ``finished``.
    """

    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    score: float
    finished: bool
    adjustment: float = 0.0
    missing: tuple[tuple[int, ...], ...] = ()

    @property
    def log_prob(self) -> float:
        """Return the model's log-probability of the whole: the sum of ``token_log_probs``, never above 0."""
        return math.fsum(self.token_log_probs)

    @property
    def length(self) -> int:
        """Return |Y|, the length that scores use: the ids, and the end mark when there is one."""
        return len(self.token_log_probs)


def ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses best first: whole before cut, with fewer phrases missing before more, then by score."""
    return sorted(hypotheses, key=lambda found: (not found.finished, len(found.missing), -found.score))
