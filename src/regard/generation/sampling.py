"""Outputs drawn at random from the model's distribution, or from a part of it.

Each draw of a sentence has random numbers of its own, from the seed, the sentence's number and the draw's; so an output
depends neither on its batch nor on how many others are drawn.

Axes: B sentences, S source length, N rows being drawn, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import RegardError
from regard.generation.controls import Control, controlled
from regard.generation.hypothesis import NAN_LOGITS, Hypothesis
from regard.generation.lengths import source_words
from regard.generation.options import SamplingOptions, SearchOptions
from regard.generation.prefixes import Prefixes
from regard.generation.races import Races
from regard.protocols import BOS, EOS, PAD, StepDecoder


@torch.inference_mode()
def sample(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    sampling: SamplingOptions | None = None,
    options: SearchOptions | None = None,
    *,
    controls: Sequence[Control] = (),
    sentences: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return ``sampling.samples`` outputs of each source row in the order drawn; the same one may come twice.

    Of ``options`` the length limits and the score are used. Reported log-probabilities are the model's own, whatever
    was left of its distribution to draw from.
    """
    sampling, options = sampling or SamplingOptions(), options or SearchOptions()
    draws = sampling.samples
    fewest, most = options.limits(np.repeat(source_words(source, source_lengths), draws))
    races = Races(options, fewest, most)
    names = np.repeat(np.arange(len(source)) if sentences is None else np.array(sentences, dtype=np.int64), draws)
    running = Prefixes.beginnings(names, most)
    luck = [
        np.random.default_rng([sampling.seed, name, row % draws]).random(limit + 1)
        for row, (name, limit) in enumerate(zip(names.tolist(), most.tolist(), strict=True))
    ]
    narrowing = [*controls, *filters(sampling)]
    if not running:
        return []
    state = decoder.start(source, source_lengths)
    if draws > 1:
        state = decoder.reorder(state, torch.arange(len(source), device=source.device).repeat_interleave(draws))
    tokens = source.new_full((len(running),), BOS)
    while running:
        step = decoder.step(tokens, state)
        log_probs_NV = step.logits.float().log_softmax(dim=-1)
        allowed_NV = log_probs_NV.clone()
        allowed_NV[:, [PAD, BOS]] = -math.inf
        allowed_NV[np.flatnonzero(running.num_words < fewest[running.race]), EOS] = -math.inf
        allowed_NV = controlled(allowed_NV, narrowing, running)
        numbers = torch.tensor([luck[race][running.num_words] for race in running.race.tolist()])
        tokens = draw(allowed_NV, numbers.to(source.device))
        log_probs = log_probs_NV.gather(1, tokens[:, None])[:, 0].cpu().double().numpy()
        if np.isnan(log_probs).any():
            raise RegardError(NAN_LOGITS)

        longer = running.extended(tokens.cpu().numpy(), log_probs, np.zeros(len(running)))
        stuck = (allowed_NV.gather(1, tokens[:, None])[:, 0] == -math.inf).cpu().numpy()
        ended = ~stuck & (longer.ids[:, -1] == EOS)
        cut = stuck | ~ended & (running.num_words == running.most)
        races.add(longer.at(ended), finished=True)
        races.add(running.at(cut), finished=False)

        stays = np.flatnonzero(~ended & ~cut)
        state = step.state
        if 0 < len(stays) < len(running):
            rows = torch.from_numpy(stays).to(source.device)
            state, tokens = decoder.reorder(state, rows), tokens[rows]
        running = longer.at(stays)
    # one hypothesis in each race, which is one draw
    return [[races.done(race)[0] for race in range(first, first + draws)] for first in range(0, len(most), draws)]


def draw(scores: Float[Tensor, "N V"], numbers: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return the word of each row at which the running sum of probabilities passes a number from [0, 1].

    The probabilities are those of ``exp(scores)``, made to sum to 1. A score of -inf is drawn only where all are.
    """
    sums_NV = scores.softmax(dim=-1).cumsum(dim=-1)
    whole_N1 = sums_NV[:, -1:]
    # below the whole even where rounding says otherwise: the last word may be one of those with probability 0
    passed_N1 = torch.minimum(numbers[:, None] * whole_N1, whole_N1.nextafter(torch.zeros_like(whole_N1)))
    return torch.searchsorted(sums_NV, passed_N1, right=True)[:, 0].clamp(max=scores.shape[-1] - 1)


_NEARLY = 1e-6
"""Relative: float32 sums of probabilities are off by less, and one that is meant to hit a threshold hits it."""


@dataclass(frozen=True)
class Temperature:
    """Divides the scores: below 1 the likely words become likelier, above 1 the others."""

    temperature: float
    ceiling = 0.0

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Return the divided scores, the best of which becomes 0: the others may fall to -inf, but never all."""
        return (scores - scores.max(dim=-1, keepdim=True).values) / self.temperature


@dataclass(frozen=True)
class TopK:
    """Keeps the ``count`` best words, or all when there are fewer."""

    count: int
    ceiling = 0.0

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid all others."""
        best, words = scores.topk(min(self.count, scores.shape[-1]), dim=-1)
        return torch.full_like(scores, -math.inf).scatter(1, words, best)


@dataclass(frozen=True)
class TopP:
    """Keeps the fewest best words whose probabilities reach ``mass`` (Holtzman et al. 2020), always at least one."""

    mass: float
    ceiling = 0.0

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid all others."""
        best, words = scores.sort(dim=-1, descending=True)
        probabilities = best.softmax(dim=-1)
        # what stands before a word decides, so that the word which crosses is kept
        out = probabilities.cumsum(dim=-1) - probabilities >= self.mass * (1 - _NEARLY)
        out[:, 0] = False  # also where the mass is too small for its type, and so is 0
        return torch.full_like(scores, -math.inf).scatter(1, words, best.masked_fill(out, -math.inf))


@dataclass(frozen=True)
class MinP:
    """Keeps the words that have at least ``share`` of the best one's probability (Nguyen et al. 2024)."""

    share: float
    ceiling = 0.0

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid all others."""
        least = scores.max(dim=-1, keepdim=True).values + math.log(self.share) - _NEARLY
        return scores.masked_fill(scores < least, -math.inf)


def filters(sampling: SamplingOptions) -> list[Control]:
    """Return what the options ask for, in this order: temperature, top-k, top-p, min-p.

    Temperature 0 is greedy; so is one too small for the type of the scores, by which they cannot be divided.
    """
    if sampling.temperature < torch.finfo(torch.float32).tiny:
        return [TopK(1)]
    found: list[Control] = []
    if sampling.temperature != 1:
        found.append(Temperature(sampling.temperature))
    if sampling.top_k is not None:
        found.append(TopK(sampling.top_k))
    if sampling.top_p < 1:
        found.append(TopP(sampling.top_p))
    if sampling.min_p > 0:
        found.append(MinP(sampling.min_p))
    return found
