"""A small model, sources for it, and a walk through all that a search does to a decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.models import Transformer, TransformerSpec, build
from regard.protocols import StepDecoder

SPEC = TransformerSpec(
    source_vocab=19,
    target_vocab=17,
    d_model=12,
    num_heads=3,
    d_ff=11,
    encoder_layers=2,
    decoder_layers=2,
    max_len=43,
)


def model_of(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    model = build(replace(SPEC, **changes)).double().eval()
    for parameter in model.parameters():  # biases and norms start at 0 and 1, which would hide their being left out
        nn.init.normal_(parameter, std=0.5)
    return model


def sources(*lengths: int) -> tuple[Tensor, Tensor | None]:
    rows = [torch.randint(4, 19, (length,)) for length in lengths]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return padded, torch.tensor(lengths) if len({*lengths}) > 1 else None


@torch.inference_mode()
def walk(decoder: StepDecoder, source: Tensor, lengths: Tensor | None) -> list[Tensor]:
    """Return the logits of steps through everything that a search does: growing, widening, permuting, dropping."""
    state = decoder.start(source, lengths)
    generator = torch.Generator().manual_seed(5)
    reads, logits = torch.arange(len(source)), []
    for step in range(13):  # further than the room that a cache begins with
        tokens = torch.randint(4, 17, (len(reads),), generator=generator)
        found = decoder.step(tokens, state)
        logits.append(found.logits)
        state = found.state
        if step == 3:
            rows = torch.arange(len(source)).repeat_interleave(3)
        elif step in (6, 7):
            rows = torch.randperm(len(reads), generator=generator)
        elif step == 9:  # only the middle and the last source are still read
            rows = torch.cat([torch.where(reads == len(source) - 1)[0], torch.where(reads == len(source) // 2)[0]])
        else:
            continue
        state, reads = decoder.reorder(state, rows), reads[rows]
    return logits


def close(decoder: StepDecoder, model: Transformer, source: Tensor, lengths: Tensor | None) -> None:
    for one, other in zip(walk(decoder, source, lengths), walk(model, source, lengths), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
