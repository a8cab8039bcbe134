"""The cache: what was read stays, row by row, whoever joins, leaves or goes on alone.

Axes: B rows, H heads, L new tokens, K width of a head.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.nn import (
    KeysValues,
    KeyValueCache,
    MultiHeadAttention,
    Positions,
    Readers,
    RelativeBias,
    Rotary,
    Visibility,
)

B, H, K = 3, 2, 5


def tokens(length: int, *, start: int = 0, batch: int = B) -> tuple[Tensor, Tensor]:
    """Return keys and values [B, H, L, K] in which no two numbers are alike."""
    numel = batch * H * length * K
    keys = torch.arange(start, start + numel).float().view(batch, H, length, K)
    return keys, -1 - keys


def cache_of(*parts: tuple[Tensor, Tensor], capacity: int = 2) -> KeyValueCache:
    cache = KeyValueCache(capacity)
    for part in parts:
        cache.append(*part)
    return cache


class TestAppend:
    def test_returns_all_that_was_read(self) -> None:
        first, second = tokens(2), tokens(3, start=1000)
        cache = KeyValueCache(capacity=7)
        assert all(map(torch.equal, cache.append(*first), first))
        keys, values = cache.append(*second)
        assert torch.equal(keys, torch.cat([first[0], second[0]], dim=2))
        assert torch.equal(values, torch.cat([first[1], second[1]], dim=2))
        assert cache.length == 5

    @pytest.mark.parametrize("capacity", [1, 2, 3, 5, 31])
    def test_grows_and_forgets_nothing(self, capacity: int) -> None:
        parts = [tokens(length, start=1000 * index) for index, length in enumerate([1, 2, 1, 7, 3, 1])]
        cache = cache_of(*parts[:-1], capacity=capacity)
        keys, values = cache.append(*parts[-1])
        assert torch.equal(keys, torch.cat([part[0] for part in parts], dim=2))
        assert torch.equal(values, torch.cat([part[1] for part in parts], dim=2))

    def test_what_was_returned_is_not_written_over(self) -> None:
        cache = KeyValueCache(capacity=7)
        keys, _ = cache.append(*tokens(2))
        cache.append(*tokens(3, start=1000))
        assert torch.equal(keys, tokens(2)[0])

    def test_room_is_doubled(self) -> None:
        cache = cache_of(tokens(2), capacity=2)
        one_token = 2 * B * H * K * 4
        assert cache.nbytes() == 2 * one_token
        cache.append(*tokens(1))
        assert cache.nbytes() == 4 * one_token

    def test_other_rows_are_refused_in_words(self) -> None:
        with pytest.raises(ShapeError, match=r"the cache holds 3 rows of 2 heads, but got \[2, 2, 1, 5\]"):
            cache_of(tokens(2), tokens(1, batch=2))

    def test_rows_of_their_own_length_are_written_at_their_own_end(self) -> None:
        prefix, new = tokens(4), tokens(2, start=1000)
        cache = cache_of(prefix, capacity=4)
        cache.length = torch.tensor([4, 1, 0])
        keys, values = cache.append(*new)
        assert keys.shape == (B, H, 6, K)
        for row, length in enumerate([4, 1, 0]):
            for store, old, more in ((keys, prefix[0], new[0]), (values, prefix[1], new[1])):
                assert torch.equal(store[row, :, :length], old[row, :, :length])
                assert torch.equal(store[row, :, length : length + 2], more[row])
        assert cache.length.tolist() == [6, 3, 2]

    def test_room_that_was_never_written_holds_numbers(self) -> None:
        cache = KeyValueCache(capacity=7)
        cache.length = torch.tensor([3, 0, 1])
        keys, values = cache.append(*tokens(1))
        assert keys.isfinite().all()
        assert values.isfinite().all()


class TestReorder:
    @pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 2, 2], [2], []])
    def test_row_i_is_row_rows_i(self, rows: list[int]) -> None:
        keys, values = tokens(2)
        cache = cache_of((keys, values), capacity=7).reorder(torch.tensor(rows, dtype=torch.long))
        more = tokens(1, start=1000, batch=len(rows))
        new_keys, new_values = cache.append(*more)
        assert torch.equal(new_keys, torch.cat([keys[rows], more[0]], dim=2))
        assert torch.equal(new_values, torch.cat([values[rows], more[1]], dim=2))

    def test_takes_the_lengths_along(self) -> None:
        cache = cache_of(tokens(4))
        cache.length = torch.tensor([4, 1, 2])
        assert cache.reorder(torch.tensor([2, 0, 0])).length.tolist() == [2, 4, 4]

    def test_the_old_owner_stays_as_it_was(self) -> None:
        cache = cache_of(tokens(2), capacity=7)
        cache.reorder(torch.tensor([2, 1, 0])).append(*tokens(1, start=1000))
        keys, _ = cache.append(*tokens(1, start=2000))
        assert torch.equal(keys, torch.cat([tokens(2)[0], tokens(1, start=2000)[0]], dim=2))

    def test_of_nothing_is_nothing(self) -> None:
        cache = KeyValueCache().reorder(torch.tensor([1, 0]))
        assert (cache.length, cache.nbytes()) == (0, 0)


class TestFork:
    def test_both_go_their_own_way(self) -> None:
        cache = cache_of(tokens(2), capacity=7)
        other = cache.fork()
        left, right, last = tokens(1, start=1000), tokens(2, start=2000), tokens(1, start=3000)
        cache.append(*left)
        other.append(*right)
        for each, own in ((cache, left), (other, right)):
            for index, store in enumerate(each.append(*last)):
                assert torch.equal(store, torch.cat([tokens(2)[index], own[index], last[index]], dim=2))
        assert (cache.length, other.length) == (4, 5)

    def test_of_nothing_is_nothing(self) -> None:
        assert KeyValueCache().fork().nbytes() == 0


class TestKeysValues:
    def test_reorder_and_size(self) -> None:
        keys, values = tokens(7)
        source = KeysValues(keys, values)
        again = source.reorder(torch.tensor([2, 2, 0, 1]))
        assert torch.equal(again.keys, keys[[2, 2, 0, 1]])
        assert torch.equal(again.values, values[[2, 2, 0, 1]])
        assert source.nbytes() == 2 * B * H * 7 * K * 4


class TestRowsOfTheirOwnLength:
    @pytest.mark.parametrize("positions", [Positions(), Rotary(2 * K), RelativeBias(H, bidirectional=False)])
    @pytest.mark.parametrize("chunk", [1, 2])
    def test_decoding_them_is_a_full_forward_of_each(self, positions: Positions, chunk: int) -> None:
        torch.manual_seed(0)
        layer = MultiHeadAttention(2 * H * K, H, positions=positions)
        lengths, longest, further = [5, 2, 3], 5, 4
        x = torch.randn(B, longest + further, 2 * H * K)

        cache = KeyValueCache(capacity=2)
        layer(x[:, :longest], Visibility(causal=True), cache=cache)
        cache.length = torch.tensor(lengths)  # what stands behind a row's own end is forgotten
        rest = torch.stack([x[row, length : length + further] for row, length in enumerate(lengths)])
        steps = [
            layer(part, Visibility(causal=True, offset=cache.length), cache=cache) for part in rest.split(chunk, 1)
        ]

        for row, length in enumerate(lengths):
            full = layer(x[row, None, : length + further], Visibility(causal=True))
            # sums of about ten products in another order
            torch.testing.assert_close(torch.cat(steps, dim=1)[row], full[0, length:], atol=1e-5, rtol=0)


class TestReaders:
    def test_rows_stand_in_a_grid_and_come_back(self) -> None:
        readers = Readers.of(torch.tensor([2, 0, 2, 2, 1]), 3)
        assert readers.width == 3
        x = torch.arange(1.0, 71.0).view(5, 2, 7)  # N, T, D
        grid = readers.group(x)
        assert grid.shape == (3, 3 * 2, 7)
        assert torch.equal(grid[0], torch.cat([x[1], torch.zeros(4, 7)]))  # the places of nobody hold zeros
        assert torch.equal(grid[2], torch.cat([x[0], x[2], x[3]]))
        assert torch.equal(readers.ungroup(grid), x)

    @pytest.mark.parametrize(
        ("memories", "in_order"),
        [((0, 0, 0, 1, 1, 1), True), ((0, 1), True), ((0, 0, 0, 1, 1), False), ((0, 1, 0, 1), False), ((1, 0), False)],
    )
    def test_rows_in_order_stay_where_they_are(self, memories: tuple[int, ...], in_order: bool) -> None:
        readers = Readers.of(torch.tensor(memories), 2)
        assert readers.in_order is in_order
        x = torch.arange(1.0, 1.0 + len(memories) * 14).view(-1, 2, 7)
        moved = replace(readers, in_order=False)
        assert torch.equal(readers.group(x), moved.group(x))
        assert torch.equal(readers.ungroup(readers.group(x)), x)
        assert (readers.group(x).data_ptr() == x.data_ptr()) is in_order
