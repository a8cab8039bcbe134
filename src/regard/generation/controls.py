"""What a user may ask of the words: small objects that change the scores of the next one, composed in a list.

Each is given the scores of every word, [N, V], to write into or to replace, and the prefixes that they follow. It
speaks of sentences by the numbers that the caller of the search gave them. A control that only forbids leaves the
scores of what remains alone: reported log-probabilities are always the model's.

Axes: N prefixes, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.generation.options import SearchOptions
from regard.generation.prefixes import Prefixes
from regard.protocols import BOS, EOS, PAD, UNK

Phrase = Sequence[int]

_MOST_NATS = 1e9
"""Beyond any use, and far from where the arithmetic of float32 ends."""


@runtime_checkable
class Control(Protocol):
    """Changes the scores of the next word."""

    @property
    def ceiling(self) -> float:
        """Return the highest score that a word can get; 0 when no log-probability is raised above 0."""
        ...

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Return the new scores of what may follow each prefix."""
        ...


@dataclass(frozen=True)
class ForcedPrefix:
    """An output begins with the given words.

    Attributes:
        words: by sentence; others are free.
    """

    words: Mapping[int, Phrase]
    ceiling = 0.0

    def __post_init__(self) -> None:
        for sentence, words in self.words.items():
            _check(words, f"the forced prefix of sentence {sentence}")

    @cached_property
    def _largest(self) -> int:
        return max(chain.from_iterable(self.words.values()), default=0)

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid all words but the next of the prefix."""
        in_vocabulary(self._largest, scores.shape[-1], "a forced prefix")
        for n, sentence in enumerate(prefixes.sentence.tolist()):
            words = self.words.get(sentence, ())
            if prefixes.num_words < len(words):
                word = words[prefixes.num_words]
                kept = scores[n, word].clone()
                scores[n] = -math.inf
                scores[n, word] = kept
        return scores


@dataclass(frozen=True)
class NoRepeat:
    """No sequence of ``size`` words occurs twice.

    Attributes:
        size: words; 1 lets each word occur once.
    """

    size: int
    ceiling = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"the size of what must not repeat must be at least 1, but is {self.size}")

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid what followed the last ``size - 1`` words where they stood before."""
        banned = []
        last = prefixes.num_words - self.size + 1  # where the sequence that the next word completes begins
        for n, ids in enumerate(prefixes.ids.tolist()):
            banned += [
                (n, ids[start + self.size - 1])
                for start in range(last)
                if ids[start : start + self.size - 1] == ids[last:]
            ]
        return _without(scores, banned)


@dataclass(frozen=True)
class RepetitionPenalty:
    """The log-probability of a word that has occurred is multiplied (Keskar et al. 2019, on log-probabilities).

    Attributes:
        penalty: above 1 discourages repetition, below 1 encourages it.
    """

    penalty: float
    ceiling = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.penalty) and self.penalty > 0):
            raise InputError(f"the repetition penalty must be a number above 0, but is {self.penalty}")

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Multiply the scores of the words of each prefix."""
        for n, ids in enumerate(prefixes.ids.tolist()):
            scores[n, sorted({*ids})] *= self.penalty
        return scores


@dataclass(frozen=True)
class Suppress:
    """Some words occur nowhere.

    Attributes:
        words: their ids.
    """

    words: Sequence[int]
    ceiling = 0.0

    def __post_init__(self) -> None:
        _check(self.words, "the list of suppressed words")

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid the words."""
        in_vocabulary(max(self.words, default=0), scores.shape[-1], "the list of suppressed words")
        scores[:, list(self.words)] = -math.inf
        return scores


@dataclass(frozen=True)
class Bias:
    """Some words are made likelier or less likely.

    Attributes:
        added: what is added to the log-probability of each, in nats; the end mark may be among them.
    """

    added: Mapping[int, float]

    def __post_init__(self) -> None:
        if not all(abs(nats) <= _MOST_NATS for nats in self.added.values()):
            raise InputError(f"a bias must be a number from -{_MOST_NATS:g} to {_MOST_NATS:g}")
        if min(self.added, default=0) < 0:
            raise InputError(f"a bias must be for the id of a word, but one is for {min(self.added)}")

    @property
    def ceiling(self) -> float:
        """Return the largest bias."""
        return max(0.0, *self.added.values()) if self.added else 0.0

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Add the biases."""
        in_vocabulary(max(self.added, default=0), scores.shape[-1], "a bias")
        scores[:, list(self.added)] += scores.new_tensor(list(self.added.values()))
        return scores


def asked_by(options: SearchOptions) -> list[Control]:
    """Return the controls that the options of a search ask for, in this order."""
    found: list[Control] = []
    if options.suppress_unknown:
        found.append(Suppress((UNK,)))
    if options.no_repeat:
        found.append(NoRepeat(options.no_repeat))
    if options.repetition_penalty != 1:
        found.append(RepetitionPenalty(options.repetition_penalty))
    return found


def controlled(
    log_probs: Float[Tensor, "N V"], controls: Sequence[Control], prefixes: Prefixes
) -> Float[Tensor, "N V"]:
    """Return the scores after all controls, in their order; ``log_probs`` are kept."""
    scores = log_probs.clone() if controls else log_probs
    for control in controls:
        scores = control(scores, prefixes)
    return scores


def in_vocabulary(largest: int, size: int, name: str) -> None:
    """Refuse ids that the model's vocabulary does not have.

    Raises:
        InputError: ``largest`` is not below ``size``.
    """
    if largest >= size:
        raise InputError(f"{name} must hold ids below the vocabulary's size {size:,}, but holds {largest:,}")


def _without(scores: Tensor, banned: Iterable[tuple[int, int]]) -> Tensor:
    pairs = [*zip(*banned, strict=True)]
    if pairs:
        scores[list(pairs[0]), list(pairs[1])] = -math.inf
    return scores


def _check(words: Phrase, name: str) -> None:
    for word in words:
        if word < 0 or word in (PAD, BOS, EOS):
            raise InputError(f"{name} must hold ids of words, but holds {word}")
