"""What does a part of a model contribute? Take it away and look again: named surgeries on a built or trained model.

::

    positions         tokens become a bag                     encoder.layer:2                 a layer, dropped
    residual          the stream is cut at each sublayer      decoder.layer:3.cross           a sublayer, silenced
    scale             scores are not divided by √K            decoder.layer:3.cross.head:2    a head, switched off
    focus             attention weighs all keys alike
    cross-attention   the decoder never reads the source
    norm-order        post-norm becomes pre-norm, or the other way round

Layers and heads are counted from 1, as people do. The copy is a model like any other: it translates, trains, and is
saved where its spec can say what it has become.

Axes: D = d_model, H heads, K = D / H.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.models.classifier import SequenceClassifier
from regard.models.seq2seq import Transformer
from regard.models.specs import NoPositions
from regard.nn import (
    Embedding,
    KeysValues,
    MultiHeadAttention,
    NoResidual,
    Positions,
    PostNorm,
    PreNorm,
)
from regard.plural import plural

ModelT = TypeVar("ModelT", Transformer, SequenceClassifier)
Surgery = Callable[[Any], tuple[str, int]]
"""Changes a model in place and returns a sentence and how many parameters no longer have a say."""


@dataclass(frozen=True)
class Ablated:
    """A model that lacks something.

    Attributes:
        model: The changed copy. Its spec is changed too, where a spec can say it.
        sentence: What changed.
        idle: Parameters that are still there and have no say any more; those that are gone are seen in a ledger.
    """

    model: Any
    sentence: str
    idle: int


def ablate(model: ModelT, name: str) -> Ablated:
    """Return a copy of ``model`` without what ``name`` says; the model itself stays as it is.

    Args:
        model: Built or trained.
        name: One of :func:`ablation_names`.

    Raises:
        InputError: There is nothing of that name, or nothing to take away: the message says why.
    """
    surgeries = _surgeries(model)
    if name not in surgeries:
        raise InputError(f"nothing of the model is called {name!r}{_hint(name, surgeries)}")
    changed = copy.deepcopy(model)
    sentence, idle = surgeries[name](changed)
    return Ablated(changed, sentence, idle)


def ablation_names(model: ModelT) -> list[str]:
    """Return the names of all that :func:`ablate` can take away from ``model``, the whole before the parts."""
    return list(_surgeries(model))


def _surgeries(model: nn.Module) -> dict[str, Surgery]:
    found: dict[str, Surgery] = dict(WHOLE)
    for stack in ("encoder", "decoder"):
        if hasattr(model, stack):
            for index, layer in enumerate(getattr(model, stack).layers):
                found |= _parts(stack, index, layer)
    return found


def _parts(stack: str, index: int, layer: Any) -> Iterator[tuple[str, Surgery]]:
    """Yield the surgeries on one layer, by name."""
    name = f"{stack}.layer:{index + 1}"
    yield name, partial(_drop_layer, stack=stack, index=index)
    sublayers = {"self": "self_attention", "cross": "cross_attention", "feed-forward": "feed_forward"}
    for word, attribute in sublayers.items():
        sublayer = getattr(layer, attribute, None)
        if sublayer is None or isinstance(sublayer, Silence):
            continue
        yield f"{name}.{word}", partial(_silence, stack=stack, index=index, attribute=attribute)
        for head in range(sublayer.num_heads if isinstance(sublayer, MultiHeadAttention) else 0):
            switch_off = partial(_switch_off, stack=stack, index=index, attribute=attribute, head=head)
            yield f"{name}.{word}.head:{head + 1}", switch_off


def _hint(name: str, surgeries: Mapping[str, Surgery]) -> str:
    """Parts are many: where none is near, the whole ones are told and one part as a pattern."""
    hint = nearest(name, surgeries)
    return hint if "did you mean" in hint else f"; valid: {', '.join(WHOLE)}, and parts such as {list(surgeries)[-1]}"


# ---- the whole model -------------------------------------------------------------------------------------------------


def _no_positions(model: Any) -> tuple[str, int]:
    if isinstance(model.spec.positions, NoPositions):
        raise InputError("positions cannot be taken away: the model has none")
    kind = model.spec.positions.kind
    for module in model.modules():
        if isinstance(module, Embedding | MultiHeadAttention):
            module.positions = Positions()
    model.spec = replace(model.spec, positions=NoPositions())
    return f"No positions: the {kind} ones are gone, and what is not causal sees a bag of tokens.", 0


def _no_residual(model: Any) -> tuple[str, int]:
    joints = list(_joints(model))
    if not joints:
        raise InputError("residuals cannot be taken away: the model has none")
    for layer, name, joint in joints:
        layer.add_module(name, NoResidual(joint.norm, joint.dropout.p))
    if isinstance(model, SequenceClassifier):
        model.spec = replace(model.spec, residual="none")
    return f"No residual: the stream is cut at each of {len(joints)} sublayers, which keep their norms.", 0


def _no_scale(model: Any) -> tuple[str, int]:
    if not model.spec.scale_attention:
        raise InputError("the scale cannot be taken away: scores are not divided by √K in this model")
    width = model.spec.d_model // model.spec.num_heads
    if width == 1:
        raise InputError("the scale cannot be taken away: heads are one feature wide, so it is 1")
    for attention in _attentions(model):
        attention.scale = 1.0
    model.spec = replace(model.spec, scale_attention=False)
    return f"No scale: scores of queries and keys are {width**0.5:.3g} times as large, and attention is sharper.", 0


@torch.no_grad()
def _no_focus(model: Any) -> tuple[str, int]:
    idle = 0
    for attention in _attentions(model):
        d_model = attention.out.out_features
        # a query of zeros scores every key alike, turned or not; what is added to scores goes as well
        attention.qkv.weight[:d_model] = 0
        idle += 2 * attention.qkv.weight[:d_model].numel()
        if attention.qkv.bias is not None:
            attention.qkv.bias[:d_model] = 0
            idle += 2 * d_model
        if attention.positions.bias(1, 1) is not None:
            attention.positions = Positions()
    return "No focus: every query weighs all keys that it may see alike.", idle


def _no_cross_attention(model: Any) -> tuple[str, int]:
    if not hasattr(model, "decoder"):
        raise InputError("cross-attention cannot be taken away: the model has no decoder")
    layers = [layer for layer in model.decoder.layers if not isinstance(layer.cross_attention, Silence)]
    if not layers:
        raise InputError("cross-attention cannot be taken away: it is gone already")
    for layer in layers:
        layer.add_module("cross_attention", Silence())
    blind = plural(len(layers), "decoder layer reads", "decoder layers read")
    return f"No cross-attention: {blind} nothing of the source.", 0


def _other_norm_order(model: Any) -> tuple[str, int]:
    joints = list(_joints(model))
    if not joints:
        raise InputError("the order of norms cannot change: the model has no residuals around which they could move")
    to_pre = isinstance(joints[0][2], PostNorm)
    for layer, name, joint in joints:
        layer.add_module(name, (PreNorm if to_pre else PostNorm)(joint.norm, joint.dropout.p))
    changes: dict[str, Any] = {"residual": "pre" if to_pre else "post"}
    for stack in ("encoder", "decoder"):
        if hasattr(model, stack):
            last = getattr(model, stack)
            # a pre-norm stream is never normalised itself and wants a norm at its end; post-norm ends with one
            last.final_norm = _fresh(joints[0][2].norm) if to_pre else nn.Identity()
            changes["final_norm" if isinstance(model, SequenceClassifier) else f"{stack}_final_norm"] = to_pre
    model.spec = replace(model.spec, **changes)
    if to_pre:
        return "Pre-norm in place of post-norm, with a new norm at the end of each stack; it was not trained so.", 0
    return "Post-norm in place of pre-norm, and no norm at the end of each stack; it was not trained so.", 0


WHOLE: Mapping[str, Surgery] = {
    "positions": _no_positions,
    "residual": _no_residual,
    "scale": _no_scale,
    "focus": _no_focus,
    "cross-attention": _no_cross_attention,
    "norm-order": _other_norm_order,
}
"""What can be taken away from a model as a whole, by name."""


# ---- parts -----------------------------------------------------------------------------------------------------------


class Silence(nn.Module):
    """Stands where a sublayer was and adds nothing to the stream."""

    def forward(self, x: Float[Tensor, "B L D"], *_: Any, memory: KeysValues | None = None) -> Float[Tensor, "B L D"]:
        """Return zeros."""
        return torch.zeros_like(x)

    def keys_values(self, memory_BSD: Float[Tensor, "B S D"]) -> KeysValues:
        """Return keys and values of nothing."""
        nothing = memory_BSD.new_empty(len(memory_BSD), 1, 0, 1)
        return KeysValues(nothing, nothing)


def _drop_layer(model: Any, stack: str, index: int) -> tuple[str, int]:
    layers = getattr(model, stack).layers
    if len(layers) == 1:
        raise InputError(f"{stack}.layer:1 cannot be dropped: it is the only one of its stack")
    del layers[index]
    field = "layers" if isinstance(model, SequenceClassifier) else f"{stack}_layers"
    model.spec = replace(model.spec, **{field: len(layers)})
    return f"Layer {index + 1} of the {stack} is dropped: {plural(len(layers), 'is', 'are')} left.", 0


@torch.no_grad()
def _silence(model: Any, stack: str, index: int, attribute: str) -> tuple[str, int]:
    layer = getattr(model, stack).layers[index]
    idle = 0
    if attribute == "self_attention":  # it stays, because its cache knows how much has been read
        for parameter in layer.self_attention.out.parameters():
            parameter.zero_()
        idle = sum(parameter.numel() for parameter in layer.self_attention.parameters())
    else:
        layer.add_module(attribute, Silence())
    return f"The {attribute.replace('_', '-')} of layer {index + 1} of the {stack} adds nothing.", idle


@torch.no_grad()
def _switch_off(model: Any, stack: str, index: int, attribute: str, head: int) -> tuple[str, int]:
    attention: MultiHeadAttention = getattr(getattr(model, stack).layers[index], attribute)
    d_model = attention.out.out_features
    width = d_model // attention.num_heads
    attention.out.weight[:, head * width : (head + 1) * width] = 0
    idle = 4 * d_model * width + (0 if attention.qkv.bias is None else 3 * width)
    where = f"the {attribute.replace('_', '-')} of layer {index + 1} of the {stack}"
    return f"Head {head + 1} of {attention.num_heads} in {where} is off.", idle


def _attentions(model: nn.Module) -> Iterator[MultiHeadAttention]:
    return (module for module in model.modules() if isinstance(module, MultiHeadAttention))


def _joints(model: nn.Module) -> list[tuple[nn.Module, str, PostNorm | PreNorm]]:
    """Return each residual with the module that holds it and its name there."""
    return [
        (holder, name, part)
        for holder in model.modules()
        for name, part in holder.named_children()
        if isinstance(part, PostNorm | PreNorm)
    ]


def _fresh(norm: nn.Module) -> nn.Module:
    new = copy.deepcopy(norm)
    cast(Any, new).reset_parameters()
    return new
