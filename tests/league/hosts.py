"""The models that faults are planted in: five families not written for this league, and two plain ones that are."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models import TransformerSpec, build, build_classifier
from regard.models.specs import ClassifierSpec

V = 29  # one vocabulary for all, so that tables can be tied


def regard(**options: Any) -> nn.Module:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 40, "encoder_layers": 2, "decoder_layers": 2, "max_len": 64}
    return build(TransformerSpec(V, V, **{**sizes, **options}))


def regard_classifier(**options: Any) -> nn.Module:
    sizes = {"num_features": 3, "d_model": 16, "num_heads": 2, "d_ff": 40, "layers": 2, "max_len": 64}
    return build_classifier(ClassifierSpec(5, **{**sizes, **options}))


class TorchSeq2Seq(nn.Module):
    """torch.nn.Transformer with tables, learned positions and a map to the vocabulary, as tutorials have it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.source_table = nn.Embedding(V, 16, padding_idx=0)
        self.target_table = nn.Embedding(V, 16, padding_idx=0)
        self.places = nn.Embedding(64, 16)
        self.core = nn.Transformer(16, 2, 2, 2, 40, **{"dropout": 0.1, "batch_first": True, **options})
        self.head = nn.Linear(16, V)

    def masks(self, source: Tensor, target: Tensor) -> dict[str, Any]:
        pads = source == 0
        causal = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        return {"src_key_padding_mask": pads, "memory_key_padding_mask": pads, "tgt_mask": causal}

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        return table(ids) + self.places(torch.arange(ids.size(1)))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.embed(self.source_table, source), self.embed(self.target_table, target)
        if self.core.batch_first:
            return self.head(self.core(x, y, **self.masks(source, target)))
        return self.head(self.core(x.transpose(0, 1), y.transpose(0, 1), **self.masks(source, target)).transpose(0, 1))


