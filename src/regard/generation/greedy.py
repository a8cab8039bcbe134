"""Greedy search: the best next word, again and again. The shortest search there is, and the oracle of beam 1.

Axes: B sentences, S source length, N sentences still running, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import RegardError
from regard.generation.hypothesis import NAN_LOGITS, Hypothesis
from regard.generation.lengths import source_words
from regard.generation.options import SearchOptions
from regard.protocols import BOS, EOS, PAD, StepDecoder


@torch.inference_mode()
def greedy_search(
    decoder: StepDecoder,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"] | None = None,
    options: SearchOptions | None = None,
) -> list[Hypothesis]:
    """Return one hypothesis for each source row; of ``options`` the length limits and the score are used.

    A sentence that reaches its limit and would still go on is cut, and says so.
    """
    options = options or SearchOptions(beam=1)
    score = options.scorer()
    fewest, most = (limit.tolist() for limit in options.limits(source_words(source, source_lengths)))
    ids: list[list[int]] = [[] for _ in most]
    token_log_probs: list[list[float]] = [[] for _ in most]
    finished = [False for _ in most]

    running = list(range(len(most)))
    if not running:
        return []
    state = decoder.start(source, source_lengths)
    tokens = source.new_full((len(most),), BOS)
    never = torch.tensor([PAD, BOS], device=source.device)
    while True:
        step = decoder.step(tokens, state)
        log_probs_NV = step.logits.float().log_softmax(dim=-1)
        log_probs_NV.index_fill_(1, never, -math.inf)
        if too_short := [row for row, sentence in enumerate(running) if len(ids[sentence]) < fewest[sentence]]:
            rows = too_short if len(too_short) < len(running) else slice(None)  # a slice needs no list on the device
            log_probs_NV[rows, EOS] = -math.inf

        best, tokens = largest(log_probs_NV)
        stay = []
        for row, (log_prob, token) in enumerate(zip(best.tolist(), tokens.tolist(), strict=True)):
            if math.isnan(log_prob):
                raise RegardError(NAN_LOGITS)
            sentence = running[row]
            if token != EOS and (len(ids[sentence]) == most[sentence] or log_prob == -math.inf):
                continue
            token_log_probs[sentence].append(log_prob)
            if token == EOS:
                finished[sentence] = True
            else:
                ids[sentence].append(token)
                stay.append(row)
        if not stay:
            break
        state = step.state
        if len(stay) < len(running):
            staying = torch.tensor(stay, device=source.device)
            state, tokens = decoder.reorder(state, staying), tokens[staying]
            running = [running[row] for row in stay]

    return [
        Hypothesis(tuple(words), tuple(parts), score(math.fsum(parts), len(parts)), ended)
        for words, parts, ended in zip(ids, token_log_probs, finished, strict=True)
    ]


_MANY = 1 << 16
"""From this many numbers on, several short steps beat one long one."""


def largest(x_NV: Float[Tensor, "N V"], block: int = 128) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """Return the largest number of each row and the first place where it stands, as ``x_NV.max(dim=-1)`` does.

    On a CPU the place takes twenty times as long to find as the number, so it is looked for in one block alone.
    """
    size = x_NV.size(1)
    if x_NV.device.type != "cpu" or size < block or x_NV.numel() < _MANY:
        best, place = x_NV.max(dim=-1)
        return best, place
    blocks = x_NV[:, : size // block * block].view(-1, size // block, block).amax(dim=-1)
    last = x_NV[:, -block:].amax(dim=-1, keepdim=True)  # overlaps the one before it where V is no multiple
    start = (torch.cat([blocks, last], dim=1).argmax(dim=-1) * block).clamp(max=size - block)
    best, place = x_NV.gather(1, start[:, None] + torch.arange(block, device=x_NV.device)).max(dim=-1)
    return best, start + place
