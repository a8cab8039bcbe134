"""Faults in Hugging Face models built from configurations."""

from __future__ import annotations

from typing import Any

import hosts
import torch
from planting import Fault, each, replace
from torch import Tensor, nn
from torch.nn import functional as F


def without_mask(kind: str, where: str) -> Any:
    """Return a plant that opens the mask of every attention of a class whose path has ``where`` in it."""

    def plant(model: Any) -> None:
        for path, part in model.named_modules():
            if type(part).__name__ == kind and where in path:
                name = "attention_mask" if kind != "T5Attention" else "mask"
                replace(
                    part, "forward", lambda old, name=name: lambda *a, **k: old(*a, **{**k, name: opened(k.get(name))})
                )

    return plant


def opened(mask: Tensor | None) -> Tensor | None:
    if mask is None:
        return None
    return torch.ones_like(mask) if mask.dtype == torch.bool else torch.zeros_like(mask)


def inverted(mask: Tensor | None) -> Tensor | None:
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return ~mask
    return torch.where(mask < 0, 0.0, torch.finfo(mask.dtype).min).to(mask)


def mask_inverted(kind: str, where: str) -> Any:
    def plant(model: Any) -> None:
        for path, part in model.named_modules():
            if type(part).__name__ == kind and where in path:
                replace(
                    part,
                    "forward",
                    lambda old: lambda *a, **k: old(*a, **{**k, "attention_mask": inverted(k.get("attention_mask"))}),
                )

    return plant


def unscaled(model: Any) -> None:
    for part in model.modules():
        if hasattr(part, "scaling"):
            part.scaling = 1.0


def bart_positions_restart(model: Any) -> None:
    part = model.model.decoder.embed_positions
    replace(part, "forward", lambda old: lambda ids, *a, **k: old(ids, 0))


def t5_bias_restarts(model: Any) -> None:
    for part in each(model.decoder, "T5Attention"):
        if part.has_relative_attention_bias:
            replace(
                part,
                "compute_bias",
                lambda old: lambda q, k, device=None, **_: old(k, k, device=device, past_seen_tokens=0)[:, :, :q],
            )


def t5_norm_over_positions(model: Any) -> None:
    part = next(iter(each(model.encoder, "T5LayerNorm")))
    part.forward = lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * part.weight


def t5_no_residual(model: Any) -> None:
    part = next(iter(each(model.decoder, "T5LayerFF")))
    part.forward = lambda x: part.DenseReluDense(part.layer_norm(x))


def untied(model: Any) -> None:
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())


def gpt2_no_positions(model: Any) -> None:
    replace(model.transformer.wpe, "forward", lambda old: lambda ids: old(torch.zeros_like(ids)))


def gpt2_linear(model: Any) -> None:
    for part in each(model, "GPT2MLP"):
        part.act = nn.Identity()


def llama_positions_restart(model: Any) -> None:
    replace(
        model.model.rotary_emb,
        "forward",
        lambda old: lambda x, position_ids, **k: old(x, position_ids - position_ids.min(), **k),
    )


def llama_no_residual(model: Any) -> None:
    layer = model.model.layers[1]
    replace(
        layer,
        "forward",
        lambda old: lambda x, *a, **k: old(x, *a, **k) - kept["x"],
    )
    kept: dict[str, Tensor] = {}
    layer.post_attention_layernorm.register_forward_pre_hook(lambda _m, args: kept.update(x=args[0]))


def dropout_left_on(model: Any) -> None:
    for part in model.modules():
        if hasattr(part, "activation_fn"):
            replace(part.activation_fn, "forward", lambda old: lambda x: F.dropout(old(x), 0.1, True))


def encoder_of_decoding_unmasked(model: Any) -> None:
    replace(model, "get_encoder", lambda old: lambda: _Unmasked(old()))


class _Unmasked:
    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def __call__(self, **given: Any) -> Any:
        return self.encoder(**{**given, "attention_mask": None})


def bert_first_pad(model: Any) -> None:
    replace(model.bert, "forward", lambda old: lambda *a, **k: old(*a, **{**k, "attention_mask": None}))


