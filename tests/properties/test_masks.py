"""Whatever is masked: every way of running attention gives the same, nothing is NaN, and looking changes nothing.

Tolerances: float32 outputs are of size 1 and their sums short, so two orders of summation differ by some 1e-7; 1e-5 is
what is asked for. In float64 the same comparison must hold to 1e-10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard.nn.attention
from properties.attended import Attended
from properties.settings import WIDTH, Setting, mask_settings
from regard.errors import ShapeError
from regard.inspection import watch_attention
from regard.models import Dropout, TransformerSpec, build
from regard.nn import Visibility, attend

MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "train": nullcontext,
    "eval": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
def test_every_mode_agrees_watched_or_not(short: int) -> None:
    check = settings(max_examples=260, derandomize=True)(given(mask_settings())(check_setting))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regard.nn.attention, "SHORT", short)
        check()


def check_setting(setting: Setting) -> None:
    empty = ~setting.pairs.any(dim=-1)  # [B, H, T]
    for dtype, tolerance in TOLERANCES.items():
        attended = Attended(setting, dtype)
        expected = attended.by_hand().detach()
        for mode, context in MODES.items():
            attended.module.train(mode == "train")
            seen: dict[bool, Tensor] = {}
            for watched in (False, True):
                with ExitStack() as stack:
                    stack.enter_context(context())
                    maps = stack.enter_context(watch_attention(attended.module)) if watched else None
                    output = attended.run()
                    seen[watched] = output.detach().clone()
                # [B, H, T, K]
                sums = attended.mixed.unflatten(-1, (setting.heads, WIDTH)).transpose(1, 2)
                assert (sums[empty] == 0).all(), "a query with nothing to attend to gets exactly zero"
                if maps is not None:
                    weights = maps["MultiHeadAttention"][-1]
                    assert (weights[~setting.pairs] == 0).all()
                    torch.testing.assert_close(weights.sum(-1), (~empty).float(), rtol=0, atol=1e-5)
                if output.requires_grad:
                    attended.module.zero_grad()
                    output.square().sum().backward()
                    for name, parameter in attended.module.named_parameters():
                        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
            assert torch.equal(seen[False], seen[True]), "looking changes nothing"
            # every mode lies within half of the tolerance around one value, and so within all of it of each other
            torch.testing.assert_close(seen[False], expected, rtol=0, atol=tolerance / 2, msg=mode)


# ---- single statements that the settings above do not reach --------------------------------------------------------

SPEC = TransformerSpec(
    source_vocab=11,
    target_vocab=13,
    d_model=10,
    num_heads=2,
    d_ff=17,
    encoder_layers=2,
    decoder_layers=3,
    max_len=53,
    dropout=Dropout(0.0, 0.0, 0.0, 0.0),
)


def ids(rows: int, length: int, vocab: int, seed: int) -> Tensor:
    return torch.randint(4, vocab, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("residual", ["post", "pre"])
def test_rows_without_anything_to_see_leave_the_gradients_of_the_others_alone(residual: str, watched: bool) -> None:
    """Row 1 has no source at all, and row 2 loses its first target position; the loss is on rows 0 and 3."""
    model = build(replace(SPEC, residual=residual)).double()
    source, target = ids(4, 7, 11, seed=1), ids(4, 5, 13, seed=2)
    source[1] = 0
    open_to = torch.ones(4, 5, 5, dtype=torch.bool)
    open_to[2, :, 0] = False  # together with causality nothing is left for position 0

    def gradients(rows: list[int], good: list[int]) -> list[Tensor]:
        model.zero_grad()
        with watch_attention(model) if watched else nullcontext():
            logits = model(source[rows], target[rows], target_mask=open_to[rows])
        assert logits.isfinite().all()
        logits[good].square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    for ours, alone in zip(gradients([0, 1, 2, 3], [0, 3]), gradients([0, 3], [0, 1]), strict=True):
        torch.testing.assert_close(ours, alone, rtol=1e-12, atol=1e-12)


def test_columns_that_are_padding_in_every_row_stay_and_change_nothing() -> None:
    model = build(SPEC).double()
    source, target = ids(3, 7, 11, seed=1), ids(3, 5, 13, seed=2)
    source[1, 4:] = 0
    padded_source, padded_target = nn.functional.pad(source, (0, 3)), nn.functional.pad(target, (0, 3))
    outputs = []
    for mode, context in MODES.items():
        with context():
            model.train(mode == "train")
            outputs.append(model(padded_source, padded_target).detach())
            assert outputs[-1].shape == (3, 8, 13)
            torch.testing.assert_close(outputs[-1][:, :5], model(source, target).detach(), rtol=0, atol=1e-12)
    assert all(torch.equal(output, outputs[0]) for output in outputs)  # what padded positions hold, too


@pytest.mark.parametrize("short", [0, 32], ids=["fused", "products"])
def test_no_position_knows_a_later_one(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not nearly zero: a sum over hidden keys must not even be rounded differently."""
    monkeypatch.setattr(regard.nn.attention, "SHORT", short)
    model = build(SPEC).eval()
    source, target = ids(3, 7, 11, seed=1), ids(3, 11, 13, seed=2)
    logits = model(source, target)
    for t in range(1, 11):
        changed = target.clone()
        changed[:, t:] = ids(3, 11 - t, 13, seed=t)
        assert torch.equal(model(source, changed)[:, :t], logits[:, :t])
        gradient = torch.autograd.grad(
            model.decoder(
                leaf := model.target_embedding(target).detach().requires_grad_(),
                model.decoder.keys_values(model.encode(source)),
                Visibility(causal=True),
            )[:, t - 1, 0].sum(),
            leaf,
        )[0]
        assert (gradient[:, t:] == 0).all() and (gradient[:, :t] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8])
