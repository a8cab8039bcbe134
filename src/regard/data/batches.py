"""Which examples are in which batch, in which order: a function of seed and epoch, and of nothing else.

Examples are shuffled, sorted by target length and then, up and down in turn, by source length (so that neighbours are
alike on both sides; equal lengths stay shuffled), cut into batches within the token budget, and the batches shuffled.
What is random about an example (dropped words, segmentation) depends on seed, epoch, example and how often that epoch
has seen it, only. So the same run gives the same batches whatever the number of workers, and the k-th batch is known
without making those before it.

Several processes share these batches, and do not change them. Those of one update stand in a line, and each process
takes an equal stretch of it: whole batches where their number allows, else some rows of the one at either end.
::

    3 batches, 2 processes      |  batch 0  |  batch 1  |  batch 2  |
                                |     process 0    |    process 1   |

The budget counts padded tokens of the longer side: rows × max(S, T), EOS included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from regard.data.columns import Array
from regard.data.corpus import EncodedCorpus
from regard.data.noise import NoiseOptions, NoisyExamples
from regard.data.pair_batch import PairBatch, collate
from regard.errors import DataError, RecipeError

Indices = npt.NDArray[np.int64]
Examples = Array
"""Numbers of examples, in 32 bits where they fit; each time that an epoch sees one again adds the corpus's size."""
Widths = Array
"""Lengths to plan with, EOS included, in 16 bits where they fit: sorting those takes no comparisons."""


