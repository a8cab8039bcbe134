"""Models without a fault: whatever verify fails on them is a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import hosts
from torch import nn

from regard.models.specs import Dropout, Learned, NoPositions, RelativeBias, Rotary, Sinusoidal
from regard.training.objective import Seq2SeqObjective


def objective(model: nn.Module, batch: Any) -> Any:
    return Seq2SeqObjective(model, 0.1)(batch)


LOSS = {"loss": objective}

CORRECT: Mapping[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "regard post-norm sinusoidal": (hosts.regard, LOSS),
    "regard pre-norm learned gelu": (
        lambda: hosts.regard(residual="pre", positions=Learned(), activation="gelu", encoder_final_norm=True),
        LOSS,
    ),
    "regard rotary rms gated tied": (
        lambda: hosts.regard(
            positions=Rotary(), norm="rms", gated=True, activation="silu", tie="target", residual="pre"
        ),
        LOSS,
    ),
    "regard relative bias, no bias, unscaled, all tied": (
        lambda: hosts.regard(positions=RelativeBias(), bias=False, scale_attention=False, tie="all", output_bias=False),
        LOSS,
    ),
    "regard without positions": (lambda: hosts.regard(positions=NoPositions()), LOSS),
    "regard half-split sinusoids, embedding norm, every dropout": (
        lambda: hosts.regard(
            positions=Sinusoidal(layout="half"), embedding_norm=True, dropout=Dropout(0.1, 0.1, 0.1, 0.1)
        ),
        LOSS,
    ),
    "regard one layer, one head": (lambda: hosts.regard(encoder_layers=1, decoder_layers=1, num_heads=1), LOSS),
    **{
        f"regard classifier, {readout}": (lambda readout=readout: hosts.regard_classifier(readout=readout), {})
        for readout in ("mean", "cls", "last", "attention")
    },
    "regard classifier without residuals": (lambda: hosts.regard_classifier(residual="none"), {}),
    "torch post-norm": (hosts.TorchSeq2Seq, {}),
    "torch pre-norm gelu": (lambda: hosts.TorchSeq2Seq(norm_first=True, activation="gelu"), {}),
    "torch sequence first": (lambda: hosts.TorchSeq2Seq(batch_first=False), {}),
    "torch encoder, mean readout": (hosts.TorchEncoder, {}),
    "torch.nn.Transformer bare": (lambda: nn.Transformer(16, 2, 2, 2, 40), {}),
    "torch.nn.TransformerEncoder bare": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 40, batch_first=True), 2), {},
    ),
    "plain with a cache": (hosts.PlainSeq2Seq, {}),
    "rotary decoder": (hosts.RotaryDecoder, {}),
    "Hugging Face BART": (hosts.bart, {}),
    "Hugging Face BART eager": (lambda: hosts.bart(attn_implementation="eager"), {}),
    "Hugging Face Marian": (hosts.marian, {}),
    "Hugging Face T5": (hosts.t5, {}),
    "Hugging Face T5 gated untied": (
        lambda: hosts.t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), {},
    ),
    "Hugging Face GPT-2": (hosts.gpt2, {}),
    "Hugging Face Llama": (hosts.llama, {}),
    "Hugging Face BERT": (hosts.bert, {}),
}  # fmt: skip
