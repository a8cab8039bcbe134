"""What can be asked of a search: the recipe's ``[generation]`` table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from regard.errors import InputError, nearest, refuse
from regard.generation.prefixes import Ints
from regard.generation.scores import Average, LengthPenalty, Score, Sum, WordReward

_MOST = 10**9
"""Of every count: beyond any use, and far from where arithmetic on the host or the device ends."""


@dataclass(frozen=True)
class SamplingOptions:
    """What outputs are drawn from.

    Attributes:
        samples: outputs drawn per sentence.
        temperature: below 1 prefers the likely words; 0, or next to it, is greedy search.
        top_k: draw among that many best words; left out, all.
        top_p: draw among the fewest best words that have this probability together.
        min_p: draw among words that have at least this share of the best one's probability.
        seed: of the draws; a sentence's outputs depend on it and on the sentence's number, and on nothing else.
        least_risk: of the outputs drawn, the one that is most like all the others comes first (minimum Bayes risk).
    """

    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 1
    least_risk: bool = False

    def __post_init__(self) -> None:
        refuse(*self._out_of_range())

    def _out_of_range(self) -> Iterator[str]:
        yield from _count("sampling.samples", self.samples, 1)
        yield from _number("sampling.temperature", self.temperature, 0)
        if self.top_k is not None:
            yield from _count("sampling.top_k", self.top_k, 1)
        if not 0 < self.top_p <= 1:
            yield f"`generation.sampling.top_p` must be above 0 and at most 1, but is {self.top_p}"
        if not 0 <= self.min_p <= 1:
            yield f"`generation.sampling.min_p` must be from 0 to 1, but is {self.min_p}"
        yield from _count("sampling.seed", self.seed, 0, 2**64)


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
        no_repeat: no sequence of this many words occurs twice; 0 lets them.
        repetition_penalty: the log-probability of a word that has occurred is multiplied by it: above 1 discourages.
        suppress_unknown: the token for unknown words is never chosen.
        sampling: draw outputs at random instead; of the above the limits, the score and what is said of repetitions
            and unknown words are then used.
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
    no_repeat: int = 0
    repetition_penalty: float = 1.0
    suppress_unknown: bool = False
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
        refuse(*self._out_of_range())
        refuse(*self._contradictions())

    def _out_of_range(self) -> Iterator[str]:
        for key in ("beam", "nbest", "max_length", "groups"):
            yield from _count(key, getattr(self, key), 1)
        for key in ("max_length_margin", "min_length", "no_repeat"):
            yield from _count(key, getattr(self, key), 0)
        for key in ("max_length_ratio", "min_length_ratio", "coverage_penalty", "diversity"):
            yield from _number(key, getattr(self, key), 0)
        yield from _number("length_penalty", self.length_penalty, -30, 30)  # |Y|^30 is still a number for the longest Y
        yield from _number("word_reward", self.word_reward, -_MOST)
        if self.score not in ("google", "average", "sum", "reward"):
            yield f"`generation.score` must be 'google', 'average', 'sum' or 'reward', but is {self.score!r}"
        if not 1 / _MOST <= self.repetition_penalty <= _MOST:
            yield (
                f"`generation.repetition_penalty` must be from {1 / _MOST:g} to {_MOST:,}, "
                f"but is {self.repetition_penalty}"
            )

    def _contradictions(self) -> Iterator[str]:
        if self.nbest > self.beam:
            yield f"`generation.nbest` must be at most `generation.beam` = {self.beam}, but is {self.nbest}"
        if self.beam % self.groups:
            yield f"`generation.groups` must divide `generation.beam`, {self.beam}, but is {self.groups}"
        if self.min_length > self.max_length:
            yield (
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

    def changed(self, **values: Any) -> SearchOptions:
        """Return these options with some others, those of sampling among them: ``changed(nbest=5, length_penalty=1)``.

        What is about a beam asks for a beam search, what is about drawing for sampling. A beam that is named is a plain
        one unless groups are named too; one that is not is widened by a longer n-best list or by groups.

        Raises:
            InputError: there is no such option, or two contradict each other.
            RecipeError: a value cannot be.
        """
        check_changes(values)
        changes = {name: value for name, value in values.items() if name not in _DRAWN}
        draws = {name: value for name, value in values.items() if name in _DRAWN}
        if draws:
            changes["sampling"] = replace(self.sampling or SamplingOptions(), **draws)
        elif _about_beam(values, least_risk=self.sampling is not None and self.sampling.least_risk):
            changes["sampling"] = None
        beam = changes.get("beam")
        if beam is not None:
            changes = {"groups": 1, "nbest": min(self.nbest, beam) if isinstance(beam, int) else 1, **changes}
        elif "nbest" in changes or "groups" in changes:
            wide = max(self.beam, changes.get("nbest", 1))
            groups = changes.get("groups", self.groups)
            changes["beam"] = -(-wide // groups) * groups if isinstance(groups, int) and groups > 0 else wide
        found = replace(self, **changes)
        if "diversity" in values and found.groups == 1:
            raise InputError("`diversity` keeps the groups of a beam apart, but there is one group; name `groups` too")
        return found

    def greedy(self) -> SearchOptions:
        """Return greedy search with the same limits and score."""
        return replace(self, beam=1, nbest=1, coverage_penalty=0.0, groups=1, sampling=None)

    def limits(self, source_words: Ints) -> tuple[Ints, Ints]:
        """Return the fewest and the most words of outputs whose sources have ``source_words`` tokens without EOS."""
        most = np.floor(self.max_length_ratio * source_words + self.max_length_margin).astype(np.int64)
        most = most.clip(1, self.max_length)
        fewest = np.floor(self.min_length_ratio * source_words).astype(np.int64)
        return np.minimum(fewest.clip(self.min_length), most), most


_DRAWN = {option.name for option in fields(SamplingOptions)}
_SEARCHED = {option.name for option in fields(SearchOptions)} - {"sampling"}


def check_changes(values: Mapping[str, Any], called: Callable[[str], str] = "`{}`".format) -> None:
    """Refuse what no search can be changed to, whatever it was.

    Args:
        values: as for ``SearchOptions.changed``.
        called: what an option is called in messages.

    Raises:
        InputError: there is no such option, or two contradict each other.
    """
    for name in values:
        if name not in _DRAWN | _SEARCHED:
            raise InputError(f"a search has no option {name!r}{nearest(name, _DRAWN | _SEARCHED)}")
    drawn = [name for name in values if name in _DRAWN]
    of_beam = _about_beam(values, least_risk=bool(values.get("least_risk")))
    if drawn and of_beam:
        raise InputError(
            f"{called(drawn[0])} is about outputs drawn at random, {called(of_beam[0])} about a beam search; "
            "leave one of them out"
        )
    if {"nbest", "beam"} <= values.keys() and values["nbest"] > values["beam"]:
        raise InputError(
            f"{called('nbest')} {values['nbest']} needs a {called('beam')} of at least {values['nbest']}, "
            f"but it is {values['beam']}; left out, it is as wide as needed"
        )


def _about_beam(values: Mapping[str, Any], *, least_risk: bool) -> list[str]:
    """Return the names that sampling has no use for; of outputs ranked by risk there are lists too."""
    names = {"beam", "groups", "diversity", "coverage_penalty"} | (set() if least_risk else {"nbest"})
    return [name for name in values if name in names]


def _count(key: str, value: int, least: int, most: int = _MOST) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"`generation.{key}` must be a whole number, but is {value!r}"
        return
    yield from _number(key, value, least, most)


def _number(key: str, value: float, least: int, most: int = _MOST) -> Iterator[str]:
    if not value >= least:
        yield f"`generation.{key}` must be at least {least}, but is {value}"
    elif value > most:
        yield f"`generation.{key}` must be at most {most:,}, but is more"
