"""Faults in Regard's own model, in a rotary decoder, and in losses."""

from __future__ import annotations

import math
from typing import Any

import hosts
import torch
from correct import objective
from planting import Fault, each, replace
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.specs import Dropout, Learned, RelativeBias, Rotary
from regard.nn import MultiHeadAttention, Visibility

# ---- Regard's encoder-decoder ----------------------------------------------------------------------------------------


def unscaled(model: Any) -> None:
    for part in each(model, MultiHeadAttention):
        part.scale = 1.0


def merged_wrongly(model: Any) -> None:
    for part in each(model.decoder, MultiHeadAttention):
        part.merge_heads = lambda x: x.reshape(x.size(0), x.size(2), -1)


def split_wrongly(model: Any) -> None:
    for part in each(model.encoder, MultiHeadAttention):
        part.split_heads = lambda x, n, part=part: tuple(
            y.reshape(x.size(0), part.num_heads, x.size(1), -1) for y in x.chunk(n, dim=-1)
        )


def not_causal(model: Any) -> None:
    for layer in model.decoder.layers[-1:]:
        replace(
            layer.self_attention,
            "forward",
            lambda old: lambda x, visible, **k: old(x, Visibility() if k.get("cache") is None else visible, **k),
        )


def offset_ignored(model: Any) -> None:
    for part in model.target_embedding.modules():
        if hasattr(part, "embed"):
            replace(part, "embed", lambda old: lambda x, offset=0: old(x, 0))


def rotary_offset_ignored(model: Any) -> None:
    for part in each(model.decoder, "Rotary"):
        replace(part, "rotate", lambda old: lambda x, offset=0: old(x, 0))


def bias_offset_ignored(model: Any) -> None:
    for part in each(model.decoder, "RelativeBias"):
        replace(part, "bias", lambda old: lambda q, k, offset=0: old(q, k, 0))


def reorder_forgotten(model: Any) -> None:
    model.reorder = lambda state, rows: state


def memory_unmasked(model: Any) -> None:
    for layer in model.decoder.layers:
        replace(layer.cross_attention, "forward", lambda old: lambda x, visible, **k: old(x, Visibility(), **k))


def untied(model: Any) -> None:
    model.output.weight = nn.Parameter(model.output.weight.detach() + 0.01)


def rms_over_positions(model: Any) -> None:
    part = model.encoder.layers[0].self_residual.norm
    part.forward = lambda x: F.layer_norm(x.transpose(1, 2), (x.size(1),)).transpose(1, 2) * part.weight


def embedding_table_of_the_other_side(model: Any) -> None:
    replace(model.source_embedding, "forward", lambda old: lambda x, *a: old(x, *a).detach())


def classifier_mean_ignores_lengths(model: Any) -> None:
    model.readout.forward = lambda x, lengths=None: x.mean(dim=1)


def classifier_mask_dropped(model: Any) -> None:
    replace(model.encoder, "forward", lambda old: lambda x, visible=None: old(x))


# ---- a decoder alone -------------------------------------------------------------------------------------------------


def keys_not_turned(model: Any) -> None:
    for part in each(model, hosts.RotaryLayer):
        part.attend = lambda q, k, v, part=part: F.scaled_dot_product_attention(
            q, turned_back(part, k), v, is_causal=True
        )


def turned_back(part: Any, k: Tensor) -> Tensor:
    half = k.size(-1) // 2
    angles = -torch.arange(k.size(2))[:, None] * 10_000.0 ** (-torch.arange(half) / half)
    cos, sin = angles.cos().to(k), angles.sin().to(k)
    a, b = k.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def keys_of_another_layout(model: Any) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k = torch.stack(k.chunk(2, dim=-1), dim=-1).flatten(-2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    for part in each(model, hosts.RotaryLayer):
        part.attend = attend


def decoder(attend: Any) -> Any:
    def plant(model: Any) -> None:
        for part in each(model, hosts.RotaryLayer):
            part.attend = attend

    return plant


def all_seen(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def unscaled_fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)


def scaled_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q / math.sqrt(q.size(-1)), k, v, is_causal=True)


def dropout_in_the_kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)


# ---- losses ----------------------------------------------------------------------------------------------------------


def _cross_entropy(labels: str, *, ignore: int = 0, smoothing: float = 0.0, reduction: str = "mean") -> Any:
    def loss(model: Any, batch: Any) -> Tensor:
        logits = model(batch.source, batch.target_in)
        earlier = F.pad(batch.target_in[:, :-1], (1, 0))
        later = F.pad(batch.target_out[:, 1:], (0, 1))
        wanted = {"same": batch.target_in, "next": batch.target_out, "late": later, "early": earlier}[labels]
        return F.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=ignore, label_smoothing=smoothing, reduction=reduction
        )

    return loss


