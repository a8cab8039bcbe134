"""Scaled dot-product attention and its multi-head form (section 3.2 of the paper).

:func:`attend_plain` is the formula, step by step, and the oracle of the tests; :func:`attend` gives the same, with many
keys by fused kernels that never hold the weights. A query with nothing to attend to gets exactly zero from both.

Axes: B batch, H heads, T queries, S keys, K = d_model / H, D = d_model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import get_ident

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ShapeError
from regard.nn.cache import KeysValues, KeyValueCache, Readers
from regard.nn.dropout import drop
from regard.nn.masks import EVERYTHING, Offset, Visibility, causal_mask, combine
from regard.nn.positions import Positions

SHORT = 32
"""On a CPU, up to this many keys two plain products and their gradients beat the fused kernel, except for one query."""


def attend_plain(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BHSK: Float[Tensor, "B H S K"],
    v_BHSK: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "#B #H #T S"] | None = None,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "#B #H #T S"] | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T S"]]:
    """Return ``softmax(q kᵀ · scale + bias) v`` and the weights (equation 1).

    Args:
        q_BHTK: Queries.
        k_BHSK: Keys.
        v_BHSK: Values.
        mask: True = may attend; None allows everything.
        scale: What the scores are multiplied by; left out, 1/√K.
        bias: Added to the scores before the softmax.
        dropout: Share of weights set to zero, the rest scaled up; 0 leaves them alone.
    """
    weights = weigh(scores_of(q_BHTK, k_BHSK, scale=scale, bias=bias), mask)
    if dropout > 0:
        weights = drop(weights, dropout)
    return weights.to(v_BHSK.dtype) @ v_BHSK, weights  # a float32 bias makes float32 weights of half scores


def scores_of(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BHSK: Float[Tensor, "B H S K"],
    *,
    scale: float | None = None,
    bias: Float[Tensor, "#B #H #T S"] | None = None,
) -> Float[Tensor, "B H T S"]:
    """Return ``q kᵀ · scale + bias``: how well each key answers each query, before the mask."""
    scale = 1 / math.sqrt(q_BHTK.size(-1)) if scale is None else scale
    if q_BHTK.dtype == torch.float16:  # the product itself could leave its range
        scores = (q_BHTK * scale) @ k_BHSK.transpose(-2, -1)
    else:  # mostly fewer numbers to scale, and no second copy of the queries
        scores = (q_BHTK @ k_BHSK.transpose(-2, -1)) * scale
    return scores if bias is None else scores + bias


def weigh(
    scores_BHTS: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B #H #T S"] | None = None
) -> Float[Tensor, "B H T S"]:
    """Return the softmax of scores over the keys that ``mask`` allows; a query without any has zeros."""
    if mask is None:
        return scores_BHTS.softmax(dim=-1)
    # An all -inf row would be NaN, forward and backward; it is made finite first and silenced after.
    empty = ~mask.any(dim=-1, keepdim=True)
    return scores_BHTS.masked_fill(~(mask | empty), -math.inf).softmax(dim=-1).masked_fill(empty, 0.0)


def attend(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BHSK: Float[Tensor, "B H S K"],
    v_BHSK: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "#B #H #T S"] | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    bias: Float[Tensor, "#B #H #T S"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T K"]:
    """Return what :func:`attend_plain` returns first, in memory that grows linearly with length.

    ``causal`` lets no query see a key that stands after it, where the last query stands at the last key; it comes on
    top of ``mask`` and ``bias``.
    """
    num_queries, num_keys = q_BHTK.size(2), k_BHSK.size(2)
    short = q_BHTK.device.type == "cpu" and num_keys <= SHORT and num_queries > 1
    # The kernel's own triangle hangs from the first key: right where there are as many queries as keys, and only there.
    if causal and (short or mask is not None or bias is not None or num_queries != num_keys):
        mask = combine(mask, causal_mask(num_queries, num_keys, device=q_BHTK.device))
        causal = False
    if short:
        return attend_plain(q_BHTK, k_BHSK, v_BHSK, mask, scale=scale, bias=bias, dropout=dropout)[0]
    if mask is None:
        added = None if bias is None else bias.to(q_BHTK.dtype)
        return F.scaled_dot_product_attention(
            q_BHTK, k_BHSK, v_BHSK, attn_mask=added, dropout_p=dropout, is_causal=causal, scale=scale
        )
    # What an empty row gives is decided here, for backends answer zero, a mean or NaN.
    empty = ~mask.any(dim=-1, keepdim=True)
    allowed = mask | empty
    if bias is not None:
        allowed = bias.to(q_BHTK.dtype).masked_fill(~allowed, -math.inf)
    out = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=allowed, dropout_p=dropout, scale=scale)
    return out.masked_fill(empty, 0.0)


class MultiHeadAttention(nn.Module):
    """H attentions side by side on D/H features each, joined by a last projection (section 3.2.2).

    ::

        x ──┬─ query ─┐
            ├─ key   ─┼─ split heads ─ attend ─ merge heads ─ out
            └─ value ─┘
        memory: keys and values come from elsewhere (cross-attention)
        cache:  keys and values join those of earlier steps

    Queries, keys and values are one matrix product; rows ``[:D]``, ``[D:2D]``, ``[2D:]`` of ``qkv`` in that order.

    Args:
        d_model: Width D.
        num_heads: H, a divisor of D.
        dropout: Share of attention weights dropped in training.
        bias: Whether the four projections have one.
        scale: What scores are multiplied by; left out, 1/√(D/H).
        positions: Turns queries and keys, or adds to the scores; the plain one does neither.
    """

    inner_steps = ("queries", "keys_values", "split_heads", "scores", "weights", "merge_heads")

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        scale: float | None = None,
        positions: Positions | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ShapeError(f"`num_heads` must divide d_model = {d_model}, but is {num_heads}")
        self.num_heads = num_heads
        self.dropout = dropout
        self.scale = scale
        self.positions = positions if positions is not None else Positions()
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)
        self._listeners: list[Callable[[Tensor], None]] = []

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        visible: Visibility = EVERYTHING,
        *,
        memory: KeysValues | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the attention of ``x_BTD`` to itself and to ``cache``, or to ``memory``."""
        offset: Offset = 0 if cache is None else cache.length
        readers = None if memory is None else memory.readers
        if memory is None:
            q, k, v = self.split_heads(self.qkv(x_BTD), 3)  # 3 × [B, H, T, K]
            q, k = self.positions.rotate(q, offset), self.positions.rotate(k, offset)
            k, v = (k, v) if cache is None else cache.append(k, v)  # [B, H, S, K]
        else:
            queries = self.queries(x_BTD)
            (q,) = self.split_heads(readers.group(queries) if readers else queries, 1)
            k, v = memory.keys, memory.values

        num_queries, num_keys = q.size(2), k.size(2)
        mask, causal = visible.resolve(num_queries, num_keys, q.device)
        score_bias = self.positions.bias(num_queries, num_keys, offset)
        dropout = self.dropout if self.training else 0.0
        out = attend(q, k, v, mask, causal=causal, scale=self.scale, bias=score_bias, dropout=dropout)
        if self._listeners:
            triangle = causal_mask(num_queries, num_keys, device=q.device) if causal else None
            self._tell(q, k, combine(mask, triangle), score_bias, readers)
        merged = self.merge_heads(out)
        return self.out(readers.ungroup(merged) if readers else merged)  # type: ignore[no-any-return]

    def queries(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the queries alone, for attention to a memory."""
        d_model = x_BTD.size(-1)
        bias = None if self.qkv.bias is None else self.qkv.bias[:d_model]
        return F.linear(x_BTD, self.qkv.weight[:d_model], bias)

    def keys_values(self, memory_BSD: Float[Tensor, "B S D"]) -> KeysValues:
        """Return the keys and values of ``memory``, made once and attended to by any number of queries."""
        d_model = memory_BSD.size(-1)
        bias = None if self.qkv.bias is None else self.qkv.bias[d_model:]
        keys, values = self.split_heads(F.linear(memory_BSD, self.qkv.weight[d_model:], bias), 2)
        return KeysValues(keys, values)

    def split_heads(self, x: Float[Tensor, "B L nD"], parts: int) -> tuple[Tensor, ...]:
        """Return ``parts`` tensors [B, H, L, K]: features are split, every head keeps all positions."""
        batch, length, width = x.shape
        head_width = width // (parts * self.num_heads)
        heads = x.view(batch, length, parts, self.num_heads, head_width).permute(2, 0, 3, 1, 4)
        if x.device.type == "cpu" and 1 < length <= SHORT:
            heads = heads.contiguous()  # plain products want it so, and would copy each part by itself
        return heads.unbind(0)

    def merge_heads(self, x_BHTK: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
        """Return the heads side by side again, the inverse of :meth:`split_heads` with one part."""
        return x_BHTK.transpose(1, 2).flatten(2)

    def listen(self, hear: Callable[[Tensor], None]) -> Callable[[], None]:
        """Call ``hear(weights)`` with [B, H, T, S] at each forward of this thread, until the returned one is called.

        The weights are computed aside, without dropout and gradient: the output stays the same bit for bit.
        """
        here = get_ident()

        def hear_here(weights: Tensor) -> None:
            if get_ident() == here:  # others may use the same model at the same time
                hear(weights)

        self._listeners.append(hear_here)
        return lambda: self._listeners.remove(hear_here)

    def scores(
        self, q_BHTK: Float[Tensor, "B H T K"], k_BHSK: Float[Tensor, "B H S K"], bias: Tensor | None = None
    ) -> Float[Tensor, "B H T S"]:
        """Return what the softmax is taken of, the mask apart; the fused path never holds it."""
        return scores_of(q_BHTK, k_BHSK, scale=self.scale, bias=bias)

    def weights(
        self, scores_BHTS: Float[Tensor, "B H T S"], mask: Bool[Tensor, "#B #H #T S"] | None = None
    ) -> Float[Tensor, "B H T S"]:
        """Return how much each query looks at each key; the fused path never holds it."""
        return weigh(scores_BHTS, mask)

    @torch.no_grad()
    def _tell(self, q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, readers: Readers | None) -> None:
        weights = self.weights(self.scores(q, k, bias), mask)
        if readers:
            weights = readers.ungroup(weights.transpose(1, 2)).transpose(1, 2)
        for hear in list(self._listeners):
            hear(weights)

    def extra_repr(self) -> str:
        """Name what the sub-modules do not show."""
        return f"num_heads={self.num_heads}, dropout={self.dropout}" + (f", scale={self.scale}" if self.scale else "")
