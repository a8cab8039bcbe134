"""Beam search: the `beam` most probable prefixes of each sentence, followed side by side.

A sentence has `beam` places. At each step its prefixes are extended by every word, and the best extensions take the
places that are free; one that ends takes its place for good, so that what runs gets narrower as hypotheses finish.
Beam 1 is therefore greedy search, word for word.

A sentence ends as soon as
  - all of its places hold finished hypotheses, or
  - nothing that still runs can beat the `nbest`-th finished hypothesis: the bound is `scores.best_possible`, or
  - its prefixes reach the length limit. That step is like any other, but a prefix whose end mark is not among the
    best extensions is cut. Cut hypotheses rank below finished ones.
It then leaves the batch. Nothing of its mates enters any of these decisions.

Axes: B sentences, S source length, N prefixes still running (sorted by sentence), K candidates per prefix,
M chosen extensions, T words so far, V vocabulary. Tensors live on the device; what is decided is decided on the host,
in float64, after one look per step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import RegardError
from regard.generation.hypothesis import NAN_LOGITS, Hypothesis, ranked
from regard.generation.lengths import source_words
from regard.generation.options import SearchOptions
from regard.generation.scores import Score, best_possible
from regard.protocols import BOS, EOS, PAD, StepDecoder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prefixes:
    """The prefixes that still run, sorted by sentence and, within it, best first."""

    sentence: Ints  # [N]
    total: Floats  # [N] sum of log-probabilities
    ids: Ints  # [N, T]
    log_probs: Floats  # [N, T]

    @classmethod
    def beginnings(cls, num_sentences: int) -> Prefixes:
        """Return one empty prefix for each sentence."""
        empty = np.zeros((num_sentences, 0))
        return cls(np.arange(num_sentences), np.zeros(num_sentences), empty.astype(np.int64), empty)

    def extended(self, rows: Ints, tokens: Ints, log_probs: Floats) -> Prefixes:
        """Return prefix ``rows[m]`` followed by ``tokens[m]``, for each m."""
        return Prefixes(
            sentence=self.sentence[rows],
            total=self.total[rows] + log_probs,
            ids=np.column_stack([self.ids[rows], tokens]),
            log_probs=np.column_stack([self.log_probs[rows], log_probs]),
        )

    def only(self, keep: npt.NDArray[np.bool_]) -> Prefixes:
        """Return the prefixes where ``keep`` is true."""
        return Prefixes(self.sentence[keep], self.total[keep], self.ids[keep], self.log_probs[keep])

    def best_totals(self) -> Iterator[tuple[int, float]]:
        """Yield each sentence with the total of its best prefix."""
        sentences, first = np.unique(self.sentence, return_index=True)
        yield from zip(sentences.tolist(), self.total[first].tolist(), strict=True)


@torch.inference_mode()
def beam_search(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
) -> list[list[Hypothesis]]:
    """Return the n-best list of each source row: distinct, best first, fewer than ``nbest`` only if fewer exist.

    Raises:
        RegardError: the decoder gives NaN.
    """
    options = options or SearchOptions()
    score = options.scorer()
    fewest_B, most_B = options.limits(source_words(source, source_lengths))
    done: list[list[Hypothesis]] = [[] for _ in fewest_B]
    if not done:
        return []
    prefixes = Prefixes.beginnings(len(done))
    state = decoder.start(source, source_lengths)
    tokens = source.new_full((len(done),), BOS)
    while True:
        step = decoder.step(tokens, state)
        num_words = prefixes.ids.shape[1]
        too_short = num_words < fewest_B[prefixes.sentence]
        at_limit = num_words == most_B[prefixes.sentence]
        places_B = options.beam - np.array([len(hypotheses) for hypotheses in done])

        words_NK, log_probs_NK = _candidates(step.logits, options.beam)
        log_probs_NK[(words_NK == PAD) | (words_NK == BOS) | ((words_NK == EOS) & too_short[:, None])] = -np.inf
        rows, columns = _best(prefixes.total[:, None] + log_probs_NK, prefixes.sentence, places_B)
        chosen = prefixes.extended(rows, words_NK[rows, columns], log_probs_NK[rows, columns])

        ended = chosen.ids[:, -1] == EOS
        for m in np.flatnonzero(ended):
            done[chosen.sentence[m]].append(_hypothesis(chosen.ids[m, :-1], chosen.log_probs[m], score, finished=True))
        stuck = ~np.isin(prefixes.sentence, chosen.sentence)
        cut = stuck | at_limit & ~np.isin(np.arange(len(at_limit)), rows[ended])
        for n in np.flatnonzero(cut):
            done[prefixes.sentence[n]].append(
                _hypothesis(prefixes.ids[n], prefixes.log_probs[n], score, finished=False)
            )

        stays = ~ended & ~at_limit[rows]
        prefixes, rows = chosen.only(stays), rows[stays]
        open_B = np.ones(len(done), dtype=bool)
        for sentence, best in prefixes.best_totals():
            shortest = max(num_words + 1, fewest_B[sentence]) + 1  # the end mark
            bound = best_possible(score, best, int(shortest), int(most_B[sentence]) + 1)
            open_B[sentence] = bound > _worst_kept(done[sentence], options.nbest)
        stays = open_B[prefixes.sentence]
        prefixes, rows = prefixes.only(stays), rows[stays]
        if not len(rows):
            return [ranked(hypotheses)[: options.nbest] for hypotheses in done]

        tokens = torch.from_numpy(prefixes.ids[:, -1].copy()).to(source.device)
        state = step.state
        if len(rows) != len(at_limit) or (rows != np.arange(len(rows))).any():
            state = decoder.reorder(state, torch.from_numpy(rows).to(source.device))


def _candidates(logits_NV: Tensor, beam: int) -> tuple[Ints, Floats]:
    """Return the best words of each row and their log-probabilities, [N, K]: all that a beam can need.

    Three more than the beam, since PAD, BOS and (too early) EOS may be among them; so the [N, V] scores are left as
    they are.
    """
    log_probs, words = logits_NV.float().log_softmax(dim=-1).topk(min(beam + 3, logits_NV.shape[-1]), dim=-1)
    found: Floats = log_probs.cpu().double().numpy()
    if np.isnan(found).any():
        raise RegardError(NAN_LOGITS)
    return words.cpu().numpy(), found


def _best(totals_NK: Floats, sentence_N: Ints, places_B: Ints) -> tuple[Ints, Ints]:
    """Return row and column of the ``places_B[b]`` best possible candidates of each sentence b, best first."""
    rows, columns = np.nonzero(totals_NK > -np.inf)
    order = np.lexsort((-totals_NK[rows, columns], sentence_N[rows]))
    rows, columns = rows[order], columns[order]
    sentence = sentence_N[rows]
    rank = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
    keep = rank < places_B[sentence]
    return rows[keep], columns[keep]


def _worst_kept(done: list[Hypothesis], nbest: int) -> float:
    """Return the score that a newcomer must beat to enter the n-best; anything does while the list is short."""
    if len(done) < nbest:
        return -math.inf
    return sorted((hypothesis.score for hypothesis in done), reverse=True)[nbest - 1]


def _hypothesis(ids: Ints, log_probs: Floats, score: Score, *, finished: bool) -> Hypothesis:
    parts = tuple(log_probs.tolist())
    return Hypothesis(tuple(ids.tolist()), parts, score(math.fsum(parts), len(parts)), finished)
