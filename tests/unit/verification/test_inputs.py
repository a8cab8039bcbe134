from __future__ import annotations

import torch

from regard.verification.inputs import Frames, Inputs, Tokens, draw_inputs

SIDE = Tokens(29, pad=1, start=2, special=(0, 3))


def batch() -> Inputs:
    return draw_inputs(
        SIDE,
        SIDE,
        source_lengths=(7, 5, 3),
        target_lengths=(5, 4, 3),
        sizes=(3, 7, 5),
        seed=0,
        device=torch.device("cpu"),
    )


def test_the_target_is_shifted_by_one_and_padded_on_the_right() -> None:
    x = batch()
    assert x.target_in is not None and x.target_out is not None and x.source is not None
    assert x.target_in[:, 0].tolist() == [2, 2, 2]
    assert torch.equal(x.target_in[0, 1:], x.target_out[0, :-1])
    assert torch.equal(x.real("source"), x.source != 1)
    assert x.num_target_tokens == 12
    ordinary = x.source[x.real("source")]
    assert not torch.isin(ordinary, torch.tensor([0, 1, 2, 3])).any()


def test_redrawn_tokens_differ_everywhere_asked_and_nowhere_else() -> None:
    x = batch()
    where = torch.zeros(3, 7, dtype=torch.bool)
    where[:, 2:4] = True
    other = x.redrawn("source", SIDE, where, torch.Generator().manual_seed(1))
    assert torch.equal(other.side("source") != x.side("source"), where)


def test_widened_cut_and_rows() -> None:
    x = batch()
    wider = x.widened("target", SIDE, 2)
    assert wider.side("target").shape == (3, 7) and wider.side("target")[:, 5:].eq(1).all()
    assert wider.target_out is not None and wider.target_out.shape == (3, 7)
    assert wider.num_target_tokens == 12
    cut = x.cut("source", 4)
    assert cut.source_lengths is not None and cut.source_lengths.tolist() == [4, 4, 3]
    assert torch.equal(x.rows([2, 0]).side("source"), x.side("source")[[2, 0]])


def test_frames_are_vectors_and_may_stand_alone() -> None:
    x = draw_inputs(
        Frames(4), None, source_lengths=(5, 2), target_lengths=None, sizes=(2, 5, 3), seed=0, device=torch.device("cpu")
    )
    assert x.side("source").shape == (2, 5, 4) and not x.has("target")
    assert x.side("source")[1, 2:].eq(0).all() and x.padded("source")
