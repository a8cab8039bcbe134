"""How does each kind of module tell its attention weights, without changing a bit of what it computes?

Axes: B batch, H heads, Lq queries, Lk keys, K width of a head, E width of the model.

::

    module                                  how it is heard
    has .listen (protocols.Listened)        it computes the weights itself, for whoever listens
    torch.nn.MultiheadAttention             weights computed aside from the inputs of its forward
    torch.nn.TransformerEncoderLayer        the same: its fast path never calls the attention inside
    subtree with none of the above          its calls of scaled_dot_product_attention are overheard, and so is each
                                            softmax over the last of four axes, which is attention written by hand

Weights are those before dropout. A query that may attend to nothing has a row of zeros (a softmax written by hand keeps
what it gives).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.errors import InputError
from regard.protocols import Listened

Hear = Callable[[str, Tensor], None]
"""Told the path of an attention and its weights, [B, H, Lq, Lk], at each of its forwards."""


def attach(model: nn.Module, hear: Hear) -> ExitStack:
    """Listen to every attention inside ``model`` until the returned stack is closed.

    Raises:
        InputError: ``model`` is no module.
    """
    refuse_no_module(model)
    listening = ExitStack()
    speaking: list[nn.Module] = []
    try:
        _attach(model, "", hear, listening, speaking)
    except BaseException:
        listening.close()
        raise
    return listening


def refuse_no_module(model: object) -> None:
    """Raise InputError unless ``model`` is one that can be looked into."""
    if not isinstance(model, nn.Module):
        inside = ", such as its `.model`" if isinstance(getattr(model, "model", None), nn.Module) else ""
        raise InputError(f"what is watched must be a torch.nn.Module{inside}, but is of type {type(model).__name__}")


def softmax_weights(
    q: Float[Tensor, "*rows Lq K"],
    k: Float[Tensor, "*rows Lk K"],
    *,
    bias: Float[Tensor, "..."] | None = None,
    allowed: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "*rows Lq Lk"]:
    """Return softmax(q kᵀ · scale + bias) over the allowed keys, in float32 ("Attention Is All You Need", equation 1).

    ``bias`` and ``allowed`` (True = may attend) broadcast to the scores; ``scale`` is 1/√K unless given.
    """
    scores = q.float() @ k.float().transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias.float()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    nowhere = (scores == float("-inf")).all(dim=-1, keepdim=True)
    return scores.softmax(dim=-1).masked_fill(nowhere, 0.0)


def _attach(module: nn.Module, path: str, hear: Hear, listening: ExitStack, speaking: list[nn.Module]) -> None:
    """Listen inside ``module``; ``speaking`` are the modules that tell by themselves and are running now."""
    name = path or type(module).__name__
    if isinstance(module, Listened):
        listening.callback(module.listen(lambda weights: hear(name, weights)))
        _note_when_running(module, speaking, listening)
    elif isinstance(module, nn.MultiheadAttention):
        _listen_to_multihead(module, name, hear, listening)
    elif isinstance(module, nn.TransformerEncoderLayer):
        _listen_to_encoder_layer(module, path, hear, listening)
    elif any(isinstance(part, Listened | nn.MultiheadAttention) for part in module.modules()):
        for child_name, child in module.named_children():
            _attach(child, f"{path}.{child_name}" if path else child_name, hear, listening, speaking)
    else:
        _overhear(module, path, hear, listening, speaking)


def _note_when_running(module: nn.Module, running: list[nn.Module], listening: ExitStack) -> None:
    before = module.register_forward_pre_hook(lambda _module, _args: running.append(module))
    after = module.register_forward_hook(lambda _module, _args, _output: running.remove(module), always_call=True)
    listening.callback(before.remove)
    listening.callback(after.remove)


# ---- torch.nn ------------------------------------------------------------------------------------------------------
# A forward hook would do, were it not that torch leaves its inference fast path as soon as a module has hooks, and the
# two paths differ in their last bits. A forward that the instance carries itself is not noticed.


def _wrap_forward(module: nn.Module, after: Callable[..., None], listening: ExitStack) -> None:
    """Call ``after`` with the arguments of each forward of ``module``, once it has returned."""
    own = vars(module).get("forward")
    forward = module.forward

    @wraps(forward)  # so that its arguments keep their names
    def forward_and_tell(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        with torch.no_grad():
            after(*args, **kwargs)
        return output

    def restore() -> None:
        del module.forward
        if own is not None:
            module.forward = own

    module.forward = forward_and_tell
    listening.callback(restore)


def _listen_to_multihead(module: nn.MultiheadAttention, name: str, hear: Hear, listening: ExitStack) -> None:
    def after(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,  # a hint about attn_mask, which says the same
    ) -> None:
        hear(name, _multihead_weights(module, query, key, key_padding_mask, attn_mask))

    _wrap_forward(module, after, listening)


def _listen_to_encoder_layer(layer: nn.TransformerEncoderLayer, path: str, hear: Hear, listening: ExitStack) -> None:
    attention = layer.self_attn
    name = f"{path}.self_attn" if path else "self_attn"
    spoke = False

    def heard(_: str, weights: Tensor) -> None:
        nonlocal spoke
        spoke = True
        hear(name, weights)

    def after(
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> None:
        nonlocal spoke
        if not spoke:  # the fast path went around the attention's forward
            if src.is_nested:  # rows without their padding: nn.TransformerEncoder makes them from the padding mask
                lengths = torch.tensor([row.shape[0] for row in src.unbind()], device=src.device)
                src = src.to_padded_tensor(0.0)
                src_key_padding_mask = torch.arange(src.shape[1], device=src.device) >= lengths[:, None]
            x = layer.norm1(src) if layer.norm_first else src
            hear(name, _multihead_weights(attention, x, x, src_key_padding_mask, src_mask))
        spoke = False

    _listen_to_multihead(attention, name, heard, listening)
    _wrap_forward(layer, after, listening)


def _multihead_weights(
    module: nn.MultiheadAttention,
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> Float[Tensor, "B H Lq Lk"]:
    """Return the weights of torch's own attention for the arguments of its forward (there, True = may not attend)."""
    if query.dim() == 2:
        query, key = query[None], key[None]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
    elif not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    if module.in_proj_weight is not None:
        w_q, w_k, _ = module.in_proj_weight.chunk(3)
    else:
        w_q, w_k = module.q_proj_weight, module.k_proj_weight
    b_q, b_k, _ = (None, None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k = F.linear(query, w_q, b_q), F.linear(key, w_k, b_k)
    batch, num_keys = k.shape[:2]
    if module.bias_k is not None:
        k = torch.cat([k, module.bias_k.expand(batch, 1, -1)], dim=1)
    if module.add_zero_attn:
        k = torch.cat([k, k.new_zeros(batch, 1, k.shape[-1])], dim=1)

    bias = q.new_zeros(batch, 1, 1, num_keys, dtype=torch.float32)
    if key_padding_mask is not None:
        bias = bias + _additive(key_padding_mask)[:, None, None, :]
    if attn_mask is not None:
        mask = _additive(attn_mask)
        bias = bias + (mask if mask.dim() == 2 else mask.reshape(batch, module.num_heads, *mask.shape[1:]))
    bias = F.pad(bias, (0, k.shape[1] - num_keys))  # the added keys are open to all
    q_BHTK = q.reshape(batch, -1, module.num_heads, module.head_dim).transpose(1, 2)
    k_BHSK = k.reshape(batch, -1, module.num_heads, module.head_dim).transpose(1, 2)
    return softmax_weights(q_BHTK, k_BHSK, bias=bias)


def _additive(mask: Tensor) -> Float[Tensor, "..."]:
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask, float("-inf"))


