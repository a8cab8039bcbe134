"""The encoder-decoder Transformer in NumPy and float64, written from the paper and apart from the library.

One sentence pair, one head and one query at a time: there is no batch, no padding and no mask, so nothing that can go
wrong with them. Weights are nested dicts of arrays; a map ``{"weight": [out, in], "bias": [out]}`` is y = Wx + b.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Any]


def linear(w: Weights, x: Array) -> Array:
    return x @ w["weight"].T + w["bias"]


def layer_norm(w: Weights, x: Array, eps: float = 1e-5) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * w["weight"] + w["bias"]


def sinusoid(place: int, width: int) -> Array:
    """Section 3.5: sin(place / 10000^(2i/D)) and cos of the same, side by side."""
    angle = [place / 10_000 ** (2 * (j // 2) / width) for j in range(width)]
    return np.array([math.cos(a) if j % 2 else math.sin(a) for j, a in enumerate(angle)])


def turn(vector: Array, place: int) -> Array:
    """Su et al. 2021: each pair of features is a complex number, multiplied by e^(i · place · rate)."""
    width = len(vector)
    pairs = [complex(vector[j], vector[j + 1]) for j in range(0, width, 2)]
    turned = [z * cmath.exp(1j * place * 10_000 ** (-2 * i / width)) for i, z in enumerate(pairs)]
    return np.array([part for z in turned for part in (z.real, z.imag)])


def attention(w: Weights, x: Array, memory: Array, heads: int, *, causal: bool = False, rotary: bool = False) -> Array:
    """Section 3.2: each query takes the mean of the values, weighted by the softmax of its scores."""
    q, k, v = linear(w["query"], x), linear(w["key"], memory), linear(w["value"], memory)
    width = q.shape[1] // heads
    mixed = np.zeros_like(q)
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for t in range(len(x)):
            seen = t + 1 if causal else len(memory)
            query = turn(q[t, part], t) if rotary else q[t, part]
            keys = [turn(k[s, part], s) if rotary else k[s, part] for s in range(seen)]
            scores = np.array([query @ key for key in keys]) / math.sqrt(width)
            weights = np.exp(scores - scores.max())
            mixed[t, part] = (weights / weights.sum()) @ v[:seen, part]
    return linear(w["out"], mixed)


def gelu(x: Array) -> Array:
    return x * np.vectorize(lambda a: 0.5 * (1 + math.erf(a / math.sqrt(2))))(x)


def feed_forward(w: Weights, x: Array, activation: str) -> Array:
    inner = linear(w["inner"], x)
    return linear(w["outer"], gelu(inner) if activation == "gelu" else inner.clip(min=0))


def transformer(w: Weights, source: list[int], target: list[int], spec: dict[str, Any]) -> Array:
    """Return the logits [T, V] of the token after each of ``target``."""
    heads, rotary, pre = spec["heads"], spec["rotary"], spec["pre_norm"]

    def embed(table: Array, ids: list[int]) -> Array:
        vectors = [table[i] * math.sqrt(table.shape[1]) for i in ids]
        return np.stack([v if rotary else v + sinusoid(p, len(v)) for p, v in enumerate(vectors)])

    def join(norm: Weights, x: Array, sublayer: Any) -> Array:
        return x + sublayer(layer_norm(norm, x)) if pre else layer_norm(norm, x + sublayer(x))

    def see(w: Weights, *, causal: bool) -> Any:
        return lambda y: attention(w, y, y, heads, causal=causal, rotary=rotary)

    def look_up(w: Weights) -> Any:
        return lambda y: attention(w, y, memory, heads)

    def think(w: Weights) -> Any:
        return lambda y: feed_forward(w, y, spec["activation"])

    x = embed(w["source_table"], source)
    for layer in w["encoder"]:
        x = join(layer["norms"][0], x, see(layer["self"], causal=False))
        x = join(layer["norms"][1], x, think(layer))
    memory = layer_norm(w["encoder_norm"], x) if pre else x

    x = embed(w["target_table"], target)
    for layer in w["decoder"]:
        x = join(layer["norms"][0], x, see(layer["self"], causal=True))
        x = join(layer["norms"][1], x, look_up(layer["cross"]))
        x = join(layer["norms"][2], x, think(layer))
    return linear(w["output"], layer_norm(w["decoder_norm"], x) if pre else x)
