"""Names for people count from 1, whatever Python does."""

from __future__ import annotations

import pytest

from regard.inspection.names import counted, module_name, step_name


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("encoder.layers.2.norm", "encoder.layers:3.norm"),
        ("layers.0", "layers:1"),
        ("0.weight", ":1.weight"),
        ("blocks.0.1.out", "blocks:1:2.out"),
        ("linear1.weight", "linear1.weight"),
        ("", ""),
    ],
)
def test_numbers_in_paths(path: str, shown: str) -> None:
    assert counted(path) == shown


def test_modules_and_steps() -> None:
    assert module_name("encoder.layers.2", "EncoderLayer") == "EncoderLayer 3"
    assert module_name("encoder.layers.2.norm", "LayerNorm") == "norm"
    assert module_name("", "Transformer") == module_name("", "Transformer", alone=True) == "Transformer"
    assert module_name("layers.2.norm", "LayerNorm", alone=True) == "layers:3.norm"
    attention = "decoder.layers.0.cross_attention"
    assert step_name(attention, "scores", attention) == "scores"
    assert step_name("source_embedding.positions", "embed", "source_embedding") == "positions.embed"
    assert step_name(attention, "keys_values", "") == "decoder.layers:1.cross_attention.keys_values"
