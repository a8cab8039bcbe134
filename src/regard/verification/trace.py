"""What happened inside one forward: each attention as it was computed, each module's input and output.

Nothing is asked of the module. A dispatch mode sees every tensor operation below autograd, so attention is found
whether it was written with ``@``, ``einsum``, ``scaled_dot_product_attention`` or ``nn.MultiheadAttention``::

    product = query · keyᵀ  ->  scores = softmax's input  ->  weights = what meets the values  ->  context

Axes: B batch, H heads, Lq queries, Lk keys, K width of a head, R = B·L rows of a linear map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass
class Attention:
    """One attention as it was computed.

    Attributes:
        module: Path of the innermost module that was running.
        query: [B, H, Lq, K] as multiplied; a scale may be in it already.
        key: [B, H, Lk, K] as multiplied.
        product: [B, H, Lq, Lk] the products of the two.
        scores: [B, H, Lq, Lk] what the softmax was given.
        weights: [B, H, Lq, Lk] what the values were multiplied by.
        axis: The axis of the softmax, counted from the end; -1 is the keys.
        value: [B, H, Lk, K] if they were seen to be multiplied.
        context: [B, H, Lq, K] the sum of values, likewise.
        linears: How many linear maps had been computed before the softmax.
    """

    module: str
    query: Tensor
    key: Tensor
    product: Tensor
    scores: Tensor
    weights: Tensor
    axis: int = -1
    value: Tensor | None = None
    context: Tensor | None = None
    linears: int = 0


@dataclass(frozen=True)
class Linear:
    """One linear map as it was computed: ``output = input @ weight + bias``, [R, in] to [R, out]."""

    module: str
    input: Tensor
    output: Tensor


@dataclass(frozen=True)
class Call:
    """One call of a module: its path, its first tensor argument and the first tensor that it returned."""

    module: str
    input: Tensor | None
    output: Tensor | None


@dataclass(frozen=True)
class Statistic:
    """A mean or variance over axes other than the last of three, with the axes kept, as a norm would take it."""

    module: str
    operation: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]


@dataclass
class Trace:
    """All of it, in the order of computation.

    Attributes:
        attentions: Each attention.
        linears: Each linear map.
        calls: Each module call, children before their parents.
        statistics: Each mean or variance over positions or rows.
        coarsest: The least precise type that numbers were cast down to.
        roughest: The least precise type that anything came from, a table for instance.
    """

    attentions: list[Attention] = field(default_factory=list)
    linears: list[Linear] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    statistics: list[Statistic] = field(default_factory=list)
    coarsest: torch.dtype = torch.float64
    roughest: torch.dtype = torch.float64


def first_tensor(value: Any) -> Tensor | None:
    """Return the first floating-point tensor in ``value``: a tensor, or what modules take and return."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else None
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return next((found for item in items if (found := first_tensor(item)) is not None), None)


class Enough(Exception):  # noqa: N818 - it ends a forward of which nothing more is needed
    """As many attentions were seen as were asked for."""


@contextmanager
def traced(module: nn.Module, batch: int, attentions: int | None = None) -> Iterator[Trace]:
    """Record the forwards of ``module`` within the block; ``batch`` is B of what it is given.

    With ``attentions``, the block ends without an error once so many of them were seen.
    """
    trace = Trace()
    running = [""]
    handles = []

    def leave(path: str, args: Any, kwargs: Any, output: Any) -> None:
        if running[-1] == path and len(running) > 1:
            running.pop()
        trace.calls.append(Call(path, _kept(first_tensor([*args, kwargs])), _kept(first_tensor(output))))

    for path, part in module.named_modules():
        handles.append(part.register_forward_pre_hook(lambda _m, _args, path=path: running.append(path)))
        handles.append(
            part.register_forward_hook(
                lambda _m, args, kwargs, out, path=path: leave(path, args, kwargs, out), with_kwargs=True
            )
        )
    try:
        with suppress(Enough), _Tracer(trace, running, batch, attentions):
            yield trace
    finally:
        for handle in handles:
            handle.remove()


