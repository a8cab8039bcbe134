"""How did a search get to its result? It is driven step by step and looked at in between, and knows nothing of it.

Axes: S source length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxtyping import Int
from torch import Tensor

from regard.generation import BeamSearch, Hypothesis, SearchOptions
from regard.inspection.report import Beam
from regard.protocols import EOS, StepDecoder


def search_with_steps(
    decoder: StepDecoder,
    source: Int[Tensor, "1 S"],
    options: SearchOptions,
    names: Callable[[list[int]], Sequence[str]],
) -> tuple[Hypothesis, list[list[Beam]]]:
    """Return the best output for one source, and the beam after each step, the best hypothesis first.

    Scores are those that the search ranks finished outputs by. What runs on at the end, because it can win no more, is
    not in the last step.

    Args:
        decoder: As for a search.
        source: Ids ended by EOS.
        options: Beam, score and limits; nothing is sampled and the beam is not parted into groups.
        names: Prints ids: ``tokenizer.pieces``.
    """
    options = replace(options, nbest=1, groups=1, sampling=None)
    score = options.scorer()
    search = BeamSearch(decoder, source, None, options)
    steps: list[list[Beam]] = []
    ranks: dict[tuple[int, ...], int] = {(): 0}  # the running prefixes of the step before, by their place in its list
    known: set[tuple[int, ...]] = set()
    while search.running:
        search.step()
        running = search.running
        found = [
            (score(total, running.num_words), tuple(ids), False)
            for ids, total in zip(running.ids.tolist(), running.totals.tolist(), strict=True)
        ]
        for done in search.races.done(0):
            if done.finished and done.ids not in known:
                known.add(done.ids)
                found.append((done.score, (*done.ids, EOS), True))
        found.sort(key=lambda item: -item[0])
        if found:
            first = not steps
            steps.append(
                [
                    Beam(names([ids[-1]])[0], value, None if first else ranks[ids[:-1]], ended)
                    for value, ids, ended in found
                ]
            )
        ranks = {ids: place for place, (_, ids, ended) in enumerate(found) if not ended}
    return search.results()[0][0], steps
