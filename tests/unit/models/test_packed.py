"""Packed products give what the plain ones give, of the weights as they are now.

Float32, for nothing else is packed: sums of a dozen numbers of about one differ by a few roundings of 1e-7.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models import PackedWeights, bind, bound, packed
from unit.models.steps import model_of, sources, walk

pytestmark = pytest.mark.skipif(not packed._can_pack(), reason="this torch has no packed products")


@pytest.fixture(autouse=True)
def everything_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "WIDE", 1)


@pytest.fixture(autouse=True)
def nobody_differentiates() -> Iterator[None]:
    with torch.no_grad():
        yield


def pair(bias: bool = True) -> tuple[Tensor, Tensor | None]:
    torch.manual_seed(2)
    return torch.randn(13, 7), torch.randn(13) if bias else None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 67])
@pytest.mark.parametrize("by_columns", [False, True])
def test_the_product_is_the_plain_one(bias: bool, rows: int, by_columns: bool) -> None:
    weight, added = pair(bias)
    laid_out = weight.t().contiguous().t() if by_columns else weight
    product = PackedWeights().linear("a", laid_out, added)
    for x in (torch.randn(rows, 7), torch.randn(7, rows).t(), torch.randn(rows, 14)[:, ::2]):
        torch.testing.assert_close(product(x), F.linear(x, weight, added), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("change", [lambda w: w.mul_(2), lambda w: w.data.mul_(2), lambda w: w.numpy().__imul__(2)])
def test_the_next_search_has_the_weights_as_they_are_then(change: object) -> None:
    weight, bias = pair()
    held, x = PackedWeights(), torch.randn(3, 7)
    before = held.linear("a", weight, bias)(x)
    change(weight)  # type: ignore[operator]
    after = held.linear("a", weight, bias)(x)
    torch.testing.assert_close(after, F.linear(x, weight, bias), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("numbers", [torch.randn(7, 7), torch.randn(7, 7) + 100, torch.arange(49.0).view(7, 7)])
def test_numbers_that_change_places_are_noticed(numbers: Tensor) -> None:
    held, x, weight = PackedWeights(), torch.randn(3, 7), numbers.clone()
    for other in (numbers[[1, 0, *range(2, 7)]], numbers[:, [1, 0, *range(2, 7)]], numbers.T, numbers.flip(0, 1)):
        weight.data.copy_(numbers)
        held.linear("a", weight, None)(x)
        weight.data.copy_(other)
        torch.testing.assert_close(held.linear("a", weight, None)(x), F.linear(x, weight), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("by_columns", [False, True])
def test_each_number_of_a_large_matrix_counts(by_columns: bool) -> None:
    held, x = PackedWeights(), torch.randn(3, 97)
    numbers = torch.randn(173, 97)  # two stretches of factors, and a rest
    weight = numbers.t().contiguous().t() if by_columns else numbers.clone()
    for place in ((0, 0), (1, 2), (83, 89), (84, 43), (168, 87), (168, 88), (172, 96)):
        held.linear("a", weight, None)(x)
        weight.data[place] += 1
        torch.testing.assert_close(held.linear("a", weight, None)(x), F.linear(x, weight), rtol=1e-4, atol=1e-4)


def test_products_of_one_row_do_not_look_at_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Tensor] = []
    mark = packed._mark
    monkeypatch.setattr(packed, "_mark", lambda weight: looks.append(weight) or mark(weight))  # type: ignore[func-returns-value]
    (weight, bias), held = pair(), PackedWeights()
    product, of_many = held.linear("a", weight, bias), held.linear("a", weight, bias, least_rows=5)
    for x in (torch.randn(1, 7), torch.randn(1, 1, 7)):
        torch.testing.assert_close(product(x), F.linear(x, weight, bias))
    of_many(torch.randn(2, 2, 7))
    assert not looks
    of_many(torch.randn(1, 5, 7))
    product(torch.randn(2, 7))
    assert len(looks) == 2


def test_it_is_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packings: list[Tensor] = []
    pack = packed._pack
    monkeypatch.setattr(packed, "_pack", lambda weight: packings.append(weight) or pack(weight))  # type: ignore[func-returns-value]
    (weight, bias), held = pair(), PackedWeights()
    for _ in range(3):
        product = held.linear("a", weight, bias)
        product(torch.randn(1, 7))
        assert len(packings) <= 1
        product(torch.randn(2, 7))
        product(torch.randn(5, 7))
    assert len(packings) == 1


def test_gradients_flow_through_the_plain_product() -> None:
    weight, bias = pair()
    product = PackedWeights().linear("a", weight.requires_grad_(), bias)
    with torch.enable_grad():
        product(torch.randn(3, 7)).sum().backward()
    assert weight.grad is not None


def test_other_numbers_and_narrow_matrices_stay_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    held = PackedWeights()
    weight, bias = pair()
    held.linear("double", weight.double(), None)(torch.randn(3, 7, dtype=torch.float64))
    with torch.autocast("cpu"):
        assert held.linear("autocast", weight, bias)(torch.randn(3, 7)).dtype == torch.bfloat16
    monkeypatch.setattr(packed, "WIDE", weight.numel() + 1)
    held.linear("narrow", weight, bias)(torch.randn(3, 7))
    assert not held._held


def test_weights_that_became_of_another_kind_are_no_longer_held() -> None:
    (weight, bias), held = pair(), PackedWeights()
    held.linear("a", weight, bias)(torch.randn(3, 7))
    assert held._held
    held.linear("a", weight.double(), None)
    assert not held._held


@pytest.mark.parametrize("trouble", [AttributeError, RuntimeError, TypeError, None])
def test_where_the_door_is_gone_or_leads_elsewhere(
    monkeypatch: pytest.MonkeyPatch, trouble: type[Exception] | None
) -> None:
    def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if trouble:
            raise trouble
        return F.linear(x, torch.ones(7, 5), bias)

    monkeypatch.setattr(packed, "_product", product)
    packed._can_pack.cache_clear()
    try:
        assert not packed._can_pack()
        weight, bias = pair()
        x = torch.randn(3, 7)
        assert torch.equal(PackedWeights().linear("a", weight, bias)(x), F.linear(x, weight, bias))
    finally:
        packed._can_pack.cache_clear()


def test_a_copy_begins_with_none() -> None:
    held = PackedWeights()
    weight, bias = pair()
    held.linear("a", weight, bias)(torch.randn(3, 7))
    assert held._held
    for other in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        assert not other._held


@pytest.mark.parametrize("changes", [{}, {"residual": "pre", "gated": True}, {"bias": False, "output_bias": False}])
def test_the_bound_model_is_the_model(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    model, held = model_of(**changes).float(), PackedWeights()
    monkeypatch.setattr(bound, "_MANY", 2)
    source, lengths = sources(5, 7, 2)
    expected = walk(model, source, lengths)
    for _ in range(2):
        for one, other in zip(walk(bind(model, held), source, lengths), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    gated = "gated" in changes
    of_decoder = {"self.qkv", "self.out", "cross.query", "cross.out"} | (set() if gated else {"inner", "outer"})
    of_encoder = {"self_attention.qkv", "self_attention.out", "feed_forward.outer"}
    of_encoder |= {"feed_forward.gate_inner" if gated else "feed_forward.inner"}
    assert set(held._held) == {
        "output",
        *(f"decoder.{layer}.{part}" for layer in range(2) for part in of_decoder),
        *(f"encoder.layers.{layer}.{part}" for layer in range(2) for part in of_encoder),
    }


def test_few_tokens_are_read_with_plain_products() -> None:
    model, held = model_of().float(), PackedWeights()
    bind(model, held).start(*sources(31, 29))
    assert not held._held
    bind(model, held).start(*sources(37, 29))
    assert all(name.startswith("encoder.") for name in held._held) and held._held


def test_a_watched_encoder_is_called() -> None:
    model, heard = model_of().float(), []
    model.encoder.layers[0].feed_forward.inner.register_forward_hook(lambda *_: heard.append(1))
    bind(model, PackedWeights()).start(*sources(5, 3))
    assert heard == [1]


def test_a_watched_projection_is_called() -> None:
    model, heard = model_of().float(), []
    model.output.register_forward_hook(lambda *_: heard.append(1))
    walk(bind(model, PackedWeights()), *sources(5, 3))
    assert len(heard) == 13


def test_a_map_of_ones_own_is_called() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    model = model_of().float()
    model.output.__class__ = Doubled
    source, lengths = sources(5, 3)
    for one, other in zip(
        walk(bind(model, PackedWeights()), source, lengths), walk(model, source, lengths), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