class TorchEncoder(nn.Module):
    """torch.nn.TransformerEncoder as a classifier: mean over the real tokens."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(V, 16, padding_idx=0)
        self.places = nn.Parameter(torch.randn(64, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 40, **{"dropout": 0.1, "batch_first": True, **options})
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: Tensor) -> Tensor:
        pads = ids == 0
        x = self.encoder(self.table(ids) + self.places[: ids.size(1)], src_key_padding_mask=pads)
        weights = (~pads).to(x.dtype)
        return self.head((x * weights[..., None]).sum(dim=1) / weights.sum(dim=1, keepdim=True).clamp(min=1))


# ---- a plain encoder-decoder with a cache, every step in sight ------------------------------------------------------


def sines(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class PlainAttention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)

    def weights(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        empty = ~mask.any(dim=-1, keepdim=True)
        return scores.masked_fill(~mask & ~empty, float("-inf")).softmax(dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return self.o(self.merge(self.weights(q, k, mask) @ v))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        return self.attend(self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory)), mask)


class PlainFeedForward(nn.Module):
    def __init__(self, d: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d, inner), nn.Linear(inner, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.relu(self.up(x)))


class PlainEncoderLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.attention, self.ff = PlainAttention(d, heads), PlainFeedForward(d, 2 * d + 8)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.dropout(self.attention(y, y, mask))
        return x + self.dropout(self.ff(self.norm2(x)))


class PlainDecoderLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.own, self.cross, self.ff = (
            PlainAttention(d, heads),
            PlainAttention(d, heads),
            PlainFeedForward(d, 2 * d + 8),
        )
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.dropout = nn.Dropout(0.1)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y = self.norm1(x)
        k, v = self.own.split(self.own.k(y)), self.own.split(self.own.v(y))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        x = x + self.dropout(self.own.attend(self.own.split(self.own.q(y)), k, v, mask))
        x = x + self.dropout(self.cross(self.norm2(x), memory, memory_mask))
        return x + self.dropout(self.ff(self.norm3(x))), (k, v)


class PlainSeq2Seq(nn.Module):
    """Pre-norm, sines, tied output, a cache in lists."""

    def __init__(self, d: int = 16, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.pad = 0
        self.source_table, self.target_table = nn.Embedding(V, d), nn.Embedding(V, d)
        self.register_buffer("places", sines(64, d), persistent=False)
        self.encoder = nn.ModuleList(PlainEncoderLayer(d, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(PlainDecoderLayer(d, heads) for _ in range(layers))
        self.norm_e, self.norm_d = nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Linear(d, V, bias=False)
        self.head.weight = self.target_table.weight
        self.dropout = nn.Dropout(0.1)

    def embed(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        return self.dropout(table(ids) * 4.0 + self.places[start : start + ids.size(1)])

    def source_mask(self, source: Tensor) -> Tensor:
        return (source != self.pad)[:, None, None, :]

    def causal_mask(self, new: int, old: int = 0) -> Tensor:
        return torch.ones(new, old + new, dtype=torch.bool).tril(old)

    def encode(self, source: Tensor) -> Tensor:
        x, mask = self.embed(self.source_table, source), self.source_mask(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.norm_e(x)

    def decode(
        self, target: Tensor, memory: Tensor, memory_mask: Tensor, state: dict[str, Any] | None = None
    ) -> Tensor:
        old = 0 if state is None else state["length"]
        y = self.embed(self.target_table, target, old)
        mask = self.causal_mask(target.size(1), old)
        for i, layer in enumerate(self.decoder):
            y, past = layer(y, mask, memory, memory_mask, None if state is None else state["past"][i])
            if state is not None:
                state["past"][i] = past
        if state is not None:
            state["length"] = old + target.size(1)
        return self.head(self.norm_d(y))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), self.source_mask(source))

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> dict[str, Any]:
        return {
            "memory": self.encode(source),
            "mask": self.source_mask(source),
            "past": [None] * len(self.decoder),
            "length": 0,
        }

    def step(self, tokens: Tensor, state: dict[str, Any]) -> Any:
        state = {**state, "past": list(state["past"])}
        logits = self.decode(tokens[:, None], state["memory"], state["mask"], state)
        return _Step(logits[:, -1], state)

    def reorder(self, state: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        past = [None if p is None else (p[0][rows], p[1][rows]) for p in state["past"]]
        return {**state, "memory": state["memory"][rows], "mask": state["mask"][rows], "past": past}


class _Step:
    def __init__(self, logits: Tensor, state: Any) -> None:
        self.logits, self.state = logits, state


class RotaryDecoder(nn.Module):
    """A decoder alone: rotary positions, RMS norms, a gated network, fused projection of queries, keys and values."""

    def __init__(self, d: int = 16, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.table = nn.Embedding(V, d, padding_idx=0)
        self.layers = nn.ModuleList(RotaryLayer(d, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, V, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class RotaryLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in ((d, 40), (d, 40), (40, d)))

    def turn(self, x: Tensor) -> Tensor:
        half = x.size(-1) // 2
        angles = torch.arange(x.size(2))[:, None] * 10_000.0 ** (-torch.arange(half) / half)
        cos, sin = angles.cos().to(x), angles.sin().to(x)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x: Tensor) -> Tensor:
        B, L, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attend(self.turn(q), self.turn(k), v)
        x = x + self.out(y.transpose(1, 2).reshape(B, L, D))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


# ---- Hugging Face, from configurations: nothing is downloaded --------------------------------------------------------


def _seq2seq(**options: Any) -> dict[str, Any]:
    return {
        "vocab_size": V, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
        "forced_eos_token_id": None, **options,
    }  # fmt: skip


def bart(**options: Any) -> nn.Module:
    from transformers import BartConfig, BartForConditionalGeneration

    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    return BartForConditionalGeneration(BartConfig(**_seq2seq(**ids, **options)))


def marian(**options: Any) -> nn.Module:
    from transformers import MarianConfig, MarianMTModel

    ids = {"pad_token_id": 28, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 28}
    return MarianMTModel(MarianConfig(**_seq2seq(**ids, scale_embedding=True, **options)))


def t5(**options: Any) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=V, d_model=16, d_kv=8, num_layers=2, num_heads=2, d_ff=40, relative_attention_num_buckets=8,
        decoder_start_token_id=0, **options,
    )  # fmt: skip
    return T5ForConditionalGeneration(config)


def gpt2(**options: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": V, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**{**sizes, "bos_token_id": 1, "eos_token_id": 2, **options}))


def llama(**options: Any) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": V, "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **options}))


def bert(**options: Any) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {
        "vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40,
        "max_position_embeddings": 64, "num_labels": 3,
    }  # fmt: skip
    return BertForSequenceClassification(BertConfig(**{**sizes, **options}))
