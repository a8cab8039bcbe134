"""What can be asked of a search: the recipe's ``[generation]`` table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from regard.errors import RecipeError
from regard.generation.prefixes import Ints
from regard.generation.scores import Average, LengthPenalty, Score, Sum, WordReward


@dataclass(frozen=True)
class SamplingOptions:
    """What outputs are drawn from.

    Attributes:
        samples: outputs drawn per sentence.
        temperature: below 1 prefers the likely words; 0 is greedy search.
        top_k: draw among that many best words; None: all.
        top_p: draw among the fewest best words that have this probability together.
        min_p: draw among words that have at least this share of the best one's probability.
        seed: of the draws; a sentence's outputs depend on it and on the sentence's number, and on nothing else.
    """

    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        _at_least("sampling.samples", self.samples, 1)
        _at_least("sampling.temperature", self.temperature, 0)
        if self.top_k is not None:
            _at_least("sampling.top_k", self.top_k, 1)
        if not 0 < self.top_p <= 1:
            raise RecipeError(f"`generation.sampling.top_p` must be above 0 and at most 1, but is {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise RecipeError(f"`generation.sampling.min_p` must be from 0 to 1, but is {self.min_p}")
        _at_least("sampling.seed", self.seed, 0)


@dataclass(frozen=True)
class SearchOptions:
    """Width, score and length limits of a search. Lengths count words, not the end mark.

    A sentence may have at most ``min(max_length, max_length_ratio * S + max_length_margin)`` words and at least
    ``max(min_length, min_length_ratio * S)``, where S is the number of source tokens without their end mark; both are
    rounded down, the first is at least 1 and wins where they conflict.

    Attributes:
        beam: hypotheses followed at once; 1 is greedy search.
        nbest: hypotheses returned per sentence, at most ``beam``.
        score: how lengths are compared: ``google`` divides by ((5+|Y|)/6)^length_penalty, ``average`` by
            |Y|^length_penalty, ``sum`` leaves the log-probability alone, ``reward`` adds word_reward per token.
        length_penalty: the exponent of ``google`` and ``average``; higher favours longer outputs.
        word_reward: gain per token of ``reward``, in nats.
        max_length: most words of any sentence.
        max_length_ratio: most words per source token.
        max_length_margin: words allowed on top of the ratio.
        min_length: fewest words of any sentence.
        min_length_ratio: fewest words per source token.
        coverage_penalty: beta of Wu et al. 2016, equation 14: what it costs to leave source tokens without attention;
            the decoder must tell its attention.
        groups: the beam is parted into this many groups, each kept away from the words of those before it (diverse
            beam search, Vijayakumar et al. 2018); 1 is ordinary beam search.
        diversity: what a word costs, in nats, for each time that an earlier group has just taken it.
        sampling: draw outputs at random instead; of the above only the limits and the score are then used.
    """

    beam: int = 4
    nbest: int = 1
    score: Literal["google", "average", "sum", "reward"] = "google"
    length_penalty: float = 0.6
    word_reward: float = 0.0
    max_length: int = 256
    max_length_ratio: float = 2.0
    max_length_margin: int = 20
    min_length: int = 0
    min_length_ratio: float = 0.0
    coverage_penalty: float = 0.0
    groups: int = 1
    diversity: float = 0.5
    sampling: SamplingOptions | None = None

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> SearchOptions:
        """Return the options that ``dataclasses.asdict`` made ``table`` from.

        Raises:
            TypeError: a key is unknown.
            RecipeError: a value is out of range.
        """
        sampling = table.get("sampling")
        return cls(**{**table, "sampling": None if sampling is None else SamplingOptions(**sampling)})

    def __post_init__(self) -> None:
        _at_least("beam", self.beam, 1)
        _at_least("nbest", self.nbest, 1)
        if self.nbest > self.beam:
            raise RecipeError(
                f"`generation.nbest` must be at most `generation.beam` = {self.beam}, but is {self.nbest}"
            )
        if self.score not in ("google", "average", "sum", "reward"):
            raise RecipeError(
                f"`generation.score` must be 'google', 'average', 'sum' or 'reward', but is {self.score!r}"
            )
        for key, value in (("length_penalty", self.length_penalty), ("word_reward", self.word_reward)):
            if not math.isfinite(value):
                raise RecipeError(f"`generation.{key}` must be a finite number, but is {value}")
        _at_least("max_length", self.max_length, 1)
        _at_least("max_length_ratio", self.max_length_ratio, 0)
        _at_least("max_length_margin", self.max_length_margin, 0)
        _at_least("min_length", self.min_length, 0)
        _at_least("min_length_ratio", self.min_length_ratio, 0)
        _at_least("coverage_penalty", self.coverage_penalty, 0)
        _at_least("groups", self.groups, 1)
        _at_least("diversity", self.diversity, 0)
        if self.beam % self.groups:
            raise RecipeError(f"`generation.groups` must divide `generation.beam`, {self.beam}, but is {self.groups}")
        if self.min_length > self.max_length:
            raise RecipeError(
                f"`generation.min_length` must be at most `generation.max_length`, {self.max_length}, "
                f"but is {self.min_length}"
            )

    def scorer(self) -> Score:
        """Return the score that the options name."""
        match self.score:
            case "google":
                return LengthPenalty(self.length_penalty)
            case "average":
                return Average(self.length_penalty)
            case "sum":
                return Sum()
            case "reward":
                return WordReward(self.word_reward)

    def greedy(self) -> SearchOptions:
        """Return greedy search with the same limits and score."""
        return replace(self, beam=1, nbest=1, coverage_penalty=0.0, groups=1, sampling=None)

    def limits(self, source_words: Ints) -> tuple[Ints, Ints]:
        """Return the fewest and the most words of outputs whose sources have ``source_words`` tokens without EOS."""
        most = np.floor(self.max_length_ratio * source_words + self.max_length_margin).astype(np.int64)
        most = most.clip(1, self.max_length)
        fewest = np.floor(self.min_length_ratio * source_words).astype(np.int64)
        return np.minimum(fewest.clip(self.min_length), most), most


def _at_least(key: str, value: float, least: int) -> None:
    if not (math.isfinite(value) and value >= least):
        raise RecipeError(f"`generation.{key}` must be at least {least}, but is {value}")
