"""One model, or several that are searched, and that score, as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any, Literal

import torch
from torch import Tensor

from regard.generation import Ensemble, Forced, Hypothesis, SearchOptions, force, score_all, score_at_once
from regard.generation.ensemble import check_average
from regard.models import PackedWeights, Transformer, bind
from regard.modes import evaluation_mode
from regard.protocols import StepDecoder
from regard.translation.looking import Looking
from regard.translation.source import Source

BATCH_TOKENS = 8192  # source tokens decoded together, the beam's copies included: about 64 sentences at beam 4
_ONE_AT_A_TIME = RLock()  # of the module, for one of an object would keep it from being pickled
_BATCH_LOGITS = 1 << 25  # numbers in the logits of what is scored together: 128 MiB in float32


class ModelEnsemble:
    """Models with the same vocabularies.

    Args:
        models: at least one.
        weights: one per model; equal if not given.
        average: whether log-probabilities are averaged or probabilities (``linear``).

    Raises:
        InputError: as for an ``Ensemble``, of a single model too.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        weights: Sequence[float] | None = None,
        average: Literal["log", "linear"] = "log",
    ) -> None:
        check_average(len(models), weights, average)
        self.models = tuple(models)
        self._packed = tuple(PackedWeights() for _ in models)
        self._weights, self._average = weights, average
        self._inside, self._modes = 0, ExitStack()

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return next(self.models[0].parameters()).device

    @property
    def longest(self) -> int:
        """Most tokens of a text or an output, not counting the mark before a target or behind a source."""
        return min(model.spec.max_len for model in self.models) - 1

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within the block all are in evaluation mode; once no thread is in it, each part is in its own again."""
        with _ONE_AT_A_TIME:
            if not self._inside:
                for model in self.models:
                    self._modes.enter_context(evaluation_mode(model))
            self._inside += 1
        try:
            yield
        finally:
            with _ONE_AT_A_TIME:
                self._inside -= 1
                if not self._inside:
                    self._modes.close()

    def decoder(self, *, look: bool) -> StepDecoder:
        """Return what is searched; with ``look`` its steps tell where it looks."""
        decoders = [
            Looking(model) if look else bind(model, packed)
            for model, packed in zip(self.models, self._packed, strict=True)
        ]
        return decoders[0] if len(decoders) == 1 else Ensemble(decoders, self._weights, self._average)

    def forced(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        finished: Sequence[bool],
        search: SearchOptions,
    ) -> list[Forced]:
        """Return given outputs as a search that found them would report them, and where it looked at each word.

        Args:
            sources: what is read.
            targets: ids of the outputs, without the end mark.
            finished: whether the end mark belongs to each.
            search: the score, the coverage penalty included.
        """
        decoder = self.decoder(look=True)

        def score(source: Tensor, fed: Any, lengths: Tensor | None, closed: Sequence[bool]) -> list[Forced]:
            return force(decoder, source, fed, lengths, search, finished=closed)

        ids = [source.ids for source in sources]
        with self.evaluating():
            return score_all(score, ids, targets, finished, batch_tokens=BATCH_TOKENS, device=self.device)

    def scored(
        self,
        sources: Sequence[Source],
        targets: Sequence[Sequence[int]],
        finished: Sequence[bool],
        search: SearchOptions,
    ) -> list[Hypothesis]:
        """Return what ``forced`` does, attention apart: at once, where one model alone needs no look for its score."""
        if len(self.models) > 1 or search.coverage_penalty:
            return [found.hypothesis for found in self.forced(sources, targets, finished, search)]
        model = self.models[0]

        def logits(source: Tensor, target: Tensor, lengths: Tensor | None, _: Any) -> Tensor:
            found: Tensor = model.output(model.hidden(source, target, lengths))
            return found

        def score(source: Tensor, fed: Any, lengths: Tensor | None, closed: Sequence[bool]) -> list[Hypothesis]:
            return score_at_once(logits, source, fed, lengths, search, finished=closed)

        ids, tokens = [source.ids for source in sources], _BATCH_LOGITS // model.spec.target_vocab
        with self.evaluating():
            return score_all(score, ids, targets, finished, batch_tokens=tokens, device=self.device)
