"""How do arrays of any shape become cases: sequences with the same channels, each of its own length?

Axes: n cases, C channels, L frames. Case i is an array [C, length i]; nothing is copied before it is asked for, so that
a memory-mapped array stays on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import ShapeError
from regard.plural import plural

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]

CHUNK = 1024
"""Cases read at once where all of them are read."""


class Cases:
    """Sequences of numbers, real or complex.

    Args:
        rows: [n, C, L], or one [C, length] each.
        lengths: real frames per case of an [n, C, L]; left out, all are real.

    Raises:
        ShapeError: there is no case, or one is empty, has other channels, or does not hold numbers.
    """

    def __init__(self, rows: Array | Sequence[Array], lengths: npt.ArrayLike | None = None) -> None:
        if len(rows) == 0:
            raise ShapeError("there are no cases: X must hold at least one sequence")
        self._rows = rows
        if isinstance(rows, np.ndarray):
            _refuse_words(rows)
            _, self.channels, longest = rows.shape
            self.is_complex = rows.dtype.kind == "c"
            self.lengths: Indices = np.full(len(rows), longest) if lengths is None else _lengths(lengths, rows)
        else:
            self.channels = rows[0].shape[0]
            self.is_complex = rows[0].dtype.kind == "c"
            self.lengths = np.array([row.shape[1] for row in rows])
            for index, row in enumerate(rows):
                _refuse_words(row)
                if (row.dtype.kind == "c") != self.is_complex:
                    raise ShapeError(f"cases must be all real or all complex, but case 0 and case {index} differ")
                if row.shape[0] != self.channels:
                    raise ShapeError(
                        f"all cases must have the same channels, but case 0 has {self.channels} and case {index} "
                        f"has {row.shape[0]}"
                    )
        if (empty := np.flatnonzero(self.lengths < 1)).size:
            raise ShapeError(f"case {empty[0]} has no frames; leave out empty sequences")
        if self.channels < 1:
            raise ShapeError("the cases have no channels")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Array:
        """Return case ``index``, [C, length]."""
        row: Array = self._rows[index]
        return row[:, : self.lengths[index]]

    def subset(self, indices: Indices) -> Cases:
        """Return some of the cases, in the order given."""
        if isinstance(self._rows, np.ndarray):
            return Cases(self._rows[indices], self.lengths[indices])
        return Cases([self._rows[index] for index in indices])

    def stacked(self, indices: Indices) -> Array | None:
        """Return some cases as one array [len(indices), C, L] if they lie in one and are equally long, else None."""
        lengths = self.lengths[indices]
        if isinstance(self._rows, np.ndarray) and lengths.min() == lengths.max():
            picked: Array = self._rows[indices, :, : lengths[0]]
            return picked
        return None

    def chunks(self, indices: Indices) -> Iterator[Array]:
        """Yield the frames of ``indices``, many cases at a time, as [C, frames]."""
        for start in range(0, len(indices), CHUNK):
            part = np.sort(indices[start : start + CHUNK])
            stack = self.stacked(part)
            yield (
                np.concatenate([self[int(index)] for index in part], axis=1)
                if stack is None
                else np.moveaxis(stack, 1, 0).reshape(self.channels, -1)
            )


def as_cases(X: Any, *, channels_last: bool = False) -> Cases:
    """Return ``X`` as cases.

    Args:
        X: [n, L], [n, C, L], or a list of arrays [L] or [C, L], which may be of unequal length. Frames and tensors
            are taken as arrays.
        channels_last: it is [n, L, C], or a list of [L, C].

    Raises:
        ShapeError: it is none of these; the message says what it is.
    """
    if isinstance(X, Cases):
        return X
    if not isinstance(X, np.ndarray) and hasattr(X, "__array__"):
        X = np.asarray(X)
    if not isinstance(X, np.ndarray):
        rows = [_array(index, row) for index, row in enumerate(X)]
        X = np.stack(rows) if rows and len({row.shape for row in rows}) == 1 else rows
    elif X.dtype == object and X.ndim == 1:
        X = [_array(index, row) for index, row in enumerate(X)]
    if isinstance(X, np.ndarray):
        if X.ndim == 2:
            return Cases(X[:, None, :])
        if X.ndim == 3:
            return Cases(X.transpose(0, 2, 1) if channels_last else X)
        raise ShapeError(f"X must be [n, length] or [n, channels, length], but has shape {list(X.shape)}")
    for index, row in enumerate(X):
        if row.ndim not in (1, 2):
            raise ShapeError(f"case {index} must be [length] or [channels, length], but has shape {list(row.shape)}")
    return Cases([row[None, :] if row.ndim == 1 else row.T if channels_last else row for row in X])


def _array(index: int, row: Any) -> Array:
    try:
        return np.asarray(row)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor that needs a gradient says so by the last
        raise ShapeError(f"case {index} cannot be taken as an array of numbers: {error}") from None


def _lengths(lengths: npt.ArrayLike, rows: Array) -> Indices:
    given = np.asarray(lengths)
    if given.shape != (len(rows),) or given.dtype.kind not in "iu":
        raise ShapeError(
            f"lengths must be {plural(len(rows), 'whole number')}, one a case, but are {given.dtype} of {given.shape}"
        )
    if given.max() > rows.shape[2]:
        raise ShapeError(f"a length is {given.max()}, but the cases have {plural(rows.shape[2], 'frame')}")
    return given.astype(np.int64)


def _refuse_words(array: Array) -> None:
    if array.dtype.kind not in "iufbc":
        raise ShapeError(f"a signal must be numbers, but is an array of {array.dtype}")
