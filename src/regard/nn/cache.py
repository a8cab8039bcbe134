"""Keys and values that outlive one forward: a decoder's own past, and the source it reads.

Axes: B or N rows, M memories, H heads, C capacity, L or T new tokens, S length so far, K width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import ShapeError
from regard.nn.masks import Offset
from regard.plural import plural


@dataclass(frozen=True)
class Readers:
    """Which of M memories each of N rows reads: beams of one source share its keys and values.

    Rows stand in a grid of M × W places, W being the most that read the same memory; places left over hold zeros.

    Attributes:
        places: [N] where each row stands in the flattened grid.
        num_memories: M.
        width: W.
        in_order: Whether row n stands at place n and no place is left over, so that nothing has to be moved.
    """

    places: Int[Tensor, " N"]
    num_memories: int
    width: int
    in_order: bool = False

    @classmethod
    def of(cls, memories: Int[Tensor, " N"], num_memories: int) -> Readers:
        """Return the grid of rows that read ``memories``, in any order."""
        counts = torch.bincount(memories, minlength=num_memories)
        width, order = int(counts.max()), memories.argsort(stable=True)
        first = counts.cumsum(0) - counts
        rank = torch.empty_like(memories)
        rank[order] = torch.arange(len(memories), device=memories.device) - first[memories[order]]
        places = memories * width + rank
        in_order = num_memories * width == len(places) and bool((places.diff() == 1).all())
        return cls(places, num_memories, width, in_order)

    def group(self, x: Float[Tensor, "N T ..."]) -> Float[Tensor, "M WT ..."]:
        """Return the rows of each memory one behind the other."""
        if self.in_order:
            return x.reshape(self.num_memories, -1, *x.shape[2:])
        grid = x.new_zeros(self.num_memories * self.width, *x.shape[1:])
        return grid.index_copy_(0, self.places, x).view(self.num_memories, -1, *x.shape[2:])

    def ungroup(self, x: Float[Tensor, "M WT ..."]) -> Float[Tensor, "N T ..."]:
        """Return each row by itself, the inverse of :meth:`group`."""
        if self.in_order:
            return x.reshape(len(self.places), -1, *x.shape[2:])
        grid = x.reshape(self.num_memories * self.width, -1, *x.shape[2:])
        return grid.index_select(0, self.places)


@dataclass(frozen=True)
class KeysValues:
    """Keys and values that stay as they are: those of an encoded source.

    Attributes:
        keys: [M, H, S, K].
        values: [M, H, S, K].
        readers: Which rows read which of the M; left out, row n reads memory n.
    """

    keys: Float[Tensor, "M H S K"]
    values: Float[Tensor, "M H S K"]
    readers: Readers | None = None

    def contiguous(self) -> KeysValues:
        """Return the same, each head's keys and values in one piece of memory, for who reads them again and again."""
        return replace(self, keys=self.keys.contiguous(), values=self.values.contiguous())

    def reorder(self, rows: Int[Tensor, " N"]) -> KeysValues:
        """Return the keys and values of ``rows``, each read by one row."""
        return KeysValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def nbytes(self) -> int:
        """Return the memory held, in bytes."""
        return self.keys.nbytes + self.values.nbytes


class KeyValueCache:
    """Keys and values of the tokens read so far, one owner, room for more ahead of them.

    ``length`` is one number while all rows have read as many tokens, else one per row. Memory doubles when full, so
    nothing is ever written past its end.
    """

    def __init__(self, capacity: int = 8) -> None:
        self.length: Offset = 0
        self._capacity = capacity
        self._store: Tensor | None = None  # [2, B, H, C, K]: keys, values

    def append(
        self, keys: Float[Tensor, "B H L K"], values: Float[Tensor, "B H L K"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        """Write new keys and values behind the old ones of each row and return all of them, as views.

        Where rows differ in length, the columns behind a row's own end hold leftovers: mask them.
        """
        if keys.shape != values.shape:
            raise ShapeError(f"keys are {list(keys.shape)}, but values {list(values.shape)}")
        num_new = keys.size(2)
        longest = int(self.length.max()) if isinstance(self.length, Tensor) else self.length
        self._store = store = self._room(keys, longest, num_new)
        held = store.narrow(3, 0, longest + num_new)
        all_keys, all_values = held[0], held[1]  # not unbound: autograd lets nobody write into what `unbind` returns
        if isinstance(self.length, Tensor):
            columns = self.length[:, None] + torch.arange(num_new, device=keys.device)  # [B, L]
            index = columns[:, None, :, None].expand_as(keys)
            all_keys.scatter_(2, index, keys)
            all_values.scatter_(2, index, values)
        else:
            all_keys.narrow(2, longest, num_new).copy_(keys)
            all_values.narrow(2, longest, num_new).copy_(values)
        self.length = self.length + num_new
        return all_keys, all_values

    def _room(self, new: Tensor, used: int, num_new: int) -> Tensor:
        """Return the store, or a larger copy of it, with room for ``num_new`` columns behind ``used``."""
        store = self._store
        if store is not None and new.shape[:2] != store.shape[1:3]:
            raise ShapeError(
                f"the cache holds {plural(store.size(1), 'row')} of {plural(store.size(2), 'head')}, but got "
                f"{list(new.shape)}"
            )
        needed = used + num_new
        if store is not None and needed <= store.size(3):
            return store
        capacity = max(self._capacity, needed, 0 if store is None else 2 * store.size(3))
        # Zeros, for a masked key still meets its value: 0 · NaN would be NaN.
        larger = new.new_zeros(2, new.size(0), new.size(1), capacity, new.size(3))
        if store is not None:
            larger[:, :, :, :used] = store[:, :, :, :used]
        return larger

    def reorder(self, rows: Int[Tensor, " N"]) -> KeyValueCache:
        """Return a new owner whose row i is row ``rows[i]`` of this one; rows may repeat or be left out."""
        other = KeyValueCache(self._capacity)
        other.length = self.length.index_select(0, rows) if isinstance(self.length, Tensor) else self.length
        other._store = None if self._store is None else self._store.index_select(1, rows)
        return other

    def fork(self) -> KeyValueCache:
        """Return a copy that can go its own way."""
        other = KeyValueCache(self._capacity)
        other.length = self.length
        other._store = None if self._store is None else self._store.clone()
        return other

    def nbytes(self) -> int:
        """Return the memory held, in bytes."""
        return 0 if self._store is None else self._store.nbytes
