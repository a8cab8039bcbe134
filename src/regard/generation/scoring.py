"""Scoring by force: how probable a model finds given outputs.

Step by step, through whatever can be searched, which reproduces what a search reports; or at once, through a model that
gives the logits of all positions together.

Axes: B batch, S source length, T target length with the end mark, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import DataError, InputError
from regard.generation.hypothesis import Hypothesis
from regard.generation.lengths import by_length, padded
from regard.generation.options import SearchOptions
from regard.generation.scores import coverage_cost
from regard.plural import plural
from regard.protocols import BOS, EOS, PAD, UNK, StepDecoder


@dataclass(frozen=True)
class Forced:
    """A given output as the model sees it.

    Attributes:
        hypothesis: the output with its log-probabilities and its score.
        attention: [T, S] where the model looked as it predicted each word and the end mark, if the decoder tells.
    """

    hypothesis: Hypothesis
    attention: Float[Tensor, "T S"] | None


@torch.inference_mode()
def force(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    targets: Sequence[Sequence[int]],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
    *,
    finished: Sequence[bool] | None = None,
) -> list[Forced]:
    """Feed each row its target, word by word.

    Args:
        decoder: any model that can start, step and reorder.
        source: ids, each row ended by EOS and padded on the right.
        targets: ids with neither BOS nor EOS, one sequence per row.
        source_lengths: real tokens per row; None when nothing is padded.
        options: the score, the coverage penalty included.
        finished: whether the end mark is scored too, per row; it is if not given. False for cut hypotheses.

    Raises:
        DataError: the numbers of sources and targets differ, or a target holds an id that is no word of the model.
    """
    ends = [True] * len(targets) if finished is None else finished
    target_in, target_out = _shifted(len(source), targets, ends, source.device)
    if not targets:
        return []
    state = decoder.start(source, source_lengths)
    log_probs, looks = [], []
    for t in range(target_in.shape[1]):
        step = decoder.step(target_in[:, t], state)
        _in_vocabulary(targets, step.logits.shape[-1])
        state = step.state
        log_probs.append(_log_probs(step.logits, target_out[:, t]))
        if step.attention is not None:
            looks.append(step.attention)
    hypotheses = _hypotheses(torch.stack(log_probs, dim=1), targets, ends, options)
    penalty = options.coverage_penalty if options else 0.0
    if not looks:
        if penalty:
            raise InputError("`generation.coverage_penalty` needs a decoder whose steps tell their attention")
        return [Forced(hypothesis, None) for hypothesis in hypotheses]
    attention_BTS = torch.stack(looks, dim=1)
    lengths = [source.shape[1]] * len(source) if source_lengths is None else source_lengths.tolist()
    found = []
    for row, hypothesis in enumerate(hypotheses):
        attention_TS = attention_BTS[row, : hypothesis.length, : lengths[row]]
        if penalty:
            looked_1S = attention_TS.cpu().double().numpy().sum(axis=0, keepdims=True)
            hypothesis = replace(hypothesis, score=hypothesis.score + float(coverage_cost(looked_1S, penalty)[0]))
        found.append(Forced(hypothesis, attention_TS))
    return found


Logits = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]
"""(source [B, S], target_in [B, T], source_lengths [B] | None, target_lengths [B]) -> logits [B, T, V]."""


@torch.inference_mode()
def score_at_once(
    logits: Logits,
    source: Int[Tensor, "B S"],
    targets: Sequence[Sequence[int]],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
    *,
    finished: Sequence[bool] | None = None,
) -> list[Hypothesis]:
    """Return what ``force`` does, attention apart, from one call of a model: the other arguments are the same.

    Args:
        logits: of the next token at all positions; ``target_in`` begins with BOS.
    """
    ends = [True] * len(targets) if finished is None else finished
    target_in, target_out = _shifted(len(source), targets, ends, source.device)
    if not targets:
        return []
    lengths = torch.tensor([len(target) + 1 for target in targets], device=source.device)
    found_BTV = logits(source, target_in, source_lengths, lengths)
    _in_vocabulary(targets, found_BTV.shape[-1])
    return _hypotheses(_log_probs(found_BTV, target_out), targets, ends, options)


FoundT = TypeVar("FoundT")
Scorer = Callable[[Tensor, Sequence[Sequence[int]], Tensor | None, Sequence[bool]], Sequence[FoundT]]
"""(source [B, S], targets, source_lengths [B] | None, finished) -> what was found for each row."""


def score_all(
    scorer: Scorer[FoundT],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    finished: Sequence[bool],
    *,
    batch_tokens: int = 4096,
    device: torch.device | str = "cpu",
) -> list[FoundT]:
    """Return what ``scorer`` finds for each pair, in the order given; what is scored together has similar lengths.

    Args:
        scorer: ``force`` or ``score_at_once`` with a model.
        sources: ids, each ended by EOS.
        targets: ids with neither BOS nor EOS.
        finished: whether the end mark is scored too.
        batch_tokens: tokens of both sides scored at once, padding included; at least one pair.
        device: where the model is.
    """
    results: list[FoundT | None] = [None] * len(sources)
    both = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for batch in by_length(both, batch_tokens):
        source, lengths = padded([sources[index] for index in batch], device)
        found = scorer(source, [targets[index] for index in batch], lengths, [finished[index] for index in batch])
        for index, one in zip(batch, found, strict=True):
            results[index] = one
    return cast(list[FoundT], results)


def _shifted(
    num_sources: int, targets: Sequence[Sequence[int]], ends: Sequence[bool], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return what the decoder is fed and what it must predict, [B, T] each; the end mark is fed to nobody."""
    if not len(targets) == len(ends) == num_sources:
        raise DataError(
            f"scoring needs a target for each source, but has {plural(num_sources, 'source')} and "
            f"{plural(len(targets), 'target')}"
        )
    for number, target in enumerate(targets, 1):
        if min(target, default=UNK) < 0 or {PAD, BOS, EOS} & {*target}:
            raise DataError(f"target {number} must hold ids of words, with no special but UNK, but is {list(target)}")
    width = max((len(target) for target in targets), default=0) + 1
    fed = [[BOS, *target, *[PAD] * (width - len(target) - 1)] for target in targets]
    predicted = [[*target, EOS, *[PAD] * (width - len(target) - 1)] for target in targets]
    shape = (len(targets), width)
    return torch.tensor(fed, device=device).view(shape), torch.tensor(predicted, device=device).view(shape)


def _in_vocabulary(targets: Sequence[Sequence[int]], size: int) -> None:
    largest = max((max(target, default=0) for target in targets), default=0)
    if largest >= size:
        raise DataError(f"targets must hold ids below the vocabulary's size {size:,}, but one holds {largest:,}")


def _log_probs(logits: Float[Tensor, "*any V"], tokens: Int[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    return logits.float().log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]


def _hypotheses(
    log_probs: Float[Tensor, "B T"],
    targets: Sequence[Sequence[int]],
    ends: Sequence[bool],
    options: SearchOptions | None,
) -> list[Hypothesis]:
    score = (options or SearchOptions()).scorer()
    found = []
    for target, ended, row in zip(targets, ends, log_probs.tolist(), strict=True):
        parts = tuple(row[: len(target) + ended])
        found.append(Hypothesis(tuple(target), parts, score(math.fsum(parts), len(parts)), ended))
    return found
