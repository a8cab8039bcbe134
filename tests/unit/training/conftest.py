"""Stand-ins that know nothing of Regard's own models and data: a tiny model with every trap, and a tiny corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.training.objective import Seq2SeqObjective

SOURCE_VOCAB, VOCAB, WIDTH = 17, 19, 11


@dataclass
class Pairs:
    """The protocol's Batch, made by hand."""

    source: Tensor
    source_lengths: Tensor | None
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor | None
    num_target_tokens: int
    example_ids: Sequence[int]


class TinyModel(nn.Module):
    """Embeddings, an average of the source, dropout, a norm; the output is tied to the target embedding."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.source = nn.Embedding(SOURCE_VOCAB, WIDTH, padding_idx=0)
        self.target = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(WIDTH, VOCAB)
        self.output.weight = self.target.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def hidden(self, source: Tensor, target_in: Tensor, source_lengths: Tensor | None) -> Tensor:
        real = (source != 0).sum(1) if source_lengths is None else source_lengths
        memory = self.source(source).sum(1, keepdim=True) / real[:, None, None]
        return self.norm(self.dropout(torch.tanh(self.mix(self.target(target_in) + memory))))


def make_pairs(lengths: Sequence[int], *, seed: int = 0, width: int | None = None, first_id: int = 0) -> Pairs:
    """Random pairs whose targets have these lengths, padded to the longest or to ``width``."""
    generator = torch.Generator().manual_seed(seed)
    B, T = len(lengths), width or max(lengths, default=0)
    target = torch.randint(4, VOCAB, (B, T), generator=generator)
    source = torch.randint(4, SOURCE_VOCAB, (B, 5), generator=generator)
    for row, length in enumerate(lengths):
        target[row, length:] = 0
    padded = any(length < T for length in lengths)
    target_in = torch.cat([torch.full((B, 1), 2), target[:, :-1]], dim=1) if T else target
    return Pairs(
        source, None, target_in, target, torch.tensor(lengths) if padded else None, sum(lengths),
        range(first_id, first_id + B),
    )  # fmt: skip


@dataclass
class Corpus:
    """A few batches per epoch, different in each epoch; remembers the examples it gave."""

    batches: int = 7

    def __post_init__(self) -> None:
        self.given: list[int] = []

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[Pairs]:
        for i in range(skip, self.batches):
            batch = make_pairs([2 + i % 3, 5, 3], seed=100 * epoch + i, first_id=1000 * epoch + 10 * i)
            self.given.extend(batch.example_ids)
            yield batch


def make_objective(*, seed: int = 0, dropout: float = 0.2, smoothing: float = 0.1) -> Seq2SeqObjective:
    torch.manual_seed(seed)
    return Seq2SeqObjective(TinyModel(dropout), smoothing)


@pytest.fixture(name="make_objective")
def objective_factory():
    return make_objective


@pytest.fixture(name="make_pairs")
def pairs_factory():
    return make_pairs


@pytest.fixture(name="Corpus")
def corpus_class():
    return Corpus
