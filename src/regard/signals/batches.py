"""Which cases are in which batch, in which order: a function of seed and epoch, and of nothing else.

Cases are shuffled; within pools of some batches they are sorted by length, so that little is padded; the batches are
shuffled. What augmentation draws depends on seed, epoch and case only, so no order and no worker can repeat it.
Several processes share these batches, and do not change them: of ``n`` processes number ``r`` takes rows r, r + n, …

Axes: B batch, L frames of the longest, F numbers of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.plural import plural
from regard.signals.cases import Cases, Indices
from regard.signals.preparation import BadValueError, Floats, Frames, Preparation
from regard.training.class_objective import UNCOUNTED

Augment = Callable[[Floats, np.random.Generator], Floats]
"""A standardised case [C, L] and a generator in, a changed case [C, any length] out; missing values are NaN."""

POOL = 8
"""Batches' worth of cases that are sorted by length together: enough to save padding, few enough to stay mixed."""


@dataclass(frozen=True)
class SignalBatch:
    """A padded batch.

    Attributes:
        frames: [B, L, F] float32, zeros behind the end of a case.
        lengths: [B] real frames; None when nothing is padded.
        labels: [B] class numbers; UNCOUNTED where a row only keeps a process in step that has no share of a batch.
        example_ids: which case each row is.
    """

    frames: Tensor
    lengths: Tensor | None
    labels: Tensor
    example_ids: Sequence[int]


