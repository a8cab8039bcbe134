"""Faults in a plain encoder-decoder with a cache, where any line can be made wrong."""

from __future__ import annotations

import math
from typing import Any

import hosts
import torch
from planting import Fault, each, replace
from torch import Tensor, nn
from torch.nn import functional as F

INF = float("-inf")


def attentions(weights: Any) -> Any:
    """Return a plant that computes the weights of every attention by ``weights(q, k, mask)``."""

    def plant(model: nn.Module) -> None:
        for part in each(model, hosts.PlainAttention):
            part.weights = weights

    return plant


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def opened(mask: Tensor) -> Tensor:
    return mask | ~mask.any(dim=-1, keepdim=True)


def softmax_over_queries(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~mask, INF).softmax(dim=-2).nan_to_num()


def softmax_over_heads(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~mask, INF).softmax(dim=1).nan_to_num()


def unscaled(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).masked_fill(~opened(mask), INF).softmax(dim=-1)


def scaled_by_model_width(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / 4.0).masked_fill(~opened(mask), INF).softmax(dim=-1)  # √16 and not √8


def multiplied_by_root(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return ((q * math.sqrt(q.size(-1))) @ k.transpose(-2, -1)).masked_fill(~opened(mask), INF).softmax(dim=-1)


def minus_billion(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~mask, -1e9).softmax(dim=-1)


def masked_after(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).softmax(dim=-1) * mask


def mask_added(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return (scores(q, k) + mask.to(q)).softmax(dim=-1)


def mask_too_weak(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return (scores(q, k) - 10.0 * (~mask).to(q)).softmax(dim=-1)


def masked_with_zero(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~mask, 0.0).softmax(dim=-1)


def no_care_for_empty_rows(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q, k).masked_fill(~mask, INF).softmax(dim=-1)


def first_head_for_all(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return scores(q[:, :1], k[:, :1]).masked_fill(~opened(mask), INF).softmax(dim=-1).expand(-1, q.size(1), -1, -1)


def split_without_transpose(model: nn.Module) -> None:
    for part in each(model, hosts.PlainAttention):
        part.split = lambda x, part=part: x.reshape(x.size(0), part.heads, x.size(1), -1)


def merged_without_transpose(model: nn.Module) -> None:
    for part in each(model, hosts.PlainAttention):
        part.merge = lambda x: x.reshape(x.size(0), x.size(2), -1)


def causal(shift: int = 0, inverted: bool = False, everything: bool = False) -> Any:
    def plant(model: Any) -> None:
        def mask(new: int, old: int = 0) -> Tensor:
            open_ = torch.ones(new, old + new, dtype=torch.bool)
            return open_ if everything else ~open_.tril(old) if inverted else open_.tril(old + shift)

        model.causal_mask = mask

    return plant


def triangle_from_the_first_key(model: Any) -> None:
    model.causal_mask = lambda new, old=0: torch.ones(new, old + new, dtype=torch.bool).tril()


def source_mask_inverted(model: Any) -> None:
    model.source_mask = lambda source: (source == model.pad)[:, None, None, :]


def source_mask_on_queries(model: Any) -> None:
    replace(model, "source_mask", lambda old: lambda source: old(source).transpose(-1, -2))
    for layer in model.decoder:
        layer.cross.forward = lambda x, memory, mask, f=layer.cross.forward: f(x, memory, mask.transpose(-1, -2))


def wrong_pad_id(model: Any) -> None:
    model.source_mask = lambda source: (source != 1)[:, None, None, :]


def last_source_token_hidden(model: Any) -> None:
    def mask(source: Tensor) -> Tensor:
        real = source != model.pad
        return (real & torch.roll(real, -1, 1))[:, None, None, :]

    model.source_mask = mask


def no_mask_in(where: str) -> Any:
    def plant(model: Any) -> None:
        parts = [layer.attention for layer in model.encoder] if where == "encoder" else [x.cross for x in model.decoder]
        for part in parts[-1:]:  # one layer is enough
            replace(part, "forward", lambda old: lambda x, memory, mask: old(x, memory, torch.ones_like(mask)))

    return plant


def encoder_is_causal(model: Any) -> None:
    for layer in model.encoder:
        replace(
            layer.attention,
            "forward",
            lambda old: (
                lambda x, memory, mask: old(x, memory, mask & torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril())
            ),
        )


def positions_restart(model: Any) -> None:
    replace(model, "embed", lambda old: lambda table, ids, start=0: old(table, ids, 0))


def positions_off_by_one_in_steps(model: Any) -> None:
    replace(model, "embed", lambda old: lambda table, ids, start=0: old(table, ids, start + (start > 0)))


def positions_missing(model: Any) -> None:
    model.embed = lambda table, ids, start=0: model.dropout(table(ids) * 4.0)


def positions_along_the_batch(model: Any) -> None:
    model.embed = lambda table, ids, start=0: model.dropout(table(ids) * 4.0 + model.places[: ids.size(0), None])


def positions_from_the_end(model: Any) -> None:
    def embed(table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        places = model.places[start : start + ids.size(1)]
        return model.dropout(table(ids) * 4.0 + (places.flip(0) if table is model.source_table else places))

    model.embed = embed


def positions_skip_padding(model: Any) -> None:
    def embed(table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        pads = (ids == model.pad).sum(dim=1, keepdim=True) if table is model.source_table else 0
        places = torch.arange(ids.size(1))[None] + start + pads
        return model.dropout(table(ids) * 4.0 + model.places[places])

    model.embed = embed


def positions_saturate(model: Any) -> None:
    def embed(table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        return model.dropout(table(ids) * 4.0 + model.places[(torch.arange(ids.size(1)) + start).clamp(max=3)])

    model.embed = embed


def positions_counted_in_half(model: Any) -> None:
    def embed(table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        x = table(ids)
        steps = torch.arange(start, start + ids.size(1), dtype=x.dtype)
        rates = torch.exp(torch.arange(0, 16, 2, dtype=x.dtype) * (-math.log(10_000.0) / 16))
        angles = steps[:, None] * rates
        return model.dropout(x * 4.0 + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    model.embed = embed


def mask_of_the_first_row(model: Any) -> None:
    replace(model, "source_mask", lambda old: lambda source: old(source)[:1])


def one_token_too_many(model: Any) -> None:
    def mask(source: Tensor) -> Tensor:
        lengths = (source != model.pad).sum(dim=1)
        return (torch.arange(source.size(1)) <= lengths[:, None])[:, None, None, :]

    model.source_mask = mask


def rows_sorted_by_length(model: Any) -> None:
    replace(
        model, "encode", lambda old: lambda source: old(source[(source != model.pad).sum(1).argsort(descending=True)])
    )


def log_softmax_over_positions(model: Any) -> None:
    replace(model, "decode", lambda old: lambda *a: old(*a).log_softmax(dim=1))


def another_mask_when_exported(model: Any) -> None:
    replace(
        model,
        "source_mask",
        lambda old: lambda source: torch.ones_like(old(source)) if torch.compiler.is_exporting() else old(source),
    )


def weights_detached(model: Any) -> None:
    for part in each(model, hosts.PlainAttention):
        replace(part, "weights", lambda old: lambda q, k, mask: old(q, k, mask).detach())


def past_not_reordered(model: Any) -> None:
    model.reorder = lambda state, rows: {**state, "memory": state["memory"][rows], "mask": state["mask"][rows]}


def source_not_reordered(model: Any) -> None:
    replace(
        model,
        "reorder",
        lambda old: lambda state, rows: {**old(state, rows), "memory": state["memory"], "mask": state["mask"]},
    )


def one_layer_not_reordered(model: Any) -> None:
    def make(old: Any) -> Any:
        def reorder(state: Any, rows: Tensor) -> Any:
            new = old(state, rows)
            return {**new, "past": [*new["past"][:-1], state["past"][-1]]} if len(rows) == len(state["memory"]) else new

        return reorder

    replace(model, "reorder", make)


def past_forgotten(model: Any) -> None:
    for layer in model.decoder:
        replace(
            layer,
            "forward",
            lambda old: (
                lambda x, mask, memory, memory_mask, past=None: old(
                    x, mask if past is None else mask[:, -x.size(1) :], memory, memory_mask, None
                )
            ),
        )


def values_cached_twice(model: Any) -> None:
    for layer in model.decoder:
        replace(
            layer,
            "forward",
            lambda old: lambda *a: (lambda x, past: (x, (past[0], past[0])))(*old(*a)),
        )


def start_ignores_the_mask(model: Any) -> None:
    replace(model, "start", lambda old: lambda *a: (lambda s: {**s, "mask": torch.ones_like(s["mask"])})(old(*a)))


def no_residual(where: str) -> Any:
    def plant(model: Any) -> None:
        layer = model.decoder[0]

        def forward(x: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor, past: Any = None) -> Any:
            y = layer.norm1(x)
            k, v = layer.own.split(layer.own.k(y)), layer.own.split(layer.own.v(y))
            if past is not None:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            keep = {name: float(name != where) for name in ("own", "cross", "ff")}
            x = keep["own"] * x + layer.own.attend(layer.own.split(layer.own.q(y)), k, v, mask)
            x = keep["cross"] * x + layer.cross(layer.norm2(x), memory, memory_mask)
            return keep["ff"] * x + layer.ff(layer.norm3(x)), (k, v)

        layer.forward = forward

    return plant


def no_residual_in_the_encoder(model: Any) -> None:
    layer = model.encoder[1]

    def forward(x: Tensor, mask: Tensor) -> Tensor:
        y = layer.norm1(x)
        x = x + layer.attention(y, y, mask)
        return layer.ff(layer.norm2(x))

    layer.forward = forward


def norm_over(axis: int) -> Any:
    def plant(model: Any) -> None:
        def norm(x: Tensor) -> Tensor:
            return (x - x.mean(dim=axis, keepdim=True)) / (x.var(dim=axis, keepdim=True, unbiased=False) + 1e-5).sqrt()

        for part in each(model, hosts.PlainDecoderLayer if axis == 1 else hosts.PlainEncoderLayer):
            part.norm2.forward = lambda x, part=part: norm(x) * part.norm2.weight + part.norm2.bias

    return plant


def dropout_left_on(model: Any) -> None:
    model.dropout.forward = lambda x: F.dropout(x, 0.1, True)


def dropout_never(model: Any) -> None:
    for part in each(model, nn.Dropout):
        part.forward = lambda x: x


def tie_by_copy(model: Any) -> None:
    model.head.weight = nn.Parameter(model.target_table.weight.detach().clone())


def table_as_parameter(model: Any) -> None:
    del model.places
    model.places = nn.Parameter(hosts.sines(64, 16))


def table_as_plain_tensor(model: Any) -> None:
    del model.places
    model.places = hosts.sines(64, 16)


def weight_as_buffer(model: Any) -> None:
    weight = model.head.weight.detach().clone()
    del model.head.weight
    model.head.register_buffer("weight", weight)


def layers_in_a_list(model: Any) -> None:
    layers = list(model.decoder)
    del model.decoder
    model.decoder = layers


def one_layer_twice(model: Any) -> None:
    model.encoder[1] = model.encoder[0]


def no_activation(model: Any) -> None:
    for part in each(model, hosts.PlainFeedForward):
        part.forward = lambda x, part=part: part.down(part.up(x))


def softmax_at_the_end(model: Any) -> None:
    replace(model, "decode", lambda old: lambda *a: old(*a).softmax(dim=-1))


def memory_detached(model: Any) -> None:
    replace(model, "encode", lambda old: lambda source: old(source).detach())


def last_encoder_layer_unused(model: Any) -> None:
    model.encoder[1].forward = lambda x, mask: x


def cross_attention_cut(model: Any) -> None:
    for layer in model.decoder:
        layer.cross.forward = lambda x, memory, mask, part=layer.cross: part.o(torch.zeros_like(x))


def trained_differently(model: Any) -> None:
    for part in each(model, hosts.PlainAttention):
        replace(
            part,
            "weights",
            lambda old, part=part: lambda q, k, m: old(q * 0.5, k, m) if part.training else old(q, k, m),
        )


def another_path_without_gradient(model: Any) -> None:
    for part in each(model, hosts.PlainAttention):
        replace(
            part,
            "weights",
            lambda old: lambda q, k, m: old(q, k, m) if torch.is_grad_enabled() else old(q, k, m.new_ones(m.shape)),
        )


def remembers_its_first_source(model: Any) -> None:
    def make(old: Any) -> Any:
        kept: dict[Any, Tensor] = {}
        return lambda source: kept.setdefault(tuple(source.shape), old(source))

    replace(model, "encode", make)


def writes_into_its_input(model: Any) -> None:
    replace(model, "encode", lambda old: lambda source: old(source.clamp_(max=20)))


def squeezed(model: Any) -> None:
    replace(model, "decode", lambda old: lambda *a: old(*a).squeeze())


def scaled_by_the_batch(model: Any) -> None:
    replace(model, "encode", lambda old: lambda source: (lambda x: x / x.abs().amax())(old(source)))


def attention_over_rows(model: Any) -> None:
    for layer in model.encoder:
        replace(
            layer.attention,
            "forward",
            lambda old: (
                lambda x, memory, mask: old(
                    x.transpose(0, 1), memory.transpose(0, 1), torch.ones(1, 1, 1, 1, dtype=torch.bool)
                ).transpose(0, 1)
            ),
        )


def mean_over_padded_width(model: Any) -> None:
    replace(model, "encode", lambda old: lambda source: (lambda x: x + x.mean(dim=1, keepdim=True) * 0.1)(old(source)))


def computed_in_half(model: Any) -> None:
    for part in each(model, nn.LayerNorm):
        part.forward = lambda x, part=part: F.layer_norm(
            x.half(), (16,), part.weight.half(), part.bias.half(), 1e-12
        ).to(x)


def _all() -> list[tuple[str, Any, tuple[str, ...]]]:
    leak = ("attention_rows", "future_leak", "future_gradient")
    return [
        ("softmax over the queries", attentions(softmax_over_queries), ("attention_rows",)),
        ("softmax over the heads", attentions(softmax_over_heads), ("attention_rows",)),
        ("scale missing", attentions(unscaled), ("attention_scale",)),
        ("scaled by the model's width", attentions(scaled_by_model_width), ("attention_scale",)),
        ("multiplied by the root", attentions(multiplied_by_root), ("attention_scale",)),
        ("-1e9 in half precision", attentions(minus_billion), ("half_precision",)),
        ("masked after the softmax", attentions(masked_after), ("attention_rows",)),
        ("0/1 mask added to scores", attentions(mask_added), leak),
        ("mask too weak", attentions(mask_too_weak), leak),
        ("masked scores set to zero", attentions(masked_with_zero), leak),
        ("empty row is NaN", attentions(no_care_for_empty_rows), ("empty_row",)),
        ("one head for all", attentions(first_head_for_all), ("head_layout",)),
        ("heads split without transpose", split_without_transpose, ("head_layout",)),
        ("heads merged without transpose", merged_without_transpose, ("head_layout",)),
        ("causal mask shifted by one", causal(1), leak),
        ("causal mask hides the token itself", causal(-1), ("attention_rows",)),
        ("causal mask inverted", causal(inverted=True), ("mask_polarity",)),
        ("no causal mask", causal(everything=True), leak),
        ("triangle hangs from the first key", triangle_from_the_first_key, ("cache_equals_full",)),
        ("source mask inverted", source_mask_inverted, ("mask_polarity",)),
        ("source mask on the queries' axis", source_mask_on_queries, ("attention_rows", "source_padding")),
        ("pad id of the other side", wrong_pad_id, ("source_padding",)),
        ("last source token hidden", last_source_token_hidden, ("attention_rows", "source_used")),
        ("no mask in one cross-attention", no_mask_in("cross"), ("source_padding", "attention_rows")),
        ("no mask in one encoder layer", no_mask_in("encoder"), ("source_padding", "attention_rows")),
        ("encoder is causal", encoder_is_causal, ("attention_rows",)),
        ("positions restart under the cache", positions_restart, ("positions_under_cache",)),
        ("positions off by one under the cache", positions_off_by_one_in_steps, ("positions_under_cache",)),
        ("positions missing", positions_missing, ("order_matters",)),
        ("positions run along the batch", positions_along_the_batch, ("order_matters",)),
        ("positions counted from the padded end", positions_from_the_end, ("positions_under_padding",)),
        ("positions off by the padding", positions_skip_padding, ("positions_under_padding",)),
        ("positions the same from the fourth on", positions_saturate, ("order_matters",)),
        ("positions counted in half precision", positions_counted_in_half, ("positions_in_half",)),
        ("first row's mask for all", mask_of_the_first_row, ("attention_rows", "source_padding")),
        ("one padded token too many", one_token_too_many, ("attention_rows", "source_padding")),
        ("rows left sorted by length", rows_sorted_by_length, ("batch_mates",)),
        ("log-softmax over positions", log_softmax_over_positions, ("logits",)),
        ("another mask when exported", another_mask_when_exported, ("export",)),
        ("weights detached", weights_detached, ("gradients",)),
        ("cache not reordered", past_not_reordered, ("cache_reorder",)),
        ("source not reordered", source_not_reordered, ("cache_reorder",)),
        ("one layer's cache not reordered", one_layer_not_reordered, ("cache_reorder",)),
        ("past forgotten", past_forgotten, ("cache_equals_full",)),
        ("keys cached as values", values_cached_twice, ("cache_equals_full",)),
        ("source mask lost when decoding starts", start_ignores_the_mask, ("cache_equals_full",)),
        ("no residual around self-attention", no_residual("own"), ("residual",)),
        ("no residual around cross-attention", no_residual("cross"), ("residual",)),
        ("no residual around feed-forward", no_residual("ff"), ("residual",)),
        ("no residual in one encoder layer", no_residual_in_the_encoder, ("residual",)),
        ("norm over positions", norm_over(1), ("position_wise",)),
        ("norm over the batch", norm_over(0), ("position_wise",)),
        ("dropout left on", dropout_left_on, ("eval_deterministic",)),
        ("dropout never applied", dropout_never, ("dropout_in_training",)),
        ("tied by copying", tie_by_copy, ("tied_weights",)),
        ("table of sines trained", table_as_parameter, ("registered",)),
        ("table a plain tensor", table_as_plain_tensor, ("registered",)),
        ("weight a buffer", weight_as_buffer, ("registered",)),
        ("layers in a plain list", layers_in_a_list, ("registered",)),
        ("one layer stands twice", one_layer_twice, ("layers_distinct",)),
        ("activation missing", no_activation, ("activation",)),
        ("softmax at the end", softmax_at_the_end, ("logits",)),
        ("memory detached", memory_detached, ("gradients",)),
        ("last encoder layer unused", last_encoder_layer_unused, ("gradients",)),
        ("cross-attention sees nothing", cross_attention_cut, ("source_used",)),
        ("another scale in training", trained_differently, ("paths_agree",)),
        ("another mask without gradient", another_path_without_gradient, ("paths_agree",)),
        ("remembers its first source", remembers_its_first_source, ("stateless", "source_used")),
        ("writes into its input", writes_into_its_input, ("stateless",)),
        ("axes of length one squeezed", squeezed, ("batch_mates", "prefix")),
        ("scaled by the batch's maximum", scaled_by_the_batch, ("batch_mates",)),
        ("attention over the rows", attention_over_rows, ("batch_mates",)),
        ("mean over the padded width", mean_over_padded_width, ("source_padding", "padded_width", "position_wise")),
    ]  # fmt: skip


FAULTS = [Fault(name, "plain", hosts.PlainSeq2Seq, plant, named) for name, plant, named in _all()]
