"""Small models of every kind, for properties that hold of all of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.models import (
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Transformer,
    TransformerSpec,
    build,
)
from regard.models.specs import Positions

POSITIONS: Mapping[str, Positions] = {
    "sinusoidal": Sinusoidal(),
    "sinusoidal-half": Sinusoidal(layout="half"),
    "learned": Learned(),
    "rotary": Rotary(),
    "rotary-half": Rotary(layout="half"),
    "relative-bias": RelativeBias(num_buckets=6, max_distance=11),
    "none": NoPositions(),
}
NORMS: Mapping[str, Mapping[str, object]] = {
    "post": {},
    "pre": {"residual": "pre", "encoder_final_norm": True, "decoder_final_norm": True},
    "pre-rms-gated": {
        "residual": "pre",
        "encoder_final_norm": True,
        "decoder_final_norm": True,
        "norm": "rms",
        "bias": False,
        "gated": True,
        "activation": "silu",
    },
}
TIES = ("none", "target", "all")
VOCAB = 13


def small(positions: str = "sinusoidal", norm: str = "post", tie: str = "none", **changed: object) -> TransformerSpec:
    """Return a spec with distinct primes for sizes wherever they may differ."""
    options: dict[str, object] = {
        "d_model": 10 if not positions.startswith("rotary") else 12,
        "num_heads": 2 if not positions.startswith("rotary") else 3,
        "d_ff": 17,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "max_len": 61,
        "positions": POSITIONS[positions],
        "tie": tie,
        "dropout": Dropout(0.0, 0.0, 0.0, 0.0),
    }
    return TransformerSpec(VOCAB, VOCAB, **(options | NORMS[norm] | changed))  # type: ignore[arg-type]


@torch.no_grad()
def random_model(spec: TransformerSpec, dtype: torch.dtype = torch.float64, seed: int = 1) -> Transformer:
    """Return a model none of whose weights is a zero or a one, with logits of size one."""
    model = build(spec).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def random_ids(lengths: list[int], seed: int) -> Tensor:
    """Return ids of words, one row per length, padded on the right."""
    ids = torch.randint(4, VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 0)