def test_numbers_are_refused_as_masks_at_the_public_door(dtype: torch.dtype) -> None:
    model = build(SPEC)
    source, target = ids(3, 7, 11, seed=1), ids(3, 5, 13, seed=2)
    for name, size in (("source_mask", 7), ("target_mask", 5)):
        mask = torch.ones(size, size).to(dtype)
        with pytest.raises(ShapeError, match=r"must be boolean with True = may attend"):
            model(source, target, **{name: mask})
    additive = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -math.inf)
    with pytest.raises(ShapeError, match="additive"):
        model(source, target, target_mask=additive)


@given(st.integers(1, 32), st.sampled_from(["source", "target"]))
@settings(max_examples=10, derandomize=True)
def test_padding_on_the_left_is_refused_in_words(width: int, side: str) -> None:
    batch = {"source": ids(3, 7, 11, seed=1), "target": ids(3, 5, 13, seed=2)}
    batch[side] = nn.functional.pad(batch[side], (width, 0))
    with pytest.raises(ShapeError, match=f"{side} must be padded on the right"):
        build(SPEC)(**batch)


BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else []) + (["mps"] if torch.mps.is_available() else [])


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_row_is_zero_whatever_computes_it(device: str, backend: SDPBackend) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, 3, 41, 8, generator=generator).to(device).requires_grad_() for _ in range(3))
    mask = (torch.rand(2, 1, 41, 41, generator=generator) < 0.5).to(device)
    mask[:, :, 5] = False
    bias = torch.randn(1, 3, 41, 41, generator=generator).to(device)
    for added in (None, bias):
        with sdpa_kernel([backend, SDPBackend.MATH]):  # flash on a GPU takes no mask
            output = attend(q, k, v, mask, bias=added)
        assert (output[:, :, 5] == 0).all() and output.isfinite().all()
        for gradient in torch.autograd.grad(output.square().sum(), (q, k, v)):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_short_products_and_the_fused_kernel_meet_at_the_boundary(causal: bool) -> None:
    """One more key changes the kernel but not the answer: the last key is hidden, so both lengths mean the same."""
    limit = regard.nn.attention.SHORT
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, 3, limit + 1, 7, generator=generator) for _ in range(3))
    short = attend(q[:, :, :limit], k[:, :, :limit], v[:, :, :limit], causal=causal)
    hide_last = (torch.arange(limit + 1) < limit)[None, None, None, :]
    for mask in (hide_last, None) if causal else (hide_last,):  # a triangle hides the last key by itself
        longer = attend(q, k, v, mask, causal=causal)[:, :, :limit]
        torch.testing.assert_close(longer, short, rtol=0, atol=1e-6)
