"""The library against ``torch.nn.Transformer`` and ``F.scaled_dot_product_attention``.

The stock stack has no embedding, no positions and no vocabulary: both sides read the same vectors, and our output map
turns both hidden states into logits.

Tolerance. In float32 the two sides sum in different orders; logits, losses and gradients here are of size 1, where one
rounding is 6e-8 and a sum of some dozens of them stays under 1e-6. In float64 the same comparison must hold to 1e-12.

**Inputs on which the stock one is wrong**, each shown by a test below, with ours beside it:

1. ``fully masked row, weights asked for``: NaN output and NaN gradients for every weight, from valid rows too.
2. ``fully masked row, evaluation without gradients``: NaN output, though the same call in training is finite.
3. ``is_causal with fewer queries than keys``: the triangle starts at the first key, so that one new query beside cached
   keys sees only the oldest of them.
4. ``is_causal on the attention module``: a hint about a mask that must be passed as well; alone it is an error, and
   beside a mask that says something else either may win.
5. ``0/1 float mask``: added to the scores instead of masking; every key stays visible.
6. ``boolean polarity``: True hides in ``nn.MultiheadAttention`` and shows in ``scaled_dot_product_attention``.
7. ``padded rows``: zero in evaluation without gradients, something else in training.
8. ``-1e9 for -inf``: an empty row silently takes the mean of all values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from parity.weights import Names, copy_by_name, scramble
from regard.errors import ShapeError
from regard.inspection import watch_attention
from regard.models import Dropout, Transformer, TransformerSpec, build
from regard.nn import MultiHeadAttention, Visibility, attend, attend_plain, causal_mask, combine

B, S, T, D, H, F_, V = 3, 7, 5, 12, 2, 17, 13
LENGTHS = torch.tensor([7, 2, 5])


# ---- the stack -----------------------------------------------------------------------------------------------------


def names(encoder_layers: int, decoder_layers: int) -> Names:
    """Our names in a stack → those of ``torch.nn.Transformer``. Queries, keys and values lie stacked in both."""
    attention = {
        "qkv.weight": "in_proj_weight",
        "qkv.bias": "in_proj_bias",
        "out.weight": "out_proj.weight",
        "out.bias": "out_proj.bias",
    }
    found = {}
    for side, count in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        norms = ["self_residual.norm", "cross_residual.norm", "feed_forward_residual.norm"]
        attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
        if side == "encoder":
            del norms[1], attentions["cross_attention"]
        for layer in range(count):
            at = f"{side}.layers.{layer}"
            for our_attention, theirs in attentions.items():
                for our_part, part in attention.items():
                    found[f"{at}.{our_attention}.{our_part}"] = f"{at}.{theirs}.{part}"
            for part in ("weight", "bias"):
                found[f"{at}.feed_forward.inner.{part}"] = f"{at}.linear1.{part}"
                found[f"{at}.feed_forward.outer.{part}"] = f"{at}.linear2.{part}"
                for number, norm in enumerate(norms, start=1):
                    found[f"{at}.{norm}.{part}"] = f"{at}.norm{number}.{part}"
        for part in ("weight", "bias"):
            found[f"{side}.final_norm.{part}"] = f"{side}.norm.{part}"
    return found


def both(
    residual: Literal["post", "pre"], dtype: torch.dtype, activation: Literal["relu", "gelu"] = "relu"
) -> tuple[Transformer, nn.Transformer]:
    """Return our model and the stock stack, with the same random weights."""
    spec = TransformerSpec(
        source_vocab=11,
        target_vocab=V,
        d_model=D,
        num_heads=H,
        d_ff=F_,
        encoder_layers=2,
        decoder_layers=3,
        residual=residual,
        encoder_final_norm=True,  # the stock stack always has both
        decoder_final_norm=True,
        activation=activation,
        dropout=Dropout(0.0, 0.0, 0.0, 0.0),
    )
    ours = build(spec).to(dtype)
    stock = nn.Transformer(
        D, H, 2, 3, F_, dropout=0.0, activation=activation, batch_first=True, norm_first=residual == "pre", dtype=dtype
    )
    scramble(stock, seed=1)
    scramble(ours, seed=2)
    outside = {name: name for name in ours.state_dict() if name not in names(2, 3)}  # embeddings, output: ours alone
    left = copy_by_name(ours, stock.state_dict() | ours.state_dict(), {**names(2, 3), **outside})
    assert not left & set(stock.state_dict())
    return ours, stock


def stock_logits(ours: Transformer, stock: nn.Transformer, source: Tensor, target: Tensor) -> Tensor:
    hidden_keys = source == 0  # here True hides
    hidden = stock(
        ours.source_embedding(source),
        ours.target_embedding(target),
        tgt_mask=torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1),
        src_key_padding_mask=hidden_keys,
        memory_key_padding_mask=hidden_keys,
    )
    return ours.output(hidden)


def ids() -> tuple[Tensor, Tensor, Tensor]:
    """Return source [B, S], padded on the right, decoder input and labels, both [B, T]."""
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, 11, (B, S), generator=generator)
    source[torch.arange(S) >= LENGTHS[:, None]] = 0
    target = torch.randint(4, V, (B, T + 1), generator=generator)
    target[1, 3:] = 0
    return source, target[:, :-1], target[:, 1:]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("residual", ["post", "pre"])
def test_the_stack_forward_loss_and_gradients(
    residual: Literal["post", "pre"], activation: Literal["relu", "gelu"], dtype: torch.dtype, tolerance: float
) -> None:
    ours, stock = both(residual, dtype, activation)
    source, target, labels = ids()
    logits = ours(source, target)
    expected = stock_logits(ours, stock, source, target)
    real = labels != 0
    torch.testing.assert_close(logits[real], expected[real], rtol=tolerance, atol=tolerance)

    loss, expected_loss = (
        F.cross_entropy(x.flatten(0, 1), labels.flatten(), ignore_index=0) for x in (logits, expected)
    )
    torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=tolerance)

    loss.backward()
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    ours.zero_grad()
    expected_loss.backward()
    theirs = {name: parameter.grad for name, parameter in stock.named_parameters()}
    for name, other in names(2, 3).items():
        assert isinstance(other, str)
        torch.testing.assert_close(gradients[name], theirs[other], rtol=tolerance, atol=tolerance, msg=name)
    for name, parameter in ours.named_parameters():  # what lies outside of the stock stack
        if "embedding" in name or name.startswith("output"):
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=tolerance, atol=tolerance, msg=name)


# ---- one attention -------------------------------------------------------------------------------------------------


def queries_keys_values(num_queries: int, num_keys: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    sizes = (num_queries, num_keys, num_keys)
    return tuple(torch.randn(B, H, size, 7, generator=generator) for size in sizes)  # type: ignore[return-value]


@pytest.mark.parametrize("num_keys", [11, 41])  # two products, the fused kernel
@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("case", ["everything", "mask", "causal", "bias", "bias and mask"])
def test_scaled_dot_product_attention(case: str, scale: float | None, num_keys: int) -> None:
    """Both of ours against torch's function, where that one is right: no empty row, a square triangle."""
    q, k, v = queries_keys_values(num_keys if case == "causal" else 5, num_keys)
    generator = torch.Generator().manual_seed(7)
    mask = torch.rand(B, 1, q.size(2), num_keys, generator=generator) < 0.6
    mask[..., 0] = True
    bias = torch.randn(1, H, q.size(2), num_keys, generator=generator)
    given = {
        "everything": {},
        "mask": {"attn_mask": mask},
        "causal": {"is_causal": True},
        "bias": {"attn_mask": bias},
        "bias and mask": {"attn_mask": bias.masked_fill(~mask, -math.inf)},
    }[case]
    expected = F.scaled_dot_product_attention(q, k, v, scale=scale, **given)
    our_mask = mask if "mask" in case else None
    our_bias = bias if "bias" in case else None
    fused = attend(q, k, v, our_mask, causal=case == "causal", bias=our_bias, scale=scale)
    triangle = causal_mask(num_keys, num_keys)[None, None] if case == "causal" else our_mask
    plain, _ = attend_plain(q, k, v, triangle, bias=our_bias, scale=scale)
    torch.testing.assert_close(fused, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(plain, expected, rtol=1e-6, atol=1e-6)


def test_multi_head_attention() -> None:
    """The module alone, with a mask per sentence and head; weights by listening against weights asked for."""
    stock = scramble(nn.MultiheadAttention(D, H, batch_first=True), seed=1)
    ours = MultiHeadAttention(D, H)
    ours.load_state_dict(
        {
            "qkv.weight": stock.in_proj_weight,
            "qkv.bias": stock.in_proj_bias,
            "out.weight": stock.out_proj.weight,
            "out.bias": stock.out_proj.bias,
        }
    )
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(B, S, D, generator=generator)
    allowed = torch.rand(B, H, S, S, generator=generator) < 0.5
    allowed[..., 2] = True
    expected, weights = stock(x, x, x, attn_mask=~allowed.flatten(0, 1), average_attn_weights=False)
    with watch_attention(ours) as maps:
        output = ours(x, Visibility(allowed=allowed))
    torch.testing.assert_close(output, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(maps.stacked("MultiHeadAttention"), weights, rtol=1e-6, atol=1e-6)


# ---- where the stock one is wrong ----------------------------------------------------------------------------------
# Numbers are those of the list above. Each test shows ours right and the stock one wrong: the day torch is mended the
# second half fails, and the entry leaves the list.


def attentions() -> tuple[nn.MultiheadAttention, MultiHeadAttention]:
    stock = scramble(nn.MultiheadAttention(D, H, batch_first=True), seed=1)
    ours = MultiHeadAttention(D, H)
    with torch.no_grad():
        ours.qkv.weight.copy_(stock.in_proj_weight)
        ours.qkv.bias.copy_(stock.in_proj_bias)
        ours.out.weight.copy_(stock.out_proj.weight)
        ours.out.bias.copy_(stock.out_proj.bias)
    return stock, ours


def one_empty_row() -> tuple[Tensor, Tensor]:
    """Return vectors and who may attend to whom: the third query of every sentence has nothing."""
    x = torch.randn(B, S, D, generator=torch.Generator().manual_seed(13))
    allowed = torch.ones(S, S, dtype=torch.bool)
    allowed[2] = False
    return x, allowed


def test_wrong_1_fully_masked_row_with_weights() -> None:
    stock, ours = attentions()
    x, allowed = one_empty_row()
    valid = torch.arange(S) != 2

    with watch_attention(ours):
        ours(x, Visibility(allowed=allowed))[:, valid].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters())

    output, _ = stock(x, x, x, attn_mask=~allowed, need_weights=True)
    assert output[:, 2].isnan().all()
    output[:, valid].sum().backward()
    assert stock.in_proj_weight.grad.isnan().any()


def test_wrong_2_fully_masked_row_in_evaluation() -> None:
    stock, ours = attentions()
    x, allowed = one_empty_row()
    stock.eval(), ours.eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(x, Visibility(allowed=allowed))[:, 2], ours.out.bias.expand(B, D))
        in_eval, _ = stock(x, x, x, attn_mask=~allowed, need_weights=False)
    in_training, _ = stock.train()(x, x, x, attn_mask=~allowed, need_weights=False)
    assert in_training.isfinite().all()
    assert in_eval[:, 2].isnan().all()