def smoothing_over_pads(model: Any, batch: Any) -> Tensor:
    log_p = model(batch.source, batch.target_in).log_softmax(-1)
    plain = -log_p.gather(-1, batch.target_out[..., None])[..., 0]
    real = batch.target_out != 0
    return (0.9 * plain[real].sum() - 0.1 * log_p.mean(-1).sum()) / real.sum()


def mean_of_means(model: Any, batch: Any) -> Tensor:
    rows = range(len(batch.source))
    loss = _cross_entropy("next")
    return torch.stack([loss(model, batch.rows([i])) for i in rows]).mean()


def mean_over_the_width(model: Any, batch: Any) -> Tensor:
    return _cross_entropy("next", reduction="sum")(model, batch) / batch.target_out.numel()


def softmax_twice(model: Any, batch: Any) -> Tensor:
    p = model(batch.source, batch.target_in).softmax(dim=-1)
    return F.cross_entropy(p.flatten(0, 1), batch.target_out.flatten(), ignore_index=0)


def divided_by_rows(model: Any, batch: Any) -> Tensor:
    return _cross_entropy("next", reduction="sum")(model, batch) / len(batch.source)


def pads_counted(model: Any, batch: Any) -> Any:
    return objective(model, batch)[0], batch.target_out.numel()


def _losses() -> list[tuple[str, Any, tuple[str, ...]]]:
    return [
        ("labels not shifted", _cross_entropy("same"), ("label_shift",)),
        ("labels shifted twice", _cross_entropy("late"), ("label_shift",)),
        ("labels shifted the wrong way", _cross_entropy("early"), ("label_shift",)),
        ("softmax of a softmax", softmax_twice, ("loss_of_logits",)),
        ("divided by the rows", divided_by_rows, ("loss_average",)),
        ("padding in the loss", _cross_entropy("next", ignore=-100), ("loss_ignores_padding",)),
        (
            "padding in the loss, smoothed",
            _cross_entropy("next", ignore=-100, smoothing=0.1),
            ("loss_ignores_padding",),
        ),
        ("smoothing over padding", smoothing_over_pads, ("smoothing_ignores_padding",)),
        ("mean of means", mean_of_means, ("loss_average",)),
        ("mean over the padded width", mean_over_the_width, ("loss_average", "loss_ignores_padding")),
        ("padding counted", pads_counted, ("loss_average",)),
    ]


def _regard() -> list[tuple[str, dict[str, Any], Any, tuple[str, ...]]]:
    leak = ("attention_rows", "future_leak", "future_gradient")
    return [
        ("scale missing", {}, unscaled, ("attention_scale",)),
        ("heads merged without transpose", {}, merged_wrongly, ("head_layout",)),
        ("heads split without transpose", {}, split_wrongly, ("head_layout",)),
        ("one layer not causal", {}, not_causal, leak),
        ("positions restart under the cache", {"positions": Learned()}, offset_ignored, ("positions_under_cache",)),
        ("rotary positions restart", {"positions": Rotary()}, rotary_offset_ignored, ("positions_under_cache",)),
        ("relative bias restarts", {"positions": RelativeBias()}, bias_offset_ignored, ("positions_under_cache",)),
        ("cache not reordered", {}, reorder_forgotten, ("cache_reorder",)),
        ("no mask in cross-attention", {}, memory_unmasked, ("source_padding", "attention_rows")),
        ("tied weights come apart", {"tie": "target"}, untied, ("tied_weights",)),
        ("norm over positions", {"residual": "pre"}, rms_over_positions, ("position_wise",)),
        ("source table cut off", {}, embedding_table_of_the_other_side, ("gradients",)),
    ]


FAULTS = [
    *(
        Fault(name, "regard", lambda options=options: hosts.regard(**options), plant, named)
        for name, options, plant, named in _regard()
    ),
    Fault("readout ignores lengths", "regard classifier", hosts.regard_classifier, classifier_mean_ignores_lengths,
          ("source_padding", "padded_width")),
    Fault("mask dropped", "regard classifier", hosts.regard_classifier, classifier_mask_dropped,
          ("source_padding", "attention_rows")),
    *(
        Fault(name, "rotary decoder", hosts.RotaryDecoder, plant, named)
        for name, plant, named in (
            ("keys not turned", keys_not_turned, ("relative_positions",)),
            ("keys turned in another layout", keys_of_another_layout, ("relative_positions",)),
            ("no causal mask", decoder(all_seen), ("attention_rows", "future_leak", "future_gradient")),
            ("scale missing", decoder(unscaled_fused), ("attention_scale",)),
            ("scaled twice", decoder(scaled_twice), ("attention_scale",)),
            ("dropout in the kernel", decoder(dropout_in_the_kernel), ("eval_deterministic",)),
        )
    ),
    *(
        Fault(name, "regard", lambda: hosts.regard(dropout=Dropout(0.0, 0.0, 0.0, 0.0)), lambda model: None, named,
              {"loss": loss})
        for name, loss, named in _losses()
    ),
]  # fmt: skip