class SignalBatches:
    """Batches of labelled cases; see ``regard.protocols.BatchSource``.

    Args:
        cases: all cases.
        rows: which of them to use.
        labels: class number of every case.
        preparation: makes frames of them.
        batch_size: B, at most.
        seed: of order and augmentation.
        shuffle: False keeps the order of ``rows``, for validation.
        augment: what is changed in a case each time that it is seen.
        share: (rank, ranks): which rows of each batch this process takes.
    """

    def __init__(
        self,
        cases: Cases,
        rows: Indices,
        labels: Indices,
        preparation: Preparation,
        *,
        batch_size: int,
        seed: int = 1,
        shuffle: bool = True,
        augment: Augment | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.cases, self.rows, self.labels = cases, rows, labels
        self.preparation = preparation
        self.batch_size, self.seed, self.shuffle, self.augment, self.share = batch_size, seed, shuffle, augment, share

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[SignalBatch]:
        """Yield the batches of ``epoch`` (from 0), leaving out the first ``skip`` without making them."""
        for batch in self._order(epoch)[skip:]:
            rows, labels = _own(batch, self.labels[batch], self.share)
            if self.augment is None:
                frames, lengths = padded(self.cases, rows, self.preparation)
            else:
                seen = [self._seen(epoch, int(row), self.augment) for row in rows]
                frames, lengths = pad(seen)
            yield SignalBatch(frames, lengths, torch.from_numpy(labels), rows.tolist())

    def _seen(self, epoch: int, row: int, augment: Augment) -> Frames:
        scaled = self.preparation.scaled(self.cases[row])
        changed = augment(scaled, np.random.default_rng((self.seed, epoch, row)))
        return _usable(changed, self.preparation, f"case {row}")

    def _order(self, epoch: int) -> list[Indices]:
        if not self.shuffle:
            return _cut(self.rows, self.batch_size)
        draw = np.random.default_rng((self.seed, epoch))
        rows = draw.permutation(self.rows)
        pools = _cut(rows, POOL * self.batch_size)
        by_length = [pool[np.argsort(self.cases.lengths[pool], kind="stable")] for pool in pools]
        batches = [batch for pool in by_length for batch in _cut(pool, self.batch_size)]
        return [batches[index] for index in draw.permutation(len(batches))]


class GeneratedBatches:
    """Batches of cases that are made when asked for, and never the same twice; see ``regard.protocols.BatchSource``.

    Args:
        draw: makes a number of cases and their class numbers from a generator.
        preparation: makes frames of them.
        batch_size: B.
        num_batches: in an epoch.
        seed: with epoch and number of a batch, of what is drawn.
        augment: what is changed in each case.
        share: (rank, ranks): which cases of each batch this process takes.
    """

    def __init__(
        self,
        draw: Callable[[int, np.random.Generator], tuple[Cases, Indices]],
        preparation: Preparation,
        *,
        batch_size: int,
        num_batches: int,
        seed: int = 1,
        augment: Augment | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.draw, self.preparation, self.augment = draw, preparation, augment
        self.batch_size, self.num_batches, self.seed, self.share = batch_size, num_batches, seed, share

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[SignalBatch]:
        """Yield the batches of ``epoch`` (from 0), leaving out the first ``skip`` without making them."""
        for number in range(skip, self.num_batches):
            rng = np.random.default_rng((self.seed, epoch, number))
            cases, labels = self.draw(self.batch_size, rng)
            rows, own = _own(np.arange(len(cases)), labels, self.share)
            if self.augment is None:
                frames, lengths = padded(cases, rows, self.preparation)
            else:  # from one generator, so that each case draws what it would where nothing is shared
                scaled = (self.preparation.scaled(cases[row]) for row in range(len(cases)))
                changed = [self.augment(case, rng) for case in scaled]
                frames, lengths = pad([_usable(changed[row], self.preparation, "a generated case") for row in rows])
            first = (epoch * self.num_batches + number) * self.batch_size
            yield SignalBatch(frames, lengths, torch.from_numpy(own), (first + rows).tolist())


def padded(cases: Cases, rows: Indices, preparation: Preparation) -> tuple[Tensor, Tensor | None]:
    """Return the frames of some cases as one rectangle, and their lengths where they differ."""
    try:
        stack = cases.stacked(rows)
        if stack is not None:  # one pass over all, where nothing need be padded
            return torch.from_numpy(preparation.frames(preparation.scaled(stack))), None
        return pad([preparation.frames(preparation.scaled(cases[int(row)])) for row in rows])
    except BadValueError:
        preparation.check(cases, np.sort(rows))
        raise


def pad(rows: Sequence[Frames]) -> tuple[Tensor, Tensor | None]:
    """Return frames [length, F] of several cases as [B, L, F], and their lengths where they differ."""
    lengths = [len(row) for row in rows]
    frames = np.zeros((len(rows), max(lengths), rows[0].shape[1]), dtype=np.float32)
    for row, length, into in zip(rows, lengths, frames, strict=True):
        into[:length] = row
    return torch.from_numpy(frames), None if min(lengths) == max(lengths) else torch.tensor(lengths)


def _usable(changed: Floats, preparation: Preparation, which: str) -> Frames:
    """Return the frames of a case as augmentation left it, or say that it cannot be learned from."""
    found = np.shape(changed)
    if not isinstance(changed, np.ndarray) or len(found) != 2 or found[0] != preparation.channels or not found[1]:
        what = f"shape {list(found)}" if isinstance(changed, np.ndarray) else f"a {type(changed).__name__}"
        raise ShapeError(
            f"augment returned {what} for {which}, but must return an array "
            f"[{plural(preparation.channels, 'channel')}, frames]"
        )
    if np.isinf(changed).any() or (preparation.missing == "error" and np.isnan(changed).any()):
        raise ShapeError(f"augment returned NaN or infinity for {which}")
    return preparation.frames(changed)


def _own(rows: Indices, labels: Indices, share: tuple[int, int]) -> tuple[Indices, Indices]:
    """Return the rows of a process and their labels; where it has none, a row that does not count."""
    rank, ranks = share
    if rank >= len(rows):
        return rows[:1], np.full(1, UNCOUNTED)
    return rows[rank::ranks], labels[rank::ranks]


def _cut(rows: Indices, size: int) -> list[Indices]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
