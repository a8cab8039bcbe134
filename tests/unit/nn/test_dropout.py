"""Dropout: as torch's own in what it means, four draws from one random word in how it is made."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard.nn import Dropout, PostNorm, drop


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_wherever_they_stand(share: float) -> None:
    torch.manual_seed(1)
    dropped = drop(torch.ones(100_003, 4), share) == 0
    # Four standard deviations of a mean of 100,003 draws; each of the four draws of a word is looked at alone.
    assert (dropped.float().mean(0) - share).abs().max() < 4 * (share * (1 - share) / 100_003) ** 0.5


def test_draws_of_one_word_do_not_know_each_other() -> None:
    torch.manual_seed(2)
    dropped = (drop(torch.ones(100_003, 4), 0.5) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 4 / 100_003**0.5  # four standard deviations of no correlation


def test_the_mean_stays() -> None:
    kept = drop(torch.full((11, 13), 3.0), 0.25).unique()
    assert kept.tolist() == [0.0, 4.0]  # 0.25 is a multiple of 2⁻¹⁶, and 3 / 0.75 = 4 is exact


def test_gradients_pass_where_numbers_passed() -> None:
    x = torch.ones(7, 5, requires_grad=True)
    y = drop(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_nothing_happens_in_evaluation_and_at_zero() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert isinstance(Dropout(0.1), nn.Dropout)


def test_odd_sizes_other_dtypes_and_nothing_at_all() -> None:
    assert drop(torch.ones(1, dtype=torch.float64), 0.5).dtype == torch.float64
    assert drop(torch.ones(3, 7, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
    nothing = torch.ones(0, 5, requires_grad=True)
    assert drop(nothing, 0.5).shape == (0, 5)
    drop(nothing, 0.5).sum().backward()


def test_the_same_seed_drops_the_same() -> None:
    x = torch.ones(17, 3)
    first, second = (torch.manual_seed(5) and drop(x, 0.3) for _ in range(2))
    assert torch.equal(first, second)


def test_gradients_of_gradients_pass_there_too() -> None:
    x = torch.ones(7, 5, requires_grad=True)
    y = drop(x, 0.5)
    (first,) = torch.autograd.grad((y * x).sum(), x, create_graph=True)  # y is linear in x, so this is 2 y
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, 2 * y.detach())


def test_what_is_kept_for_the_gradient_is_one_bit_a_number() -> None:
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        drop(torch.ones(7, 5, requires_grad=True), 0.5)
    assert sum(tensor.nbytes for tensor in kept) == 5  # 35 bits


def test_a_share_next_to_one() -> None:
    assert drop(torch.ones(7, 5), 0.999995).isfinite().all()
    assert torch.equal(drop(torch.ones(1009, 1013), 1.0), torch.zeros(1009, 1013))


def test_a_compiler_sees_one_graph() -> None:
    compiled = torch.compile(lambda x: drop(2 * x, 0.5), fullgraph=True, backend="eager")
    assert set(compiled(torch.ones(7, 5)).unique().tolist()) <= {0.0, 4.0}


class TestTransforms:
    """Under `torch.func` dropout is torch's own, draws too; it is linear in x, so its gradient is what it keeps."""

    def dropped(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return drop(x, 0.5)

    def test_gradients(self) -> None:
        def loss(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.dropped(x)
            return (y * x).sum(), y

        gradient, kept = torch.func.grad(loss, has_aux=True)(torch.ones(7, 5))
        assert torch.equal(gradient, 2 * kept)

    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own, of itself
    def test_tangents(self) -> None:
        x, tangent = torch.ones(7, 5), torch.randn(7, 5)
        kept, change = torch.func.jvp(self.dropped, (x,), (tangent,))
        assert torch.equal(change, tangent * kept)

    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
    def test_tangents_outside_torch_func(self) -> None:
        x, tangent = torch.ones(7, 5), torch.randn(7, 5)
        with forward_ad.dual_level():
            kept, change = forward_ad.unpack_dual(self.dropped(forward_ad.make_dual(x, tangent)))
        assert torch.equal(change, tangent * kept)

    def test_several_gradients_at_once(self) -> None:
        x = torch.ones(7, 5, requires_grad=True)
        y = self.dropped(x)
        directions = torch.randn(3, 7, 5)
        (found,) = torch.autograd.grad(y, x, directions, is_grads_batched=True)
        assert torch.equal(found, directions * y)

    @pytest.mark.parametrize("randomness", ["same", "different"])
    def test_a_gradient_for_each_of_several(self, randomness: str) -> None:
        """The gradient of the sum of squares of what is kept of ones, each doubled, is four times what is kept."""

        def loss(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = drop(x, 0.5)
            return y.square().sum(), y

        gradient = torch.func.grad(loss, has_aux=True)
        found, kept = torch.func.vmap(gradient, in_dims=2, randomness=randomness)(torch.ones(7, 5, 3))
        assert torch.equal(found, 4 * kept)
        assert torch.equal(kept[0], kept[1]) == (randomness == "same")

    def test_through_a_whole_layer(self) -> None:
        layer = PostNorm(nn.LayerNorm(5), 0.5).train()
        x = torch.randn(2, 7, 5)

        def loss(parameters: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            made = torch.func.functional_call(layer, parameters, (x, lambda y: 2 * y))
            return made.sum(), made

        gradient, made = torch.func.grad(loss, has_aux=True)(dict(layer.named_parameters()))
        # the norm begins as the identity, so that what is added and multiplied are a count and its own output
        assert torch.equal(gradient["norm.bias"], torch.full((5,), 14.0))
        torch.testing.assert_close(gradient["norm.weight"], made.sum((0, 1)))
