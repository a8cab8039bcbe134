"""How do logits become a token? The last step: which candidates there were, and which of them came.

Axes: T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Candidate:
    """A token that might come next.

    Attributes:
        token: Its printed name.
        id: Its id.
        logit: Its unnormalised score.
        probability: Its share after the softmax.
    """

    token: str
    id: int
    logit: float
    probability: float


def top_candidates(
    logits: Float[Tensor, " V"], names: Callable[[list[int]], Sequence[str]], k: int = 5
) -> list[Candidate]:
    """Return the ``k`` most probable next tokens, the best first.

    ``names`` prints ids: ``tokenizer.pieces``.
    """
    probabilities = logits.float().softmax(dim=-1)
    best = probabilities.topk(min(k, probabilities.numel()))
    ids = best.indices.tolist()
    return [
        Candidate(name, i, logits[i].item(), probability)
        for name, i, probability in zip(names(ids), ids, best.values.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Choice:
    """One step from logits to a token.

    Attributes:
        after: What the model had just read.
        token: What came next.
        probability: The share of it after the softmax.
        rank: How many tokens were more probable, plus 1.
        candidates: The most probable tokens, the best first.
    """

    after: str
    token: str
    probability: float
    rank: int
    candidates: tuple[Candidate, ...]


def choices(
    logits: Float[Tensor, "T V"],
    read: Sequence[str],
    written: Sequence[int],
    names: Callable[[list[int]], Sequence[str]],
    k: int = 5,
) -> list[Choice]:
    """Return how each position of a target got its token.

    Args:
        logits: Scores of the next token at each position.
        read: The printed name of what was read at each position.
        written: The id that came next.
        names: Prints ids: ``tokenizer.pieces``.
        k: Candidates told.
    """
    probabilities = logits.detach().float().softmax(dim=-1)
    found = []
    for row, after, token, name in zip(range(len(logits)), read, written, names(list(written)), strict=True):
        own = probabilities[row, token]
        rank = int((probabilities[row] > own).sum()) + 1
        found.append(Choice(after, name, own.item(), rank, tuple(top_candidates(logits[row].detach(), names, k))))
    return found
