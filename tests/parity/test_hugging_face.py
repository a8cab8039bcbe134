"""The library against three models of Hugging Face, each written down as a spec: Marian, BART and T5.

Weights are random and tiny; nothing is downloaded. Padding is id 0 on both sides here, since ours always is.

Tolerance: logits are of size 1 to 10, and both sides compute in float32 and sum in different orders. One rounding at
that size is 5e-7, and some dozens of them add up to less than 1e-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from parity.weights import Names, copy_by_name, scramble
from regard.models import Learned, RelativeBias, Sinusoidal, Transformer, TransformerSpec, build
from regard.nn import Rotary
from regard.protocols import BOS, EOS, PAD

transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-5
V, D, H, F, S, T, MAX_LEN = 31, 10, 2, 17, 11, 7, 23
SOURCE_LENGTHS = torch.tensor([11, 3, 7])


def ids() -> tuple[Tensor, Tensor]:
    """Return source and decoder input, both padded on the right."""
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, V, (3, S), generator=generator)
    source[torch.arange(S) >= SOURCE_LENGTHS[:, None]] = PAD
    target = torch.randint(4, V, (3, T), generator=generator)
    target[:, 0] = BOS
    target[2, 5:] = PAD
    return source, target


def tensors(model: nn.Module, **changed: Tensor) -> Mapping[str, Tensor]:
    """Return the weights of ``model``, without the tables that are other names for ``shared``."""
    found = {name: value.clone() for name, value in model.state_dict().items() if "embed_tokens" not in name}
    return found | changed


def assert_same_logits(ours: Transformer, theirs: nn.Module) -> None:
    source, target = ids()
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target).logits
        logits = ours.eval()(source, target)
    assert expected.abs().max() > 0.5
    torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE)


# ---- Marian and BART: one family of names --------------------------------------------------------------------------


def bart_names(spec: TransformerSpec, prefix: str = "model.") -> Names:
    """Our names → those of Marian and BART, which differ in positions and in the norm of embeddings alone."""
    found: dict[str, str | tuple[str, ...]] = {
        "source_embedding.vectors.table.weight": f"{prefix}shared.weight",
        "target_embedding.vectors.table.weight": f"{prefix}shared.weight",
        "output.weight": "lm_head.weight",
        "output.bias": "final_logits_bias",
    }
    for side, layers in (("encoder", spec.encoder_layers), ("decoder", spec.decoder_layers)):
        embedding = "source_embedding" if side == "encoder" else "target_embedding"
        if isinstance(spec.positions, Learned):
            found[f"{embedding}.positions.weight"] = f"{prefix}{side}.embed_positions.weight"
        for part in ("weight", "bias"):
            if spec.embedding_norm:
                found[f"{embedding}.norm.{part}"] = f"{prefix}{side}.layernorm_embedding.{part}"
            for layer in range(layers):
                our, their = f"{side}.layers.{layer}", f"{prefix}{side}.layers.{layer}"
                attentions = {"self": "self_attn"} | ({"cross": "encoder_attn"} if side == "decoder" else {})
                for name, attention in attentions.items():
                    found[f"{our}.{name}_attention.qkv.{part}"] = tuple(
                        f"{their}.{attention}.{x}_proj.{part}" for x in "qkv"
                    )
                    found[f"{our}.{name}_attention.out.{part}"] = f"{their}.{attention}.out_proj.{part}"
                    found[f"{our}.{name}_residual.norm.{part}"] = f"{their}.{attention}_layer_norm.{part}"
                found[f"{our}.feed_forward.inner.{part}"] = f"{their}.fc1.{part}"
                found[f"{our}.feed_forward.outer.{part}"] = f"{their}.fc2.{part}"
                found[f"{our}.feed_forward_residual.norm.{part}"] = f"{their}.final_layer_norm.{part}"
    return found


SIZES: Mapping[str, Any] = {
    "vocab_size": V,
    "d_model": D,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": H,
    "decoder_attention_heads": H,
    "encoder_ffn_dim": F,
    "decoder_ffn_dim": F,
    "max_position_embeddings": MAX_LEN,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
}


def marian() -> tuple[Transformer, Any]:
    config = transformers.MarianConfig(**SIZES, activation_function="swish", scale_embedding=True)
    theirs = transformers.MarianMTModel(config).eval()
    positions = {name: value.clone() for name, value in theirs.state_dict().items() if "embed_positions" in name}
    scramble(theirs, seed=1)
    theirs.load_state_dict(positions, strict=False)
    theirs.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
    ours = build(
        TransformerSpec(
            V,
            V,
            d_model=D,
            num_heads=H,
            d_ff=F,
            encoder_layers=2,
            decoder_layers=3,
            positions=Sinusoidal(layout="half"),
            max_len=MAX_LEN,
            activation="silu",
            tie="all",
        )
    )
    weights = tensors(theirs, final_logits_bias=theirs.final_logits_bias[0])
    left = copy_by_name(ours, weights, bart_names(ours.spec))
    assert left == set(positions)  # constants, made anew on our side
    return ours.eval(), theirs


def test_marian() -> None:
    """Post-norm, sines in one half and cosines in the other, one table for source, target and output."""
    assert_same_logits(*marian())


def test_bart() -> None:
    """Learned positions, of which the first two rows are never used; a norm of embeddings that are not scaled."""
    theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**SIZES)).eval()
    scramble(theirs, seed=1)
    theirs.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
    ours = build(
        TransformerSpec(
            V,
            V,
            d_model=D,
            num_heads=H,
            d_ff=F,
            encoder_layers=2,
            decoder_layers=3,
            positions=Learned(),
            max_len=MAX_LEN,
            activation="gelu",
            scale_embeddings=False,
            embedding_norm=True,
            tie="all",
        )
    )
    rows = {
        f"model.{side}.embed_positions.weight": theirs.state_dict()[f"model.{side}.embed_positions.weight"][2:]
        for side in ("encoder", "decoder")
    }
    weights = tensors(theirs, final_logits_bias=theirs.final_logits_bias[0], **rows)
    assert not copy_by_name(ours, weights, bart_names(ours.spec))
    assert_same_logits(ours, theirs)


def test_marian_decodes_the_same_with_its_cache_and_ours() -> None:
    """Greedy search, a token at a time: equal ids, and the logits of every step."""
    ours, theirs = marian()
    source, _ = ids()
    found = theirs.generate(
        input_ids=source,
        attention_mask=source != PAD,
        generation_config=transformers.GenerationConfig(
            num_beams=1,
            do_sample=False,
            use_cache=True,
            max_new_tokens=13,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            output_logits=True,
            return_dict_in_generate=True,
        ),
    )
    with torch.no_grad():
        state = ours.start(source, SOURCE_LENGTHS)
        tokens = torch.full((3,), BOS)
        running = torch.ones(3, dtype=torch.bool)
        for step, expected in enumerate(found.logits, start=1):
            result = ours.step(tokens, state)
            torch.testing.assert_close(result.logits[running], expected[running], rtol=0, atol=TOLERANCE)
            tokens, state = result.logits.argmax(dim=-1), result.state
            assert torch.equal(tokens[running], found.sequences[running, step])
            running &= tokens != EOS
    assert len(found.logits) == 13


# ---- T5 ------------------------------------------------------------------------------------------------------------


def t5_names(spec: TransformerSpec) -> Names:
    """Our names → those of T5, whose first layer holds the relative bias of its whole stack."""
    found: dict[str, str | tuple[str, ...]] = {
        "source_embedding.vectors.table.weight": "shared.weight",
        "target_embedding.vectors.table.weight": "shared.weight",
        "output.weight": "lm_head.weight",
    }
    for side, layers in (("encoder", spec.encoder_layers), ("decoder", spec.decoder_layers)):
        found[f"{side}.final_norm.weight"] = f"{side}.final_layer_norm.weight"
        for layer in range(layers):
            our, their = f"{side}.layers.{layer}", f"{side}.block.{layer}.layer"
            found[f"{our}.self_attention.positions.weight"] = (
                f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            )
            attentions = {"self": "0.SelfAttention"} | ({"cross": "1.EncDecAttention"} if side == "decoder" else {})
            for name, attention in attentions.items():
                found[f"{our}.{name}_attention.qkv.weight"] = tuple(f"{their}.{attention}.{x}.weight" for x in "qkv")
                found[f"{our}.{name}_attention.out.weight"] = f"{their}.{attention}.o.weight"
                found[f"{our}.{name}_residual.norm.weight"] = f"{their}.{attention[0]}.layer_norm.weight"
            last = f"{their}.{len(attentions)}"
            found[f"{our}.feed_forward_residual.norm.weight"] = f"{last}.layer_norm.weight"
            dense = f"{last}.DenseReluDense"
            if spec.gated:
                found[f"{our}.feed_forward.gate_inner.weight"] = (f"{dense}.wi_0.weight", f"{dense}.wi_1.weight")
            else:
                found[f"{our}.feed_forward.inner.weight"] = f"{dense}.wi.weight"
            found[f"{our}.feed_forward.outer.weight"] = f"{dense}.wo.weight"
    return found


@pytest.mark.parametrize("gated", [False, True], ids=["version 1.0", "version 1.1"])
def test_t5(gated: bool) -> None:
    """RMS norm before each sublayer, no biases, unscaled scores with a relative bias; since 1.1 a gated feed-forward.

    Version 1.0 shrinks the decoder's output by √D before the vocabulary. That is the same as a smaller gain of the
    norm in front of it, so it needs no option.
    """
    config = transformers.T5Config(
        vocab_size=V,
        d_model=D,
        d_kv=D // H,
        d_ff=F,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=H,
        relative_attention_num_buckets=6,
        relative_attention_max_distance=7,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=not gated,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    theirs = scramble(transformers.T5ForConditionalGeneration(config).eval(), seed=1, size=0.3 if gated else 0.6)
    ours = build(
        TransformerSpec(
            V,
            V,
            d_model=D,
            num_heads=H,
            d_ff=F,
            encoder_layers=2,
            decoder_layers=3,
            positions=RelativeBias(num_buckets=6, max_distance=7),
            max_len=MAX_LEN,
            norm="rms",
            norm_eps=1e-6,
            residual="pre",
            encoder_final_norm=True,
            decoder_final_norm=True,
            activation="gelu-tanh" if gated else "relu",
            gated=gated,
            scale_embeddings=False,
            scale_attention=False,
            tie="none" if gated else "all",
            bias=False,
            output_bias=False,
        )
    )
    gain = theirs.decoder.final_layer_norm.weight.detach() * (1.0 if gated else D**-0.5)
    weights = tensors(theirs, **{"decoder.final_layer_norm.weight": gain})
    assert not copy_by_name(ours, weights, t5_names(ours.spec))
    assert_same_logits(ours, theirs)


# ---- rotary positions ----------------------------------------------------------------------------------------------


def test_rotary_half_by_half_is_that_of_llama() -> None:
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=28, num_attention_heads=2, max_position_embeddings=MAX_LEN)
    q, k = torch.randn(2, 3, 2, T, 14, generator=torch.Generator().manual_seed(5))
    cos, sin = LlamaRotaryEmbedding(config)(q, torch.arange(5, 5 + T)[None].expand(3, -1))
    rotary = Rotary(14, MAX_LEN, layout="half")
    for ours, theirs in zip(
        (rotary.rotate(q, 5), rotary.rotate(k, 5)), apply_rotary_pos_emb(q, k, cos, sin), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)
