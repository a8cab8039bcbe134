"""How Hugging Face models are called; the package itself is never imported.

Axes: B rows, S source, T target, L tokens fed at once, V vocabulary.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.verification.adapter import Adapter, Decoding, Forward
from regard.verification.inputs import Inputs, Tokens

_UNSCALED = {"t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano", "udop", "gpt_neo"}
"""Families whose scores are not divided by √K; their initial weights make up for it."""


def recognised(module: nn.Module) -> bool:
    """Return whether ``module`` is called as Hugging Face models are."""
    return hasattr(module, "config") and "input_ids" in parameters_of(module)


def parameters_of(module: nn.Module) -> Mapping[str, inspect.Parameter]:
    """Return the arguments of a module's forward, or of its class's where the module's own takes anything."""
    own = inspect.signature(module.forward).parameters
    if all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in own.values()):
        return dict(list(inspect.signature(type(module).forward).parameters.items())[1:])
    return own


def logits_of(output: Any) -> Tensor:
    """Return the logits, or hidden states, in what a model returned.

    Raises:
        InputError: there are none.
    """
    for name in ("logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(found, Tensor):
            return found
    if isinstance(output, Mapping):
        output = tuple(output.values())
    while isinstance(output, tuple | list) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise InputError(f"the module returned {type(output).__name__}, in which there are no logits; give an adapter")
    return output


def adapt(module: Any, kind: Literal["encoder-decoder", "decoder", "encoder"] | None) -> Adapter:
    """Return how to call a Hugging Face model."""
    config = module.config
    name = type(module).__name__
    if kind is None:
        causal = any(word in name for word in ("CausalLM", "LMHead", "DoubleHeads"))
        kind = "decoder" if causal else "encoder"
        if "decoder_input_ids" in parameters_of(module):
            kind = "encoder-decoder"
    size = getattr(config, "vocab_size", None) or module.get_input_embeddings().num_embeddings
    pad, bos, eos, first = (_id(config, f"{key}_token_id", size) for key in ("pad", "bos", "eos", "decoder_start"))
    special = tuple(i for i in (bos, eos, first) if i is not None)
    side = Tokens(size, pad=0 if pad is None else pad, special=special)
    target = Tokens(size, pad=side.pad, start=bos if first is None else first, special=special)

    calls: Mapping[str, Forward] = {
        "encoder-decoder": _encoder_decoder,
        "decoder": _decoder,
        "encoder": _encoder,
    }
    forward = calls[kind]
    return Adapter(
        forward,
        source=None if kind == "decoder" else side,
        target=None if kind == "encoder" else target,
        # Their classifiers look for the pad id to find the last real token, whatever the mask says.
        padding="ids" if kind == "encoder" and name.endswith("Classification") else "lengths",
        decoding=None if kind == "encoder" else _decoding(module, kind),
        paths=_paths(module, forward),
        loss=_loss if kind != "encoder" and "labels" in parameters_of(module) else None,
        attention_scale=_scale(config),
        causal_source=None if kind == "encoder" and _has_decoder(module) else False,
        tied=_tied(module),
        unused=() if name.endswith(("Classification", "Choice")) else ("*pooler.*",),
        rebuild=lambda: type(module)(config),
        described=f"{name}, a Hugging Face {kind}",
    )


def _id(config: Any, key: str, size: int) -> int | None:
    """Return a special id, if the configuration has it and it lies in the vocabulary."""
    value = getattr(config, key, None)
    return value if isinstance(value, int) and 0 <= value < size else None


def _no_cache(module: Any) -> dict[str, Any]:
    return {"use_cache": False} if "use_cache" in parameters_of(module) else {}


def _encoder_decoder(module: Any, x: Inputs) -> Tensor:
    return logits_of(module(**_both(x), use_cache=False))


def _both(x: Inputs) -> dict[str, Tensor]:
    return {
        "input_ids": x.side("source"),
        "attention_mask": x.real("source").long(),
        "decoder_input_ids": x.side("target"),
        "decoder_attention_mask": x.real("target").long(),
    }


def _decoder(module: Any, x: Inputs) -> Tensor:
    return logits_of(module(input_ids=x.side("target"), attention_mask=x.real("target").long(), **_no_cache(module)))


def _encoder(module: Any, x: Inputs) -> Tensor:
    return logits_of(module(input_ids=x.side("source"), attention_mask=x.real("source").long()))


def _loss(module: Any, x: Inputs) -> Tensor:
    if x.source is None:  # the model moves the labels itself
        labels = x.side("target").masked_fill(~x.real("target"), -100)
        given = {"input_ids": x.side("target"), "attention_mask": x.real("target").long()}
    else:
        assert x.target_out is not None
        labels = x.target_out.masked_fill(~x.real("target"), -100)
        given = _both(x)
    loss: Tensor = module(**given, labels=labels).loss
    return loss


def _decoding(module: Any, kind: str) -> Decoding:
    parameters = parameters_of(module)
    cache = "cache" if "cache" in parameters else "past_key_values"

    def start(model: Any, x: Inputs) -> Any:
        if kind == "decoder":
            return {}
        mask = x.real("source").long()
        return {
            "encoder_outputs": model.get_encoder()(input_ids=x.side("source"), attention_mask=mask),
            "attention_mask": mask,
        }

    def extend(model: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        ids = {"input_ids" if kind == "decoder" else "decoder_input_ids": tokens}
        output = model(**state, **ids, use_cache=True)
        return logits_of(output), {**state, cache: output.past_key_values}

    def reorder(model: Any, state: Any, rows: Tensor) -> Any:
        state = dict(state)
        if kind != "decoder":
            encoded = state["encoder_outputs"]
            state["encoder_outputs"] = type(encoded)(last_hidden_state=encoded.last_hidden_state[rows])
            state["attention_mask"] = state["attention_mask"][rows]
        state[cache].reorder_cache(rows)
        return state

    return Decoding(start, extend, reorder)


def _paths(module: Any, forward: Forward) -> dict[str, Forward]:
    """Return the other implementation of attention, where the model lets it be chosen."""
    present = getattr(module.config, "_attn_implementation", None)
    other = {"sdpa": "eager", "eager": "sdpa"}.get(present or "")
    if other is None or not hasattr(module, "set_attn_implementation"):
        return {}

    def switched(model: Any, x: Inputs) -> Tensor:
        model.set_attn_implementation(other)
        try:
            return forward(model, x)
        finally:
            model.set_attn_implementation(present)

    return {f"{other} attention": switched}


def _scale(config: Any) -> float | Literal["any"] | None:
    if config.model_type in _UNSCALED or getattr(config, "scale_attn_weights", True) is False:
        return 1.0
    if getattr(config, "scale_attn_by_inverse_layer_idx", False):
        return "any"
    for name, power in (("query_pre_attn_scalar", -0.5), ("attention_multiplier", 1)):
        if (value := getattr(config, name, None)) is not None:
            return float(value**power)
    return None


def _has_decoder(module: nn.Module) -> bool:
    """Return whether the family of ``module`` has a causal language model, so that its encoder may be one."""
    names = vars(sys.modules.get(type(module).__module__) or torch)
    return any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names)


def _tied(module: Any) -> tuple[tuple[str, ...], ...]:
    keys = getattr(module, "_tied_weights_keys", None)
    if not getattr(module.config, "tie_word_embeddings", False) or not isinstance(keys, Mapping):
        return ()
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return tuple((of, tied) for tied, of in keys.items() if of in names and tied in names)
