"""Half the digits, and no more error than the plain formula makes with them.

Allowances are derived, not chosen: what the formula itself, in steps and in the same dtype, is off from float64 is what
rounding costs; the library may be off by twice as much. Axes as in ``regard.nn.attention``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

import regard.nn.attention
from properties.settings import WIDTH, Setting, mask_settings
from properties.specs import NORMS, POSITIONS, random_ids, random_model, small
from regard.models import build
from regard.nn import Learned, Rotary, Sinusoidal, attend, attend_plain, sinusoidal_table

HALVES = [torch.bfloat16, torch.float16]
UNITS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Half the distance between 1 and the next number: the error of one rounding."""


def derived_tolerance(plain: Tensor, exact: Tensor, size: float) -> float:
    """Return twice the error of ``plain``, or of one rounding at the ``size`` of what was summed if it was lucky."""
    error = float((plain.double() - exact).abs().max())
    return 2 * max(error, UNITS[plain.dtype] * size)


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_attention_is_as_exact_as_its_formula(dtype: torch.dtype, short: int) -> None:
    """Every kind of mask, forward and backward: nothing overflows, and hidden keys weigh exactly nothing."""

    @given(mask_settings())
    @settings(max_examples=100, derandomize=True)
    def check(setting: Setting) -> None:
        generator = torch.Generator().manual_seed(setting.seed)
        sizes = (setting.queries, setting.keys, setting.keys)
        inputs = [torch.randn(setting.batch, setting.heads, n, WIDTH, generator=generator).to(dtype) for n in sizes]
        pairs = setting.pairs
        bias = torch.randn(1, *pairs.shape[1:], generator=generator).to(dtype) if setting.bias else None

        def run(attention: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
            leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
            output = attention(*leaves, pairs, bias=None if bias is None else bias.to(dtype))
            return [output.detach(), *torch.autograd.grad(output.square().sum(), leaves)]

        def plain(*inputs: Tensor, **options: Tensor | None) -> Tensor:
            return attend_plain(*inputs, **options)[0]

        exact, in_steps, ours = run(plain, torch.float64), run(plain, dtype), run(attend, dtype)
        _, weights = attend_plain(*inputs, pairs, bias=bias)
        assert (weights[~pairs] == 0).all()
        assert (ours[0][~pairs.any(-1)] == 0).all()
        size = max(float(value.abs().max()) for value in exact)  # small gradients are differences of large terms
        for name, truth, formula, value in zip(("output", "q", "k", "v"), exact, in_steps, ours, strict=True):
            assert value.dtype == dtype and value.isfinite().all()
            error = float((value.double() - truth).abs().max())
            assert error <= derived_tolerance(formula, truth, size), (name, error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regard.nn.attention, "SHORT", short)
        check()


@torch.no_grad()
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_model_in_half_precision(
    positions: str, norm: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rounded weights in float64, with plain products in half precision, and with the fused kernel."""
    model = random_model(small(positions, norm), dtype)
    exact_model = build(model.spec).double().eval()
    exact_model.load_state_dict(model.state_dict())
    source, target = random_ids([7, 2, 5], seed=1), random_ids([11, 5, 3], seed=2)
    exact = exact_model(source, target)
    monkeypatch.setattr(regard.nn.attention, "SHORT", 64)
    plain = model(source, target)
    monkeypatch.setattr(regard.nn.attention, "SHORT", 0)
    fused = model(source, target)
    assert fused.dtype == dtype
    assert float((fused.double() - exact).abs().max()) <= derived_tolerance(plain, exact, float(exact.abs().max()))


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
def test_autocast_trains_through_padding_and_empty_rows(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "SHORT", short)
    model = random_model(small("relative-bias"), torch.float32).train()
    source, target = random_ids([7, 0, 5], seed=1), random_ids([11, 5, 3], seed=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(source, target)
        model_loss = logits.float().square().mean()
    model_loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


# ---- tables of positions -------------------------------------------------------------------------------------------


def built_in(dtype: torch.dtype, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    torch.set_default_dtype(dtype)
    try:
        return make()
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_tables_are_rounded_once(layout: Literal["interleaved", "half"], dtype: torch.dtype) -> None:
    """Built in a dtype or cast to it, by whatever way round: each number is the nearest there is to the true one."""
    places, width = 2048, 14
    rates = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(places, dtype=torch.float64)[:, None] * rates
    sines, cosines = angles.sin().to(dtype), angles.cos().to(dtype)
    tables = [
        module
        for casts in ([dtype], [torch.float16, dtype], [torch.bfloat16, torch.float64, dtype])
        for module in (Sinusoidal(width, places, layout=layout), Rotary(width, places, layout=layout))
        for _ in [[module.to(cast) for cast in casts]]
    ]
    tables += [
        built_in(dtype, lambda: Sinusoidal(width, places, layout=layout)).to(dtype),
        built_in(dtype, lambda: Rotary(width, places, layout=layout)).to(dtype),
    ]
    for module in tables:
        if isinstance(module, Rotary):
            sin, cos = module.sin, module.cos
        elif layout == "half":
            sin, cos = module.table.chunk(2, dim=1)
        else:
            sin, cos = module.table[:, 0::2], module.table[:, 1::2]
        # one unit in the last place of double arithmetic may tip a rounding over
        for table, true in ((sin, sines), (cos, cosines)):
            assert table.dtype == dtype
            torch.testing.assert_close(table, true, rtol=0, atol=1e-12)


def test_tables_survive_a_model_made_without_memory() -> None:
    with torch.device("meta"):
        positions = [Sinusoidal(10, 31), Rotary(10, 31)]
    sinusoidal, rotary = (module.to_empty(device="cpu") for module in positions)
    assert torch.equal(sinusoidal.table, sinusoidal_table(31, 10))
    assert torch.equal(rotary.cos, Rotary(10, 31).cos)


def test_tables_are_not_saved_and_learned_positions_are() -> None:
    assert not Sinusoidal(10).state_dict() and not Rotary(10).state_dict()
    assert list(Learned(10).state_dict()) == ["weight"]
