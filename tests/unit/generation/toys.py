"""Toy decoders: small enough to enumerate, with a state that only a correct search can keep straight.

Axes: B sentences, N rows, S source length, T tokens fed so far, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from regard.protocols import BOS, EOS, PAD, Step

NUM_CELLS = 99_991  # a prime, far above the number of prefixes that a test looks at


@dataclass(frozen=True)
class History:
    """What a toy remembers of each row: source and tokens folded into one number, and how many tokens there were."""

    cell: Tensor
    num_fed: int


class TableDecoder:
    """Each (source, prefix) has its own random row of logits; the same seed gives the same model."""

    def __init__(self, vocab: int = 7, seed: int = 0, end_bias: float = 0.0, spread: float = 1.5) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(NUM_CELLS, vocab, generator=generator) * spread
        self.table[:, EOS] += end_bias
        self.steps: list[int] = []  # rows of each step taken

    def logits(self, state: History) -> Tensor:
        return self.table[state.cell]

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> History:
        cell = torch.zeros(len(source), dtype=torch.int64)
        lengths = torch.full((len(source),), source.shape[1]) if source_lengths is None else source_lengths
        for s in range(source.shape[1]):
            cell = torch.where(s < lengths, (cell * 31 + source[:, s] + 1) % NUM_CELLS, cell)
        return History(cell, 0)

    def step(self, tokens: Tensor, state: History) -> Step:
        self.steps.append(len(tokens))
        state = History((state.cell * 1_009 + tokens + 1) % NUM_CELLS, state.num_fed + 1)
        return Step(self.logits(state), state)

    def reorder(self, state: History, rows: Tensor) -> History:
        return History(state.cell[rows], state.num_fed)


def random_sources(count: int, seed: int = 0, longest: int = 6) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, longest + 1, (count,), generator=generator).tolist()
    return [[*torch.randint(4, 97, (n,), generator=generator).tolist(), EOS] for n in lengths]


def padded(sources: list[list[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(source) for source in sources])
    batch = torch.full((len(sources), int(lengths.max())), PAD)
    for row, source in enumerate(sources):
        batch[row, : len(source)] = torch.tensor(source)
    return batch, lengths


def words_of(vocab: int) -> list[int]:
    return [token for token in range(vocab) if token not in (PAD, BOS, EOS)]


def forced(decoder: TableDecoder, source: list[int], targets: list[int]) -> list[float]:
    """Return the log-probability of each target, one step after the other, in float64."""
    state, fed, found = decoder.start(torch.tensor([source])), BOS, []
    for target in targets:
        step = decoder.step(torch.tensor([fed]), state)
        found.append(float(step.logits.double().log_softmax(-1)[0, target]))
        state, fed = step.state, target
    return found


@cache
def every_sentence(decoder: TableDecoder, source: tuple[int, ...], longest: int) -> dict[tuple[int, ...], list[float]]:
    """Return all sentences of up to ``longest`` words with their token log-probabilities, end mark included."""
    found: dict[tuple[int, ...], list[float]] = {}
    words = words_of(decoder.table.shape[1])
    prefixes: list[tuple[tuple[int, ...], list[float]]] = [((), [])]
    state, tokens = decoder.start(torch.tensor([source])), torch.tensor([BOS])
    while prefixes:
        step = decoder.step(tokens, state)
        log_probs = step.logits.double().log_softmax(-1).tolist()
        longer = []
        for (ids, parts), row in zip(prefixes, log_probs, strict=True):
            found[ids] = [*parts, row[EOS]]
            if len(ids) < longest:
                longer += [((*ids, word), [*parts, row[word]]) for word in words]
        state = decoder.reorder(step.state, torch.arange(len(prefixes)).repeat_interleave(len(words)))
        tokens = torch.tensor(words).repeat(len(prefixes))
        prefixes = longer
    return found
