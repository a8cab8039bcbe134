"""The library against formulas written out in NumPy, one sentence, head and query at a time.

The reference knows no padding, so batching, masking and fused kernels are all on the library's side. Both compute in
float64, where rounding over these sizes stays near 1e-14; 1e-10 leaves room and is far below any error of substance.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from parity import numpy_reference as reference
from parity.weights import scramble
from regard.models import RelativeBias, Rotary, Sinusoidal, Transformer, TransformerSpec, build
from regard.nn import MultiHeadAttention, Visibility

TOLERANCE = 1e-10
SOURCES = [[5, 9, 2, 7, 3], [8, 3], [4, 10, 6, 3]]
TARGETS = [[2, 11, 5], [2, 6, 4, 9, 12, 7, 5], [2]]


def arrays(module: nn.Module) -> reference.Weights:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def attention_weights(attention: MultiHeadAttention) -> reference.Weights:
    """Queries, keys and values lie in this order in the rows of ``qkv``."""
    weights, biases = attention.qkv.weight.detach().chunk(3), attention.qkv.bias.detach().chunk(3)
    parts = {
        name: {"weight": weight.numpy(), "bias": bias.numpy()}
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True)
    }
    return parts | {"out": arrays(attention.out)}


def model_weights(model: Transformer) -> reference.Weights:
    encoder = [
        {
            "self": attention_weights(layer.self_attention),
            "inner": arrays(layer.feed_forward.inner),
            "outer": arrays(layer.feed_forward.outer),
            "norms": [arrays(layer.self_residual.norm), arrays(layer.feed_forward_residual.norm)],
        }
        for layer in model.encoder.layers
    ]
    decoder = [
        {
            "self": attention_weights(layer.self_attention),
            "cross": attention_weights(layer.cross_attention),
            "inner": arrays(layer.feed_forward.inner),
            "outer": arrays(layer.feed_forward.outer),
            "norms": [
                arrays(layer.self_residual.norm),
                arrays(layer.cross_residual.norm),
                arrays(layer.feed_forward_residual.norm),
            ],
        }
        for layer in model.decoder.layers
    ]
    return {
        "source_table": model.source_embedding.vectors.table.weight.detach().numpy(),
        "target_table": model.target_embedding.vectors.table.weight.detach().numpy(),
        "encoder": encoder,
        "decoder": decoder,
        "encoder_norm": arrays(model.encoder.final_norm),
        "decoder_norm": arrays(model.decoder.final_norm),
        "output": arrays(model.output),
    }


def padded(rows: list[list[int]]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


@pytest.mark.parametrize("positions", [Sinusoidal(), Rotary()], ids=lambda p: p.kind)
@pytest.mark.parametrize("residual", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_padded_batch_gives_the_logits_of_each_pair_alone(
    residual: Literal["post", "pre"], activation: Literal["relu", "gelu"], positions: Sinusoidal | Rotary
) -> None:
    spec = TransformerSpec(
        source_vocab=11,
        target_vocab=13,
        d_model=12,
        num_heads=2,
        d_ff=19,
        encoder_layers=2,
        decoder_layers=3,
        positions=positions,
        max_len=17,
        residual=residual,
        encoder_final_norm=residual == "pre",
        decoder_final_norm=residual == "pre",
        activation=activation,
    )
    model = scramble(build(spec).double().eval(), seed=1)
    logits = model(padded(SOURCES), padded(TARGETS)).detach().numpy()
    weights = model_weights(model)
    options = {
        "heads": 2,
        "rotary": isinstance(positions, Rotary),
        "pre_norm": residual == "pre",
        "activation": activation,
    }
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = reference.transformer(weights, source, target, options)
        np.testing.assert_allclose(logits[row, : len(target)], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [5, 37])  # two products, the fused kernel
def test_attention_alone(length: int, causal: bool) -> None:
    attention = scramble(MultiHeadAttention(15, 3).double(), seed=2)
    x = torch.randn(1, length, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    expected = reference.attention(attention_weights(attention), x[0].numpy(), x[0].numpy(), 3, causal=causal)
    ours = attention(x, Visibility(causal=causal))[0].detach().numpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_bias_by_the_words_of_its_paper(bidirectional: bool) -> None:
    """Raffel et al. 2020, 2.1: half of the buckets hold one distance, the rest grow logarithmically and then end."""
    spec = RelativeBias(num_buckets=12, max_distance=23)
    model = build(TransformerSpec(11, 13, d_model=10, num_heads=2, d_ff=7, positions=spec))
    stack = model.encoder if bidirectional else model.decoder
    positions = stack.layers[0].self_attention.positions
    table = positions.weight.detach()
    bias = positions.bias(41, 41).detach()
    buckets = 6 if bidirectional else 12
    for query in range(41):
        for key in range(41):
            behind = query - key
            distance = abs(behind) if bidirectional else max(behind, 0)
            exact = buckets // 2
            bucket = distance
            if distance >= exact:
                growth = math.log(distance / exact) / math.log(23 / exact)
                bucket = min(exact + int(growth * (buckets - exact)), buckets - 1)
            if bidirectional and key > query:
                bucket += buckets
            assert torch.equal(bias[0, :, query, key], table[bucket]), (query, key)


def test_the_loss_of_a_batch_is_the_sum_over_its_real_labels() -> None:
    """Cross-entropy against the label mixed with the uniform distribution, in plain numbers."""
    from regard.training.objective import smoothed_cross_entropy

    rng = np.random.default_rng(5)
    logits, labels, smoothing = rng.normal(size=(7, 11)), [4, 0, 10, 1, 0, 3, 7], 0.1
    expected = 0.0
    for row, label in zip(logits, labels, strict=True):
        if label == 0:
            continue
        p = [math.exp(z) for z in row]
        total = sum(p)
        for v, value in enumerate(p):
            wanted = smoothing / 11 + (1 - smoothing if v == label else 0)
            expected -= wanted * math.log(value / total)
    ours = smoothed_cross_entropy(torch.tensor(logits), torch.tensor(labels), smoothing)
    assert abs(float(ours) - expected) <= TOLERANCE
    stock = F.cross_entropy(
        torch.tensor(logits), torch.tensor(labels), ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )
    assert abs(float(stock) - expected) <= TOLERANCE
