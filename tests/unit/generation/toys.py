"""Toy decoders: small enough to enumerate, with a state that only a correct search can keep straight.

Axes: B sentences, N rows, S source length, T words so far, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.protocols import BOS, EOS, PAD, Step

NUM_CELLS = 99_991  # a prime, far above the number of prefixes that a test looks at


@dataclass(frozen=True)
class History:
    """What a toy remembers of each row: its source, folded into one number, and the words it was fed."""

    source: Tensor
    words: Tensor


class TableDecoder:
    """Each (source, prefix) has its own random row of logits; the same seed gives the same model."""

    def __init__(self, vocab: int = 7, seed: int = 0, end_bias: float = 0.0, spread: float = 1.5) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(NUM_CELLS, vocab, generator=generator) * spread
        self.table[:, EOS] += end_bias
        self.steps: list[int] = []

    def logits(self, source: Tensor, words_NT: Tensor) -> Tensor:
        cell = source_N.clone()
        for t in range(words_NT.shape[1]):
            cell = (cell * 1_009 + words_NT[:, t] + 1) % NUM_CELLS
        return self.table[cell]

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> History:
        folded = torch.zeros(len(source), dtype=torch.int64)
        lengths = torch.full((len(source),), source.shape[1]) if source_lengths is None else source_lengths
        for s in range(source.shape[1]):
            folded = torch.where(s < lengths, (folded * 31 + source[:, s] + 1) % NUM_CELLS, folded)
        return History(folded, torch.zeros(len(source), 0, dtype=torch.int64))

    def step(self, tokens: Tensor, state: History) -> Step:
        self.steps.append(len(tokens))
        words_NT = torch.cat([state.words, tokens[:, None]], dim=1)
        return Step(self.logits(state.source, words_NT), History(state.source, words_NT))

    def reorder(self, state: History, rows: Tensor) -> History:
        return History(state.source[rows], state.words[rows])


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


def every_sentence(decoder: TableDecoder, source: list[int], longest: int) -> dict[tuple[int, ...], list[float]]:
    """Return all sentences of up to ``longest`` words with their token log-probabilities, end mark included."""
    folded = decoder.start(*padded([source])).source
    found: dict[tuple[int, ...], list[float]] = {}
    prefixes: list[tuple[tuple[int, ...], list[float]]] = [((), [])]
    words = words_of(decoder.table.shape[1])
    while prefixes:
        rows = torch.tensor([[BOS, *ids] for ids, _ in prefixes])
        log_probs = decoder.logits(folded.expand(len(rows)), rows).double().log_softmax(-1).tolist()
        longer = []
        for (ids, parts), row in zip(prefixes, log_probs, strict=True):
            found[ids] = [*parts, row[EOS]]
            if len(ids) < longest:
                longer += [((*ids, word), [*parts, row[word]]) for word in words]
        prefixes = longer
    return found