def _kept(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone()  # later operations may write into it


class _Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation and leaves it as it is."""

    def __init__(self, trace: Trace, running: list[str], batch: int, attentions: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace = trace
        self.running = running
        self.batch = batch
        self.attentions = attentions
        self.product: tuple[Tensor, Tensor, Tensor] | None = None  # the last batched product: operands and result
        self.open: Attention | None = None  # its weights have not met their values yet

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        name = func.name().removeprefix("aten::").split(".")[0]
        for x in args:
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel() > 1:
                self.trace.roughest = rougher(self.trace.roughest, x.dtype)
        if name in ("bmm", "baddbmm"):
            a, b = args[-2].clone(), args[-1].clone()
            self._batched(a, b, output.clone() if name == "bmm" else a @ b)
        elif name in ("mm", "addmm"):
            self.trace.linears.append(Linear(self.running[-1], args[-2].clone(), output.clone()))
        elif name in ("add", "add_") and isinstance(args[1], Tensor) and args[1].ndim == 1:
            self._bias(output)
        elif name in ("_softmax", "_safe_softmax"):
            self._softmax(args[0].clone(), args[1], output.clone())
        elif name.startswith("_scaled_dot_product") and "backward" not in name:
            names = [argument.name for argument in func._schema.arguments]
            self._fused({**dict(zip(names, args, strict=False)), **(kwargs or {})}, output[0].clone())
        elif name in ("mean", "var", "std", "var_mean", "std_mean"):
            self._statistic(name, args, kwargs or {})
        elif name == "native_layer_norm" and args[0].ndim == 3:
            self._keep_statistic("layer norm", args[0], tuple(range(3 - len(args[1]), 3)))
        elif name == "_to_copy":
            self._cast(args[0], output)
        if self.attentions is not None and len(self.trace.attentions) >= self.attentions:
            raise Enough
        return output

    def _heads(self, x: Tensor) -> Tensor:
        """Return [B, H, ., .] of [B·H, ., .] or more axes; [1, B·H, ., .] if the rows cannot be told apart."""
        flat = x.reshape(-1, *x.shape[-2:])
        batch = self.batch if len(flat) % self.batch == 0 else 1
        return flat.reshape(batch, -1, *x.shape[-2:])

    def _batched(self, a: Tensor, b: Tensor, output: Tensor) -> None:
        attention = self.open
        if attention is not None and self._are_weights(a, attention.weights):
            # As used: whatever was done to the weights since the softmax is in them.
            if a.shape[-2:] != attention.weights.shape[-2:]:
                a = a.reshape(attention.weights.shape)
                output = output.reshape(*a.shape[:-1], output.size(-1))
            attention.weights = self._heads(a)
            attention.value, attention.context = self._heads(b), self._heads(output)
            self.open = None
            return
        self.product = (a, b, output)

    def _are_weights(self, a: Tensor, weights: Tensor) -> bool:
        """Return whether ``a`` has as many numbers as the weights, or the same ones for several heads."""
        return a.numel() == weights.numel() or (a.shape[-2:] == weights.shape[-2:] and a.numel() % weights.numel() == 0)

    def _softmax(self, scores: Tensor, axis: int, weights: Tensor) -> None:
        if self.product is None or scores.ndim < 3 or self.product[2].numel() != scores.numel():
            return
        q, k, product = self.product
        if product.size(-1) != scores.size(-1):
            return
        self.open = Attention(
            module=self.running[-1],
            query=self._heads(q.reshape(*scores.shape[:-1], q.size(-1))),
            key=self._heads(k.transpose(-2, -1)),
            product=self._heads(product.reshape(scores.shape)),
            scores=self._heads(scores),
            weights=self._heads(weights),
            axis=axis if axis < 0 else axis - scores.ndim,
            linears=len(self.trace.linears),
        )
        self.trace.attentions.append(self.open)
        self.product = None

    def _fused(self, given: dict[str, Any], context: Tensor) -> None:
        q, k, v = (given[name].clone() for name in ("query", "key", "value"))
        if k.size(1) != q.size(1):
            k, v = (x.repeat_interleave(q.size(1) // x.size(1), dim=1) for x in (k, v))
        product = q @ k.transpose(-2, -1)
        scale = given.get("scale")
        scores = product * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
        mask = given.get("attn_mask", given.get("attn_bias"))
        if mask is not None:
            scores = scores + (mask if mask.dtype != torch.bool else torch.where(mask, 0.0, -math.inf))
        if given.get("is_causal"):  # the kernel's triangle hangs from the first key, whatever the lengths
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
        nowhere = (scores == -math.inf).all(dim=-1, keepdim=True)
        self.trace.attentions.append(
            Attention(
                module=self.running[-1],
                query=q,
                key=k,
                product=product,
                scores=scores,
                weights=scores.softmax(dim=-1).masked_fill(nowhere, 0.0),
                value=v,
                context=context,
                linears=len(self.trace.linears),
            )
        )

    def _bias(self, output: Tensor) -> None:
        """Keep a bias that was added after the product, as torch does for a fused projection of queries and keys."""
        last = self.trace.linears[-1] if self.trace.linears else None
        if last and last.output.numel() == output.numel() and last.output.size(-1) == output.size(-1):
            biased = output.clone().reshape(last.output.shape)
            self.trace.linears[-1] = Linear(last.module, last.input, biased)

    def _statistic(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        axes = kwargs.get("dim", args[1] if len(args) > 1 else None)
        kept = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
        if isinstance(axes, list | tuple) and kept is True and args[0].ndim == 3:
            self._keep_statistic(name.removesuffix("_mean"), args[0], tuple(axis % 3 for axis in axes))

    def _keep_statistic(self, name: str, x: Tensor, axes: tuple[int, ...]) -> None:
        if axes != (2,):
            self.trace.statistics.append(Statistic(self.running[-1], name, tuple(x.shape), axes))

    def _cast(self, x: Tensor, output: Tensor) -> None:
        if not (x.is_floating_point() and output.is_floating_point()) or output.numel() == 1:
            return
        if rougher(x.dtype, output.dtype) != x.dtype:
            self.trace.coarsest = rougher(self.trace.coarsest, output.dtype)


def rougher(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """Return the less precise of two types."""
    return max(a, b, key=lambda dtype: torch.finfo(dtype).eps)