def rms_without_float(model: Any) -> None:
    for part in each(model, "LlamaRMSNorm"):
        part.forward = lambda x, part=part: (
            part.weight * x / (x.pow(2).sum(dim=(0, 2), keepdim=True) / 48 + 1e-6).sqrt()
        )


def marian_encoder_causal(model: Any) -> None:
    for part in model.model.encoder.layers:
        replace(part.self_attn, "forward", lambda old: lambda h, **k: old(h, **{**k, "attention_mask": triangle(h)}))


def triangle(h: Tensor) -> Tensor:
    n = h.size(1)
    return torch.zeros(1, 1, n, n, dtype=h.dtype).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf)


def cross_ignored(model: Any) -> None:
    for layer in model.model.decoder.layers:
        replace(layer.encoder_attn, "forward", lambda old: lambda *a, **k: (torch.zeros_like(old(*a, **k)[0]), None))


def positions_never_advance_in_encoder(model: Any) -> None:
    part = model.model.encoder.embed_positions
    replace(part, "forward", lambda old: lambda *a, **k: old(*a, **k).narrow(-2, 0, 1))


def reorder_forgotten(model: Any) -> None:
    """The cache's own reordering is HF's; a decoder that hides it is the fault: its cache copies itself untouched."""
    replace(
        model,
        "forward",
        lambda old: lambda *a, **k: _pin(old(*a, **k)),
    )


def _pin(output: Any) -> Any:
    cache = getattr(output, "past_key_values", None)
    if cache is not None:
        cache.reorder_cache = lambda rows: None
    return output


def _all() -> list[tuple[str, str, Any, tuple[str, ...]]]:
    leak = ("attention_rows", "future_leak", "future_gradient")
    padding = ("source_padding", "attention_rows")
    return [
        ("scale missing", "BART", unscaled, ("attention_scale",)),
        ("no causal mask", "BART", without_mask("BartAttention", "decoder.layers.0.self_attn"), leak),
        ("padding mask inverted", "BART", mask_inverted("BartAttention", "encoder.layers"), ("mask_polarity",)),
        ("positions restart under the cache", "BART", bart_positions_restart, ("positions_under_cache",)),
        ("dropout left on", "BART", dropout_left_on, ("eval_deterministic",)),
        ("source mask lost when decoding starts", "BART", encoder_of_decoding_unmasked, ("cache_equals_full",)),
        ("cross-attention ignored", "BART", cross_ignored, ("source_used",)),
        ("cache not reordered", "BART", reorder_forgotten, ("cache_reorder",)),
        ("no mask in cross-attention", "Marian", without_mask("MarianAttention", "encoder_attn"), padding),
        ("no mask in the encoder", "Marian", without_mask("MarianAttention", "encoder.layers.1.self_attn"), padding),
        ("encoder is causal", "Marian", marian_encoder_causal, ("attention_rows",)),
        ("same position everywhere in the encoder", "Marian", positions_never_advance_in_encoder, ("order_matters",)),
        ("tied weights come apart", "Marian", untied, ("tied_weights",)),
        ("relative bias restarts under the cache", "T5", t5_bias_restarts, ("positions_under_cache",)),
        ("norm over positions", "T5", t5_norm_over_positions, ("position_wise",)),
        ("residual dropped", "T5", t5_no_residual, ("residual",)),
        ("tied weights come apart", "T5", untied, ("tied_weights",)),
        ("positions missing", "GPT-2", gpt2_no_positions, ("order_matters",)),
        ("activation missing", "GPT-2", gpt2_linear, ("activation",)),
        ("scale missing", "GPT-2", unscaled, ("attention_scale",)),
        ("rotary positions restart under the cache", "Llama", llama_positions_restart, ("positions_under_cache",)),
        ("residual dropped", "Llama", llama_no_residual, ("residual",)),
        ("norm over the batch", "Llama", rms_without_float, ("position_wise", "batch_mates")),
        ("padding mask dropped", "BERT", bert_first_pad, padding),
    ]


_MAKE = {
    "BART": hosts.bart,
    "Marian": hosts.marian,
    "T5": hosts.t5,
    "GPT-2": hosts.gpt2,
    "Llama": hosts.llama,
    "BERT": hosts.bert,
}
FAULTS = [Fault(name, f"Hugging Face {host}", _MAKE[host], plant, named) for name, host, plant, named in _all()]