class TokenBatches:
    """Batches of about equal cost; see ``regard.protocols.BatchSource``.

    Args:
        corpus: the examples.
        max_tokens: the budget of a batch: rows × the longest row of either side, EOS included.
        max_sentences: most rows of a batch; None for as many as the budget holds.
        seed: of order and noise.
        shuffle: False gives the same batches each epoch, shortest first, without weights: for validation.
        noise: what is changed in an example each time that it is seen.
        workers: processes that make batches ahead of time; 0 makes them when asked.
        share: (rank, ranks): of each batch, this process makes what falls to it of ``ranks``, which may be nothing:
            a batch without rows then stands in its place.
        together: how many batches, from the first of an epoch on, are shared as one: those of an update.

    Raises:
        DataError: an example does not fit in the budget.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        seed: int = 1,
        shuffle: bool = True,
        noise: NoiseOptions | None = None,
        workers: int = 0,
        share: tuple[int, int] = (0, 1),
        together: int = 1,
    ) -> None:
        if max_sentences is not None and max_sentences < 1:
            raise RecipeError(f"`max_sentences` must be at least 1, but is {max_sentences}")
        self._corpus = corpus
        self._max_tokens = max_tokens
        self._max_sentences = max_sentences or max_tokens
        self._seed = seed
        self._shuffle = shuffle
        self._examples = NoisyExamples(corpus, noise or NoiseOptions(), seed)
        self._workers = workers
        self._rank, self._ranks = share
        self._together = together
        longest = 1 + int(max(corpus.source_lengths.max(), corpus.target_lengths.max()))
        if longest > max_tokens:
            raise DataError(
                f"the longest example has {longest:,} tokens, but a batch may hold {max_tokens:,}; "
                "raise the batch's tokens, or filter by length"
            )
        source_growth, target_growth = self._examples.growth()
        self._source_widths = _widths(corpus.source_lengths, source_growth, max_tokens)
        self._target_widths = _widths(corpus.target_lengths, target_growth, max_tokens)
        self._planned: tuple[int, _Plan] | None = None

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[PairBatch]:
        """Yield the batches of ``epoch`` (from 0), leaving out the first ``skip`` without making them."""
        made = _MadeBatches(self, epoch, self._plan(epoch))
        wanted = range(skip, len(made))
        if self._workers == 0:
            return (made[index] for index in wanted)
        loader: DataLoader[PairBatch] = DataLoader(
            made,
            batch_size=None,
            sampler=wanted,
            num_workers=self._workers,
            collate_fn=_as_is,
            generator=torch.Generator(),  # else starting the workers would draw from the generator that dropout uses
        )
        return iter(loader)

    def num_batches(self, epoch: int) -> int:
        """Return how many batches ``epoch`` has, for all processes together."""
        return len(self._plan(epoch).batches)

    def make(self, epoch: int, examples: Examples, rows: slice) -> PairBatch:
        """Make these rows of the batch of ``examples`` as ``epoch`` sees them."""
        room = self._max_tokens // len(examples)  # longest row that keeps the batch within its budget
        numbers = (divmod(int(number), len(self._corpus)) for number in examples[rows])
        seen = [(example, self._examples.see(epoch, example, again, room=room)) for again, example in numbers]
        return collate(
            [(source, target, example) for example, (source, target, _) in seen],
            decoder_inputs=[read for _, (_, _, read) in seen],
        )

    def _plan(self, epoch: int) -> _Plan:
        epoch = epoch if self._shuffle else 0
        if self._planned is None or self._planned[0] != epoch:
            self._planned = epoch, self._make_plan(epoch)
        return self._planned[1]

    def _make_plan(self, epoch: int) -> _Plan:
        draw = np.random.default_rng((self._seed, epoch))
        examples = self._seen(epoch)
        if self._shuffle:
            draw.shuffle(examples)
        rows = examples % len(self._corpus)
        source, target = self._source_widths[rows], self._target_widths[rows]
        order = _by_lengths(source, target)
        examples = examples[order]
        np.maximum(source, target, out=source)
        bounds = _cut(source[order], self._max_tokens, self._max_sentences)
        batches = np.arange(len(bounds) - 1)
        if self._shuffle:
            draw.shuffle(batches)
        return _Plan(examples, bounds, batches)

    def rows_of(self, index: int, count: int, rows: int) -> slice:
        """Return which of ``rows`` rows this process takes of batch ``index`` of an epoch of ``count`` batches."""
        first = index // self._together * self._together
        length = min(self._together, count - first)  # the last group may be incomplete

        def cut(rank: int) -> int:
            """Where the stretch of ``rank`` begins in this batch, in rows, if it begins here."""
            return rows * min(max(rank * length - (index - first) * self._ranks, 0), self._ranks) // self._ranks

        return slice(cut(self._rank), cut(self._rank + 1))

    def _seen(self, epoch: int) -> Examples:
        """Return the examples of ``epoch``, as often as their weight says: over 1/w epochs each is seen once."""
        most = len(self._corpus) * (1 + max(self._corpus.raw.weights, default=1))
        everything = np.arange(len(self._corpus), dtype=np.int32 if most < 2**31 else np.int64)
        if not self._shuffle or all(weight == 1 for weight in self._corpus.raw.weights):
            return everything
        weights = self._corpus.weights()
        phase = np.random.default_rng(self._seed).random(len(weights))
        times = (np.floor(weights * (epoch + 1) + phase) - np.floor(weights * epoch + phase)).astype(np.int64)
        seen: Examples = np.repeat(everything, times)
        if len(seen) == 0:
            raise DataError(
                f"the weights of the corpora are so small that epoch {epoch + 1} has no example; raise them"
            )
        again = np.arange(len(seen)) - np.repeat(times.cumsum() - times, times)  # 0, 1, … of each example
        seen += (again * len(self._corpus)).astype(seen.dtype)
        return seen


@dataclass(frozen=True)
class _Plan:
    """Batch b of the epoch is ``examples[bounds[k] : bounds[k + 1]]`` for k = ``batches[b]``."""

    examples: Examples
    bounds: Indices
    batches: Indices


class _MadeBatches(Dataset[PairBatch]):
    """The batches of one epoch by number, here or in a worker process."""

    def __init__(self, source: TokenBatches, epoch: int, plan: _Plan) -> None:
        self._source, self._epoch, self._plan = source, epoch, plan

    def __len__(self) -> int:
        return len(self._plan.batches)

    def __getitem__(self, index: int) -> PairBatch:
        batch = self._plan.batches[index]
        start, end = self._plan.bounds[batch : batch + 2]
        rows = self._source.rows_of(index, len(self), int(end - start))
        return self._source.make(self._epoch, self._plan.examples[start:end], rows)


def _as_is(batch: Any) -> Any:
    return batch


def _widths(lengths: npt.NDArray[np.int32], growth: float, max_tokens: int) -> Widths:
    """Return the lengths to plan with, EOS included: sampled pieces are expected to need ``growth`` times the room."""
    dtype = np.uint16 if max_tokens < 2**16 else np.uint32
    widths = np.add(lengths, 1, dtype=dtype, casting="unsafe")
    return widths if growth == 1 else np.minimum(np.ceil(widths * growth), max_tokens).astype(dtype)


def _by_lengths(source: Widths, target: Widths) -> Indices:
    """Return the order by target length and then, up and down in turn, by source length; equal ones stay in order."""
    span = int(source.max()) + 1
    source = np.where(target % 2 == 0, source, source.dtype.type(span - 1) - source)
    if span * (int(target.max()) + 1) > 2**16:
        return np.lexsort((source, target))
    # both lengths in one number of 16 bits, which is sorted without comparisons: half of the time
    return np.argsort(target.astype(np.uint16) * np.uint16(span) + source.astype(np.uint16), kind="stable")


def _cut(widths: Widths, max_tokens: int, max_sentences: int) -> Indices:
    """Return where batches begin and the last ends: as many rows as rows × widest allows."""
    bounds, counts = [0], np.arange(1, 1 + min(len(widths), max_tokens, max_sentences))
    while (start := bounds[-1]) < len(widths):
        most = min(max_sentences, max_tokens // int(widths[start]))
        rows = widths[start : start + most]
        count = len(rows)
        if int(rows.max()) * count > max_tokens:  # what follows is wider, so fewer fit; the cost grows with each row
            count = int(np.searchsorted(np.maximum.accumulate(rows) * counts[:count], max_tokens, side="right"))
        bounds.append(start + count)
    return np.asarray(bounds, dtype=np.int64)
