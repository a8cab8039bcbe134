"""Faults around and inside torch.nn.Transformer."""

from __future__ import annotations

from typing import Any

import hosts
import torch
from planting import Fault, each, replace
from torch import Tensor, nn


def masks(**changed: Any) -> Any:
    """Return a plant that gives other masks: each value is made of (masks, source, target)."""

    def plant(model: Any) -> None:
        def make(old: Any) -> Any:
            def wrong(source: Tensor, target: Tensor) -> dict[str, Any]:
                right = old(source, target)
                return {**right, **{name: value(right, source, target) for name, value in changed.items()}}

            return wrong

        replace(model, "masks", make)

    return plant


def triangle(target: Tensor, diagonal: int) -> Tensor:
    return torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(diagonal)


def batch_and_sequence_exchanged(model: Any) -> None:
    for part in each(model, nn.MultiheadAttention):
        part.batch_first = False


def no_residual(layer: Any) -> None:
    def forward(x: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Tensor:
        x = layer.norm1(layer._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal))
        return layer.norm2(x + layer._ff_block(x))

    layer.forward = forward


class NormOverPositions(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) * (x.var(1, keepdim=True) + 1e-5).rsqrt() * self.weight + self.bias


def norm_over_positions(model: Any) -> None:
    model.core.decoder.layers[0].norm2 = NormOverPositions(16)


def positions_by_row(model: Any) -> None:
    model.embed = lambda table, ids: table(ids) + model.places(torch.arange(ids.size(0)))[:, None]


def no_positions_for_the_target(model: Any) -> None:
    model.embed = lambda table, ids: (
        table(ids) + (model.places(torch.arange(ids.size(1))) if table is model.source_table else 0)
    )


def linear_feed_forward(model: Any) -> None:
    for part in each(model, nn.TransformerEncoderLayer):
        part.activation = lambda x: x
        part.activation_relu_or_gelu = 0


def mean_over_padding(model: Any) -> None:
    model.forward = lambda ids: model.head(
        model.encoder(model.table(ids) + model.places[: ids.size(1)], src_key_padding_mask=ids == 0).mean(dim=1)
    )


def last_column(model: Any) -> None:
    model.forward = lambda ids: model.head(
        model.encoder(model.table(ids) + model.places[: ids.size(1)], src_key_padding_mask=ids == 0)[:, -1]
    )


def dropout_left_on(model: Any) -> None:
    for part in each(model, nn.Dropout):
        part.train = lambda mode=True: None
        part.training = True


def eval_forgotten_inside(model: Any) -> None:
    for layer in model.core.encoder.layers:
        replace(layer, "forward", lambda old, layer=layer: lambda *a, **k: (layer.train(), old(*a, **k))[1])


def weight_frozen_out(model: Any) -> None:
    replace(model.core.decoder, "forward", lambda old: lambda y, memory, **k: old(y, memory.detach(), **k))


def masks_of_the_wrong_side(right: Any, source: Tensor, target: Tensor) -> Tensor:
    return target == 0


def zero_one(right: Any, source: Tensor, target: Tensor) -> Tensor:
    return torch.ones(target.size(1), target.size(1)).tril().to(torch.get_default_dtype())


def _all() -> list[tuple[str, str, Any, tuple[str, ...]]]:
    leak = ("attention_rows", "future_leak", "future_gradient")
    padding = ("source_padding", "attention_rows")
    s, e = "torch", "torch encoder"
    inverted = {
        name: lambda m, source, target: source != 0 for name in ("src_key_padding_mask", "memory_key_padding_mask")
    }
    return [
        ("padding mask inverted", s, masks(**inverted), ("mask_polarity",)),
        ("causal mask inverted", s, masks(tgt_mask=lambda m, x, y: ~triangle(y, 1)), ("mask_polarity",)),
        ("no causal mask", s, masks(tgt_mask=lambda m, x, y: None), leak),
        ("causal mask shifted by one", s, masks(tgt_mask=lambda m, x, y: triangle(y, 2)), leak),
        ("causal mask hides the token itself", s, masks(tgt_mask=lambda m, x, y: triangle(y, 0)), ("attention_rows",)),
        ("0/1 mask added to scores", s, masks(tgt_mask=zero_one), leak),
        ("no mask in cross-attention", s, masks(memory_key_padding_mask=lambda *_: None), padding),
        ("no mask in the encoder", s, masks(src_key_padding_mask=lambda *_: None), padding),
        ("target's mask on the source", s, masks(memory_key_padding_mask=masks_of_the_wrong_side), ("runs",)),
        ("pad id of the other side", s, masks(src_key_padding_mask=lambda m, x, y: x == 1), padding),
        ("batch and sequence exchanged", s, batch_and_sequence_exchanged, ("runs", "batch_mates")),
        ("residual dropped", s, lambda m: no_residual(m.core.encoder.layers[1]), ("residual",)),
        ("norm over positions", s, norm_over_positions, ("position_wise",)),
        ("positions by row", s, positions_by_row, ("order_matters",)),
        ("no positions for the target", s, no_positions_for_the_target, ("order_matters",)),
        ("activation missing", s, linear_feed_forward, ("activation",)),
        ("dropout left on", s, dropout_left_on, ("eval_deterministic",)),
        ("eval forgotten inside", s, eval_forgotten_inside, ("eval_deterministic", "stateless")),
        ("memory detached", s, weight_frozen_out, ("gradients",)),
        ("mean over padding", e, mean_over_padding, ("source_padding", "padded_width")),
        ("last column read out", e, last_column, ("source_padding", "padded_width")),
        ("residual dropped", e, lambda m: no_residual(m.encoder.layers[0]), ("residual",)),
    ]


_MAKE = {"torch": hosts.TorchSeq2Seq, "torch encoder": hosts.TorchEncoder}
FAULTS = [Fault(name, host, _MAKE[host], plant, named) for name, host, plant, named in _all()]
