from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.models import TransformerSpec, build
from regard.verification import Frames, Tokens, recognise

V, D = 23, 14


class Stack(nn.Module):
    def __init__(self, causal: bool, padding_idx: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(V, D, padding_idx=padding_idx)
        layer = nn.TransformerEncoderLayer(D, 2, 11, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(D, V)
        self.causal = causal

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        mask = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).triu(1) if self.causal else None
        pads = None if attention_mask is None else attention_mask == 0
        return self.head(self.encoder(self.table(ids), mask=mask, src_key_padding_mask=pads))


def test_what_scores_its_vocabulary_and_hides_the_future_is_a_decoder_even_if_made_of_encoder_layers() -> None:
    assert recognise(Stack(causal=True)).sides == ("target",)
    assert recognise(Stack(causal=False)).sides == ("source",)
    assert recognise(Stack(causal=False), kind="decoder").sides == ("target",)


def test_a_mask_argument_of_known_meaning_is_given() -> None:
    adapter = recognise(Stack(causal=True))
    assert adapter.padding == "lengths"
    assert "attention_mask" in adapter.described


class Pair(nn.Module):
    def __init__(self, **named: Any) -> None:
        super().__init__()
        self.a, self.b = nn.Embedding(V, D), nn.Embedding(V + 6, D, **named)
        self.head = nn.Linear(D, V + 6)

    def forward(self, src: Tensor, tgt: Tensor, temperature: float = 1.0) -> Tensor:
        return self.head(self.b(tgt) + self.a(src).mean(dim=1, keepdim=True)) / temperature


def test_sizes_of_vocabularies_and_the_pad_id_are_read_from_the_tables() -> None:
    adapter = recognise(Pair(padding_idx=5))
    assert isinstance(adapter.source, Tokens) and isinstance(adapter.target, Tokens)
    assert (adapter.source.size, adapter.target.size) == (V, V + 6)
    assert adapter.target.pad == 5 and adapter.padding == "ids"


def test_where_no_pad_id_is_named_nothing_is_padded_unless_one_is_given() -> None:
    assert recognise(Pair()).padding == "none"
    adapter = recognise(Pair(), pad=3)
    assert adapter.padding == "ids" and isinstance(adapter.source, Tokens) and adapter.source.pad == 3


def test_a_pad_id_that_nothing_names_is_seen_by_what_attention_hides() -> None:
    class Hidden(Stack):
        def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(ids, (ids != 0).long())

    assert recognise(Hidden(causal=False)).padding == "ids"


def test_it_is_seen_beside_a_source_of_frames_as_well() -> None:
    class Captions(Stack):
        def forward(self, frames: Tensor, ids: Tensor) -> Tensor:  # type: ignore[override]
            x = self.table(ids) + frames.mean(dim=(1, 2))[:, None, None] * self.head.weight[0]
            return self.head(self.encoder(x, src_key_padding_mask=ids == 0))

    examples = torch.randn(3, 7, 5), torch.randint(1, V, (3, 7))
    adapter = recognise(Captions(causal=False), examples)
    assert isinstance(adapter.source, Frames) and adapter.padding == "ids"


def test_examples_say_what_is_read() -> None:
    class Signal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(3, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.map(x).mean(dim=1)

    assert recognise(Signal(), torch.randn(2, 4, 3)).source == Frames(3)
    assert recognise(Signal()).source == Frames(3)
    adapter = recognise(
        Pair(), {"src": torch.ones(2, 3, dtype=torch.int64), "tgt": torch.ones(2, 4, dtype=torch.int64)}
    )
    assert adapter.sides == ("source", "target")


def test_torch_modules_are_known() -> None:
    assert recognise(nn.Transformer(D, 2, 1, 1, 11, batch_first=True)).source == Frames(D)
    assert recognise(nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 11, batch_first=True), 1)).sides == (
        "source",
    )


def test_a_model_of_regard_says_what_it_is_meant_to_be() -> None:
    spec = TransformerSpec(V, V, d_model=D, num_heads=2, d_ff=11, encoder_layers=1, decoder_layers=1, max_len=32)
    adapter = recognise(build(spec))
    assert adapter.decoding is not None and adapter.decoding.chunks
    assert adapter.attention_scale is None and adapter.tied == ()
