"""Beam search: the `beam` most probable prefixes of each sentence, followed side by side.

A sentence has `beam` places. At each step its prefixes are extended by every word, and the best extensions take the
places that are free; one that ends takes its place for good, so that what runs gets narrower as hypotheses finish.
Beam 1 is therefore greedy search, word for word.

A sentence is decided as soon as
  - all of its places hold finished hypotheses, or
  - nothing that still runs can beat the `nbest`-th finished hypothesis: the bound is `scores.best_possible`, or
  - its prefixes reach the length limit. That step is like any other, but a prefix whose end mark is not among the
    best extensions is cut. Cut hypotheses rank below finished ones. So is a prefix that nothing can follow.
It then leaves the batch. Nothing of its mates enters any of these decisions.

Axes: B sentences, S source length, N prefixes still running, K candidates per prefix, M chosen extensions,
V vocabulary. Tensors live on the device; what is decided is decided on the host, in float64, after one look per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError, RegardError
from regard.generation.controls import Control, controlled, in_vocabulary
from regard.generation.hypothesis import NAN_LOGITS, Hypothesis, ranked
from regard.generation.lengths import source_words
from regard.generation.options import SearchOptions
from regard.generation.phrases import ForcedPhrases
from regard.generation.prefixes import Floats, Ints, Prefixes
from regard.generation.races import Races
from regard.generation.selection import Best, Diverse, Selection
from regard.protocols import BOS, EOS, PAD, StepDecoder


class BeamSearch:
    """One batch being searched. Whoever holds it drives it, may look at it between steps and stop a sentence::

        search = BeamSearch(decoder, source)
        while search.running:
            search.step()
        search.results()

    Args:
        decoder: any model that can start, step and reorder.
        source: ids, each row ended by EOS and padded on the right.
        source_lengths: real tokens per row; None when nothing is padded.
        options: beam, score and limits.
        controls: change the scores of words, one after the other.
        phrases: what the outputs must contain; excludes diverse groups.
        sentences: the number by which controls and phrases know each row, its place in the batch if not given.
    """

    @torch.inference_mode()
    def __init__(
        self,
        decoder: StepDecoder,
        source: Int[Tensor, "B S"],
        source_lengths: Int[Tensor, " B"] | None = None,
        options: SearchOptions | None = None,
        *,
        controls: Sequence[Control] = (),
        phrases: ForcedPhrases | None = None,
        sentences: Sequence[int] | None = None,
    ) -> None:
        options = options or SearchOptions()
        if phrases and options.groups > 1:
            raise InputError("forced phrases and diverse groups (`generation.groups`) cannot be combined")
        self._decoder, self._options, self._controls = decoder, options, controls
        self._selection: Selection = phrases or (
            Diverse(options.groups, options.diversity) if options.groups > 1 else Best()
        )
        words = np.repeat(source_words(source, source_lengths), options.groups)
        self.races = Races(options, *options.limits(words), sum(control.ceiling for control in controls), phrases)
        names = np.arange(len(source)) if sentences is None else np.array(sentences, dtype=np.int64)
        coverage = None
        if options.coverage_penalty:
            coverage = (np.arange(source.shape[1]) > words[:, None]).astype(np.float64)  # the end mark is covered too
        self._sentence_of_race = np.repeat(names, options.groups)
        self.running = Prefixes.beginnings(self._sentence_of_race, self.races.most, coverage)
        self._tokens = source.new_full((len(self.running),), BOS)
        if not self.running:
            return
        self._state = decoder.start(source, source_lengths)
        if options.groups > 1:
            rows = torch.arange(len(source), device=source.device).repeat_interleave(options.groups)
            self._state = decoder.reorder(self._state, rows)

    @torch.inference_mode()
    def step(self) -> None:
        """Let every prefix that runs grow by one word, and close the sentences that are then decided.

        Raises:
            RegardError: the decoder gives NaN.
        """
        prefixes, races = self.running, self.races
        step = self._decoder.step(self._tokens, self._state)
        words_NK, log_probs_NK, scores_NK = self._candidates(step.logits)
        totals_NK = prefixes.totals[:, None] + scores_NK
        rows, columns = self._selection.choose(prefixes, words_NK, totals_NK, races.places)
        log_probs = log_probs_NK[rows, columns]
        chosen = prefixes.at(rows).extended(
            words_NK[rows, columns], log_probs, scores_NK[rows, columns] - log_probs, self._looked(step.attention, rows)
        )

        ended = chosen.ids[:, -1] == EOS
        if ended.any():
            races.add(chosen.at(ended), finished=True)
        at_limit = np.equal(prefixes.most, prefixes.num_words)
        goes_on = np.zeros(len(races.most), dtype=bool)
        goes_on[chosen.race] = True
        ends = np.zeros(len(prefixes), dtype=bool)
        ends[rows[ended]] = True
        cut = ~goes_on[prefixes.race] | at_limit & ~ends
        if cut.any():
            races.add(prefixes.at(cut), finished=False)

        stays = ~ended & ~at_limit[rows]
        stays &= races.open(chosen.at(stays))[chosen.race]
        self._go_on(chosen.at(stays), rows[stays], step.state)

    def settled(self, sentence: int) -> tuple[int, ...]:
        """Return the words of a sentence that no further step can change: what all that may still win begin with."""
        races = np.flatnonzero(self._sentence_of_race == sentence)
        rivals = [list(hypothesis.ids) for race in races.tolist() for hypothesis in self.races.done(race)]
        rivals += self.running.ids[self.running.sentence == sentence].tolist()
        return tuple(words[0] for words in takewhile(lambda words: len({*words}) == 1, zip(*rivals, strict=False)))

    def stop(self, sentence: int) -> None:
        """End a sentence where it stands: its prefixes are cut and it leaves the batch."""
        stops = self.running.sentence == sentence
        self.races.add(self.running.at(stops), finished=False)
        self._go_on(self.running.at(~stops), np.flatnonzero(~stops), self._state)

    def results(self) -> list[list[Hypothesis]]:
        """Return the n-best list of each row: distinct, best first, fewer than ``nbest`` only if fewer were found."""
        groups, lists = self._options.groups, []
        for first in range(0, len(self._sentence_of_race), groups):
            found = [hypothesis for race in range(first, first + groups) for hypothesis in self.races.done(race)]
            distinct = {hypothesis.ids: hypothesis for hypothesis in reversed(ranked(found))}
            lists.append(ranked([*distinct.values()])[: self._options.nbest])
        return lists

    def _candidates(self, logits_NV: Tensor) -> tuple[Ints, Floats, Floats]:
        """Return the words that each prefix may be followed by, their log-probabilities and their scores, [N, K] each.

        That is `beam` of them and three more, since PAD, BOS and (too early) EOS may be among them: so nothing of
        the size [N, V] is written, and the decoder's logits are left as they are. Without controls a word's score is
        its log-probability.
        """
        log_probs_NV = logits_NV.float().log_softmax(dim=-1)
        scores_NV = controlled(log_probs_NV, self._controls, self.running)
        scores_NK, words_NK = scores_NV.topk(min(self._options.beam + 3, logits_NV.shape[-1]), dim=-1)
        words, wanted = words_NK.cpu().numpy(), self._selection.wanted(self.running)
        if wanted is not None:
            in_vocabulary(int(wanted.max()), logits_NV.shape[-1], "a forced phrase")
            # a word that is already there is offered once: PAD, which nobody chooses, takes its second place
            wanted = np.where((wanted[:, :, None] == words[:, None, :]).any(axis=-1), PAD, wanted)
            words = np.column_stack([words, wanted])
            words_NK = torch.from_numpy(words).to(logits_NV.device)
            scores_NK = scores_NV.gather(1, words_NK)
        log_probs: Floats = log_probs_NV.gather(1, words_NK).cpu().double().numpy()
        scores: Floats = scores_NK.cpu().double().numpy()
        if np.isnan(scores).any():
            raise RegardError(NAN_LOGITS)
        too_short = self.running.num_words < self.races.fewest[self.running.race]
        scores[(words == PAD) | (words == BOS) | ((words == EOS) & too_short[:, None])] = -np.inf
        return words, log_probs, scores

    def _looked(self, attention_NS: Tensor | None, rows: Ints) -> Floats | None:
        """Return where the chosen extensions looked, [M, S], when the score asks for it."""
        if not self._options.coverage_penalty:
            return None
        if attention_NS is None:
            raise InputError("`generation.coverage_penalty` needs a decoder whose steps tell their attention")
        looked: Floats = attention_NS.cpu().double().numpy()
        return looked[rows]

    def _go_on(self, running: Prefixes, rows: Ints, state: Any) -> None:
        """Let ``running``, whose decoder state is at ``rows`` of ``state``, be what the next step extends."""
        num_before, device = len(self._tokens), self._tokens.device
        self.running = running
        last = running.ids[:, -1] if running.num_words else np.full(len(running), BOS)
        self._tokens = torch.from_numpy(last.copy()).to(device)
        moved = len(rows) != num_before or (rows != np.arange(num_before)).any()
        self._state = self._decoder.reorder(state, torch.from_numpy(rows).to(device)) if moved and len(rows) else state


def beam_search(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
    *,
    controls: Sequence[Control] = (),
    phrases: ForcedPhrases | None = None,
    sentences: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Run a ``BeamSearch`` to its end and return the n-best list of each row."""
    search = BeamSearch(
        decoder, source, source_lengths, options, controls=controls, phrases=phrases, sentences=sentences
    )
    while search.running:
        search.step()
    return search.results()
