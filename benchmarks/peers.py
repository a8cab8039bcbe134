"""What Regard is measured beside, made with the same sizes."""

from __future__ import annotations

from typing import Any

from regard.models import TransformerSpec
from regard.protocols import BOS, EOS, PAD


def marian(spec: TransformerSpec) -> Any:
    """Return Hugging Face's Marian of the sizes of ``spec``; it ties all tables, and drops where ours does."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=spec.target_vocab,
            d_model=spec.d_model,
            encoder_layers=spec.encoder_layers,
            decoder_layers=spec.decoder_layers,
            encoder_attention_heads=spec.num_heads,
            decoder_attention_heads=spec.num_heads,
            encoder_ffn_dim=spec.d_ff,
            decoder_ffn_dim=spec.d_ff,
            activation_function="relu",
            dropout=spec.dropout.residual,
            attention_dropout=spec.dropout.attention,
            activation_dropout=spec.dropout.feed_forward,
            scale_embedding=True,
            max_position_embeddings=spec.max_len,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )
