"""Where a token stands, told to the model in one of five ways.

A position encoding is one object with three hooks, each a no-op unless the encoding uses it::

    embed    adds to the embedded tokens                     sinusoidal, learned
    rotate   turns queries and keys before they meet         rotary
    bias     adds to the scores of queries and keys          relative bias

Every hook takes the offset of its first token, so that a cached step continues where the last one ended. Tables follow
the module's device and dtype, each number rounded once from float64, and are never part of the saved weights.

Axes: B batch, H heads, L tokens, T queries, S keys, D = d_model, K = D / H.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.nn.masks import Offset
from regard.plural import plural

Layout = Literal["interleaved", "half"]
"""How the two features of a pair lie: side by side, as in the paper, or half a width apart."""


def _indices(length: int, offset: Offset, device: torch.device) -> Int[Tensor, "*B L"]:
    """Return the positions of ``length`` tokens from ``offset`` on: [L], or [B, L] for one offset per row."""
    steps = torch.arange(length, device=device)
    return offset.to(device)[:, None] + steps if isinstance(offset, Tensor) else steps + offset


def _rows(table: Tensor, length: int, offset: Offset, name: str) -> Float[Tensor, "*B L D"]:
    """Return the rows of ``table`` at :func:`_indices`, or say in words that it is too short."""
    last = (int(offset.max()) if isinstance(offset, Tensor) else offset) + length
    if last > table.size(0):
        raise ShapeError(
            f"a sequence of {last} tokens does not fit {name} positions with max_len = {table.size(0)}; "
            "shorten the input or build the model with a larger `max_len`"
        )
    if isinstance(offset, Tensor):
        return table[_indices(length, offset, table.device)]
    return table[offset : offset + length]


class Positions(nn.Module):
    """No positions at all, and the three hooks that encodings override: tokens become a bag."""

    inner_steps: tuple[str, ...] = ()
    """The hooks that are overridden, for whoever walks through a model."""

    def embed(self, x_BLD: Float[Tensor, "B L D"], offset: Offset = 0) -> Float[Tensor, "B L D"]:
        """Return the embedded tokens with their places added."""
        return x_BLD

    def rotate(self, x_BHLK: Float[Tensor, "B H L K"], offset: Offset = 0) -> Float[Tensor, "B H L K"]:
        """Return queries or keys turned by their places."""
        return x_BHLK

    def bias(self, num_queries: int, num_keys: int, offset: Offset = 0) -> Float[Tensor, "#B H T S"] | None:
        """Return what is added to the scores of queries that start at ``offset`` and keys that start at 0."""
        return None


class Sinusoidal(Positions):
    """Sines and cosines of geometric wavelengths, added to the embeddings (section 3.5).

    PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D)); an odd D leaves out the last cosine.

    Args:
        d_model: Width D of the embeddings.
        max_len: Longest sequence.
        layout: ``interleaved`` as in the paper, or ``half``: all sines, then all cosines.
    """

    inner_steps = ("embed",)

    table: Tensor

    def __init__(self, d_model: int, max_len: int = 1024, *, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("table", sinusoidal_table(max_len, d_model, layout), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Sinusoidal:
        before = self.table
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.table is before:
            return self
        # A table cast from another dtype keeps that one's rounding: half, float would leave half; float, double float.
        max_len, d_model = self.table.shape
        exact = sinusoidal_table(max_len, d_model, self.layout, dtype=self.table.dtype)
        self.table = exact.to(self.table.device)
        return self

    def embed(self, x_BLD: Float[Tensor, "B L D"], offset: Offset = 0) -> Float[Tensor, "B L D"]:
        """Return the embedded tokens plus the rows of their places."""
        if x_BLD.size(-1) != self.table.size(-1):
            raise ShapeError(f"positions are {self.table.size(-1)} wide, but the embeddings are {x_BLD.size(-1)}")
        return x_BLD + _rows(self.table, x_BLD.size(1), offset, "sinusoidal").to(x_BLD)


def sinusoidal_table(
    max_len: int, d_model: int, layout: Layout = "interleaved", *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "max_len d_model"]:
    """Return the table of :class:`Sinusoidal`, computed in float64 and rounded once to ``dtype``."""
    table = torch.empty(max_len, d_model, dtype=dtype)
    if table.is_meta:  # nothing to compute, and torch would load its compiler for it
        return table
    place = torch.arange(max_len, dtype=torch.float64)[:, None]
    angles = place * torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    sines, cosines = angles.sin(), angles[:, : d_model // 2].cos()
    if layout == "half":
        return torch.cat([sines, cosines], dim=1).to(dtype)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table


class Learned(Positions):
    """One trained vector per place, added to the embeddings.

    Args:
        d_model: Width D of the embeddings.
        max_len: Longest sequence.
    """

    inner_steps = ("embed",)

    def __init__(self, d_model: int, max_len: int = 1024) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model).normal_(std=d_model**-0.5))

    def embed(self, x_BLD: Float[Tensor, "B L D"], offset: Offset = 0) -> Float[Tensor, "B L D"]:
        """Return the embedded tokens plus the rows of their places."""
        if x_BLD.size(-1) != self.weight.size(-1):
            raise ShapeError(f"positions are {self.weight.size(-1)} wide, but the embeddings are {x_BLD.size(-1)}")
        return x_BLD + _rows(self.weight, x_BLD.size(1), offset, "learned")


class Rotary(Positions):
    """Pairs of features turned by an angle that grows with the place (Su et al. 2021, equation 34).

    The score of a query and a key then depends on their distance alone.

    Args:
        head_width: K, an even number.
        max_len: Longest sequence.
        base: Wavelengths run from 2π to 2π · base.
        layout: Which features form a pair.
    """

    inner_steps = ("rotate",)

    cos: Tensor
    sin: Tensor

    def __init__(
        self, head_width: int, max_len: int = 1024, *, base: float = 10_000.0, layout: Layout = "interleaved"
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ShapeError(
                f"rotary positions turn pairs of features: d_model / num_heads must be even, but is {head_width}"
            )
        self.base = base
        self.layout = layout
        cos, sin = self._tables(max_len, head_width // 2, torch.float32)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        before = self.cos
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.cos is before:
            return self
        max_len, num_pairs = self.cos.shape
        cos, sin = self._tables(max_len, num_pairs, self.cos.dtype)  # rounded once, as in Sinusoidal
        self.cos, self.sin = cos.to(self.cos.device), sin.to(self.cos.device)
        return self

    def _tables(self, max_len: int, num_pairs: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of place · rate, [max_len, K/2] each."""
        if (table := torch.empty(max_len, num_pairs, dtype=dtype)).is_meta:  # as in sinusoidal_table
            return table, torch.empty_like(table)
        rates = self.base ** (-torch.arange(num_pairs, dtype=torch.float64) / num_pairs)
        angles = torch.arange(max_len, dtype=torch.float64)[:, None] * rates
        return angles.cos().to(dtype), angles.sin().to(dtype)

    def rotate(self, x_BHLK: Float[Tensor, "B H L K"], offset: Offset = 0) -> Float[Tensor, "B H L K"]:
        """Return ``x_BHLK`` with each pair turned by place · rate."""
        cos = self._at(self.cos, x_BHLK, offset)
        sin = self._at(self.sin, x_BHLK, offset)
        if self.layout == "half":
            a, b = x_BHLK.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
        a, b = x_BHLK[..., 0::2], x_BHLK[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    def _at(self, table: Tensor, x_BHLK: Tensor, offset: Offset) -> Tensor:
        rows = _rows(table, x_BHLK.size(2), offset, "rotary").to(x_BHLK)
        return rows[:, None] if rows.ndim == 3 else rows  # a heads axis where rows differ


class RelativeBias(Positions):
    """One trained number per head and bucket of distances, added to the scores (Raffel et al. 2020, section 2.1).

    Half of the buckets hold one distance each, the other half grow logarithmically up to ``max_distance``.

    Args:
        num_heads: H.
        num_buckets: Numbers per head.
        max_distance: Distances from here on share the last bucket.
        bidirectional: Whether keys after the query have buckets of their own; False for a decoder.
    """

    inner_steps = ("bias",)

    def __init__(
        self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        exact = num_buckets // (4 if bidirectional else 2)
        if not 1 <= exact < max_distance:
            raise ShapeError(
                f"{plural(num_buckets, 'bucket does', 'buckets do')} not fit distances up to {max_distance}: each "
                "direction needs two buckets or more, and `max_distance` must be above half of them"
            )
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads).normal_(std=num_heads**-0.5))

    def bias(self, num_queries: int, num_keys: int, offset: Offset = 0) -> Float[Tensor, "#B H T S"]:
        """Return the numbers of all pairs of query and key."""
        keys = torch.arange(num_keys, device=self.weight.device)
        distance = keys - _indices(num_queries, offset, self.weight.device)[..., None]  # [*B, T, S]
        bias = self.weight[self._bucket(distance)]  # [*B, T, S, H]
        return bias.permute(0, 3, 1, 2) if bias.ndim == 4 else bias.permute(2, 0, 1)[None]

    def _bucket(self, distance: Tensor) -> Tensor:
        num_buckets = self.weight.size(0)
        first = torch.zeros_like(distance)
        if self.bidirectional:
            num_buckets //= 2
            first = (distance > 0) * num_buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = num_buckets // 2
        # The smallest argument is 1, so that the logarithm of a distance with a bucket of its own stays finite.
        growth = torch.log(distance.clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
        return first + torch.where(distance < exact, distance, far)
