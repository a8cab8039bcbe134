"""Rectangles by hand."""

from __future__ import annotations

import numpy as np

from regard.data import collate, collate_sources


def test_a_padded_batch_by_hand() -> None:
    batch = collate([([5, 6, 7], [8], 41), ([9], [10, 11], 3), ([], [], 7)])
    assert batch.source.tolist() == [[5, 6, 7, 3], [9, 3, 0, 0], [3, 0, 0, 0]]
    assert batch.target_in.tolist() == [[2, 8, 0], [2, 10, 11], [2, 0, 0]]
    assert batch.target_out.tolist() == [[8, 3, 0], [10, 11, 3], [3, 0, 0]]
    assert batch.source_lengths is not None and batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_lengths is not None and batch.target_lengths.tolist() == [2, 3, 1]
    assert batch.num_target_tokens == 6
    assert batch.example_ids == (41, 3, 7)


def test_lengths_are_none_on_a_side_without_padding() -> None:
    batch = collate([(np.array([5, 6], dtype=np.uint16), [8], 0), ([9, 10], [11, 12], 1)])
    assert batch.source_lengths is None
    assert batch.target_lengths is not None
    batch = collate([([5, 6], [8], 0), ([9], [11], 1)])
    assert batch.source_lengths is not None
    assert batch.target_lengths is None


def test_noise_goes_to_what_the_decoder_reads_only() -> None:
    batch = collate([([5], [8, 9], 0)], decoder_inputs=[[8, 1]])
    assert batch.target_in.tolist() == [[2, 8, 1]]
    assert batch.target_out.tolist() == [[8, 9, 3]]


def test_sources_alone() -> None:
    source, lengths = collate_sources([[], [5, 6]])
    assert source.tolist() == [[3, 0, 0], [5, 6, 3]]
    assert lengths is not None and lengths.tolist() == [1, 3]
    assert collate_sources([[5], [6]])[1] is None


def test_to_moves_every_tensor() -> None:
    moved = collate([([5, 6], [8], 0), ([9], [10, 11], 1)]).to("meta")
    tensors = [moved.source, moved.source_lengths, moved.target_in, moved.target_out, moved.target_lengths]
    assert all(tensor is not None and tensor.device.type == "meta" for tensor in tensors)
    assert moved.example_ids == (0, 1)