def test_wrong_3_causal_with_fewer_queries_than_keys() -> None:
    q, k, v = queries_keys_values(1, 5)
    visible = Visibility(causal=True)
    mask, causal = visible.resolve(1, 5, q.device)
    ours = attend(q, k, v, mask, causal=causal)
    torch.testing.assert_close(ours, attend(q, k, v))  # the newest token sees all
    stock = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(stock, v[:, :, :1])


def test_the_triangle_ends_at_the_last_key() -> None:
    """Worked by hand: the second and third of three tokens, of which the first is cached."""
    assert causal_mask(2, 3).tolist() == [[True, True, False], [True, True, True]]


def test_wrong_4_causal_is_a_hint() -> None:
    stock, ours = attentions()
    x, _ = one_empty_row()
    ours(x, Visibility(causal=True))
    with pytest.raises(RuntimeError, match="attn_mask"):
        stock(x, x, x, is_causal=True)
    window = torch.ones(S, S, dtype=torch.bool).triu(-1)  # hides only what is further back than one
    both = ours(x, Visibility(causal=True, allowed=window))
    torch.testing.assert_close(both, ours(x, Visibility(allowed=window & causal_mask(S, S))))
    hinted, _ = stock(x, x, x, attn_mask=~window, is_causal=True, need_weights=False)
    asked, _ = stock(x, x, x, attn_mask=~window, is_causal=True, need_weights=True)
    assert not torch.allclose(hinted, asked, atol=1e-3)  # one obeys the hint, the other the mask


