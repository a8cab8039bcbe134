"""How the Transformers of ``torch.nn`` are called: vectors in, masks by keyword.

Axes: B rows, L tokens, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.verification.adapter import Adapter
from regard.verification.inputs import Frames, Inputs


def adapt(module: nn.Transformer | nn.TransformerEncoder | nn.TransformerEncoderLayer) -> Adapter:
    """Return how to call ``module``."""
    return _transformer(module) if isinstance(module, nn.Transformer) else _encoder(module)


def _transformer(module: nn.Transformer) -> Adapter:
    def forward(model: Any, x: Inputs) -> Tensor:
        source, target = x.side("source"), x.side("target")
        output: Tensor = model(
            _flipped(source, model.batch_first),
            _flipped(target, model.batch_first),
            tgt_mask=torch.ones(target.size(1), target.size(1), dtype=torch.bool, device=target.device).triu(1),
            src_key_padding_mask=~x.real("source"),
            tgt_key_padding_mask=~x.real("target"),
            memory_key_padding_mask=~x.real("source"),
        )
        return _flipped(output, model.batch_first)

    side = Frames(module.d_model)
    return Adapter(forward, side, side, ordered=False, described="torch.nn.Transformer over vectors")


def _encoder(module: nn.Module) -> Adapter:
    attention = next(part for part in module.modules() if isinstance(part, nn.MultiheadAttention))
    batch_first = attention.batch_first

    def forward(model: Any, x: Inputs) -> Tensor:
        output: Tensor = model(_flipped(x.side("source"), batch_first), src_key_padding_mask=~x.real("source"))
        return _flipped(output, batch_first)

    return Adapter(forward, Frames(attention.embed_dim), ordered=False, described="torch.nn encoder over vectors")


def _flipped(x: Tensor, batch_first: bool) -> Tensor:
    return x if batch_first else x.transpose(0, 1)
