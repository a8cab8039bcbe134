"""How did a search get to its result? It is driven step by step and looked at in between, and knows nothing of it.

Axes: S source length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Int
from torch import Tensor

from regard.generation import BeamSearch, Hypothesis, SearchOptions
from regard.generation.controls import asked_by
from regard.generation.scores import coverage_cost
from regard.inspection.report import Beam
from regard.protocols import EOS, StepDecoder


@dataclass(frozen=True)
class Searched:
    """What a search found, and how.

    Attributes:
        found: The best output.
        steps: The beam after each step, the best hypothesis first.
        won: Step and rank, from 0, at which ``found`` stands in them; None if it has no token.
        score: How the score is made, in words.
    """

    found: Hypothesis
    steps: Sequence[Sequence[Beam]]
    won: tuple[int, int] | None
    score: str


def search_with_steps(
    decoder: StepDecoder,
    source: Int[Tensor, "1 S"],
    options: SearchOptions,
    names: Callable[[list[int]], Sequence[str]],
) -> Searched:
    """Search the output for one source and note the beam after each step.

    Scores are those that the search ranks finished outputs by. What runs on at the end, because it can win no more, is
    not in the last step.

    Args:
        decoder: As for a search; it tells its attention if there is a coverage penalty.
        source: Ids ended by EOS.
        options: Beam, score, limits, repetitions; nothing is sampled and the beam is not parted into groups.
        names: Prints ids: ``tokenizer.pieces``.
    """
    options = replace(options, nbest=1, groups=1, sampling=None)
    score = options.scorer()
    search = BeamSearch(decoder, source, None, options, controls=asked_by(options))
    steps: list[list[Beam]] = []
    places: dict[tuple[int, ...], tuple[int, int]] = {}
    ranks: dict[tuple[int, ...], int] = {(): 0}  # the running prefixes of the step before, by their place in its list
    known: set[tuple[int, ...]] = set()
    while search.running:
        search.step()
        running = search.running
        missed = coverage_cost(running.coverage, options.coverage_penalty).tolist()
        found = [
            (score(total, running.num_words) + cost, tuple(ids), False, log_prob)
            for ids, total, log_prob, cost in zip(
                running.ids.tolist(),
                running.totals.tolist(),
                running.log_probs.sum(axis=1).tolist(),
                missed,
                strict=True,
            )
        ]
        for done in search.races.done(0):
            if done.finished and done.ids not in known:
                known.add(done.ids)
                found.append((done.score, (*done.ids, EOS), True, done.log_prob))
        found.sort(key=lambda item: -item[0])
        if found:
            first = not steps
            places |= {ids: (len(steps), rank) for rank, (_, ids, _, _) in enumerate(found)}
            steps.append(
                [
                    Beam(names([ids[-1]])[0], value, None if first else ranks[ids[:-1]], ended, log_prob)
                    for value, ids, ended, log_prob in found
                ]
            )
        ranks = {ids: place for place, (_, ids, ended, _) in enumerate(found) if not ended}
    best = search.results()[0][0]
    return Searched(best, steps, places.get((*best.ids, EOS) if best.finished else best.ids), _in_words(options))


def _in_words(options: SearchOptions) -> str:
    """Return how the score of a hypothesis is made."""
    exponent = options.length_penalty
    score = {
        "google": f"log-probability / ((5 + tokens) / 6)^{exponent:g}",
        "average": "log-probability / tokens" + ("" if exponent == 1 else f"^{exponent:g}"),
        "sum": "log-probability",
        "reward": f"log-probability + {options.word_reward:g} × tokens",
    }[options.score]
    if options.coverage_penalty:
        score += f" + {options.coverage_penalty:g} × Σ log min(1, attention that a source token has had)"
    return f"score = {score}; the end mark is a token"