def test_wrong_5_numbers_as_a_mask() -> None:
    stock, _ = attentions()
    x, _ = one_empty_row()
    allowed = causal_mask(S, S)
    for numbers in (allowed.float(), allowed.int(), allowed.to(torch.uint8)):
        with pytest.raises(ShapeError, match="must be boolean"):
            combine(allowed, numbers)
    _, weights = stock(x, x, x, attn_mask=allowed.float())
    assert (weights > 0).all()


def test_wrong_6_two_polarities() -> None:
    q, k, v = queries_keys_values(3, 5)
    first = torch.zeros(3, 5, dtype=torch.bool)
    first[:, 0] = True
    torch.testing.assert_close(attend(q, k, v, first[None, None]), v[:, :, :1].expand_as(q))
    shown = F.scaled_dot_product_attention(q, k, v, attn_mask=first)
    torch.testing.assert_close(shown, v[:, :, :1].expand_as(q))
    stock, _ = attentions()
    x = torch.randn(B, 5, D, generator=torch.Generator().manual_seed(17))
    _, weights = stock(x[:, :3], x, x, attn_mask=first)
    assert (weights[..., 0] == 0).all()  # the same value hides what the function shows


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_wrong_7_padded_rows_depend_on_the_mode() -> None:
    ours, stock = both("post", torch.float32)
    source, _, _ = ids()
    x = ours.source_embedding(source)

    def differs(encode: Callable[[], Tensor], module: nn.Module) -> float:
        in_training = encode()
        module.eval()
        with torch.no_grad():
            return float((encode() - in_training)[source == 0].abs().max())

    assert differs(lambda: ours.encode(source, LENGTHS), ours) == 0
    assert differs(lambda: stock.encoder(x, src_key_padding_mask=source == 0), stock.encoder) > 0.1


def test_wrong_8_a_large_negative_number_for_minus_infinity() -> None:
    q, k, v = queries_keys_values(3, 5)
    nothing = torch.zeros(1, 1, 3, 5, dtype=torch.bool)
    assert (attend(q, k, v, nothing) == 0).all()
    bias = torch.zeros(3, 5).masked_fill(~nothing[0, 0], -1e9)
    stock = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    torch.testing.assert_close(stock, v.mean(dim=2, keepdim=True).expand_as(stock), rtol=1e-5, atol=1e-5)
