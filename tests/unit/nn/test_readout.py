"""Readouts: by hand, and blind to padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.nn import AttentionReadout, FirstReadout, LastReadout, MeanReadout, MultiHeadAttention

B, L, D = 3, 5, 6
LENGTHS = torch.tensor([5, 2, 0])


def attention_readout() -> AttentionReadout:
    torch.manual_seed(0)
    readout = AttentionReadout(MultiHeadAttention(D, 3), D)
    nn.init.normal_(readout.query)
    return readout


READOUTS = [MeanReadout(), FirstReadout(), LastReadout(), attention_readout()]


def test_mean_of_the_real_frames() -> None:
    x = torch.tensor([[[1.0], [3.0], [8.0]], [[1.0], [3.0], [8.0]]])
    assert MeanReadout()(x).tolist() == [[4.0], [4.0]]
    assert MeanReadout()(x, torch.tensor([3, 2])).tolist() == [[4.0], [2.0]]


def test_first_place() -> None:
    x = torch.randn(B, L, D)
    assert torch.equal(FirstReadout()(x), x[:, 0])
    assert torch.equal(FirstReadout()(x, torch.tensor([5, 2, 1])), x[:, 0])


def test_last_real_frame() -> None:
    x = torch.randn(B, L, D)
    assert torch.equal(LastReadout()(x), x[:, 4])
    assert torch.equal(LastReadout()(x, torch.tensor([5, 2, 1])), x[[0, 1, 2], [4, 1, 0]])


def test_attention_before_training_is_the_mean_of_values() -> None:
    attention = MultiHeadAttention(D, 3)
    x = torch.randn(B, L, D)
    with torch.no_grad():
        attention.qkv.bias.zero_()
    values = x @ attention.qkv.weight[2 * D :].T
    torch.testing.assert_close(AttentionReadout(attention, D)(x), attention.out(values.mean(dim=1)))


def test_attention_tells_who_listens_how_much_each_frame_counts() -> None:
    readout, heard = attention_readout(), []
    readout.attention.listen(heard.append)
    readout(torch.randn(B, L, D), LENGTHS)
    assert heard[0].shape == (B, 3, 1, L)
    assert heard[0][1, :, :, 2:].eq(0).all()
    torch.testing.assert_close(heard[0][:2].sum(-1), torch.ones(2, 3, 1))


def test_the_query_is_trained() -> None:
    readout = attention_readout()
    readout(torch.randn(B, L, D)).square().sum().backward()
    assert readout.query.grad is not None
    assert readout.query.grad.ne(0).all()


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("padding", [3.0, 1e30])
def test_padding_never_reaches_the_result(readout: nn.Module, padding: float) -> None:
    x = torch.randn(B, L, D)
    changed = x.masked_fill((torch.arange(L) >= LENGTHS[:, None])[:, :, None], padding)
    assert torch.equal(readout(x, LENGTHS), readout(changed, LENGTHS))


@pytest.mark.parametrize("readout", READOUTS)
def test_a_row_is_read_as_it_would_be_alone(readout: nn.Module) -> None:
    x = torch.randn(B, L, D)
    torch.testing.assert_close(readout(x, LENGTHS)[1], readout(x[1:2, :2])[0])


@pytest.mark.parametrize("readout", READOUTS)
def test_no_frame_at_all_reads_zero_with_finite_gradients(readout: nn.Module) -> None:
    x = torch.randn(B, L, D, requires_grad=True)
    out: Tensor = readout(x, LENGTHS)
    nothing = readout.attention.out.bias if isinstance(readout, AttentionReadout) else torch.zeros(D)
    assert torch.equal(out[2], nothing)
    out.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad[2].eq(0).all()


@pytest.mark.parametrize("readout", READOUTS)
def test_a_length_beyond_the_frames_counts_all_of_them(readout: nn.Module) -> None:
    x = torch.randn(B, L, D)
    torch.testing.assert_close(readout(x, torch.tensor([7, 5, 6])), readout(x))