# ---- any other module ----------------------------------------------------------------------------------------------


def _overhear(module: nn.Module, path: str, hear: Hear, listening: ExitStack, speaking: list[nn.Module]) -> None:
    """Overhear what runs inside ``module``: who runs is known from hooks, what it computes from the calls it makes.

    A module may be handed another to call, as a residual is handed its sublayer; what tells by itself is heard once.
    """
    running: list[str] = []
    tap = _AttentionTap(lambda weights: None if speaking else hear(running[-1], weights))

    def enter(name: str) -> None:
        if not running:
            tap.__enter__()  # type: ignore[no-untyped-call]
        running.append(name)

    def leave() -> None:
        running.pop()
        if not running:
            tap.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    for part_name, part in module.named_modules(prefix=path):
        name = part_name or type(part).__name__
        before = part.register_forward_pre_hook(lambda _part, _args, name=name: enter(name))
        # always_call: a forward that raises must be left as well
        after = part.register_forward_hook(lambda _part, _args, _output: leave(), always_call=True)
        listening.callback(before.remove)
        listening.callback(after.remove)


class _AttentionTap(TorchFunctionMode):
    """Hears the weights of each attention computed inside it, and leaves every call as it is."""

    def __init__(self, hear: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.hear = hear

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        output = func(*args, **named)
        if func is F.scaled_dot_product_attention:
            with torch.no_grad():
                self.hear(_fused_weights(*args, **named))
        elif func in _SOFTMAX and output.dim() == 4 and named.get("dim", args[1] if len(args) > 1 else None) in (-1, 3):
            self.hear(output)
        return output


_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


def _fused_weights(
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "..."],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Float[Tensor, "B H Lq Lk"]:
    """Return the weights inside ``scaled_dot_product_attention``, for its own arguments."""
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    allowed = attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else None
    if is_causal:  # torch aligns the triangle with the first key, whatever the lengths
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    bias = attn_mask if attn_mask is not None and attn_mask.dtype != torch.bool else None
    weights = softmax_weights(query, key, bias=bias, allowed=allowed, scale=scale)
    if weights.dim() < 4:  # no head axis was given
        return weights.reshape(-1, 1, *weights.shape[-2:])
    return weights.reshape(-1, *weights.shape[-3:])
