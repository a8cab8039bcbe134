"""A corpus, a recipe and a model folder small enough to train or make within a test."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from regard.bundle import save_bundle
from regard.data import CharTokenizer, train_exact
from regard.models import Dropout, Transformer, TransformerSpec, build

RECIPE = """
[tokenizer]
kind = "char"
[model]
preset = "tiny"
d_model = 8
num_heads = 2
d_ff = 11
encoder_layers = 1
decoder_layers = 1
max_len = 53
dropout = 0.1
[data]
source = "train.src"
target = "train.tgt"
valid_lines = 5
[data.filters]
max_source_length = 53
max_target_length = 53
[training]
updates = 3
max_tokens = 97
warmup = 2
validate_every = 2
save_every = 2
learning_rate = 1e-2
[generation]
beam = 2
max_length = 13
"""


def write_corpus(folder: Path, lines: int = 37) -> None:
    """Write ``train.src`` and ``train.tgt``, digit strings and their reverse, and ``recipe.toml``."""
    draw = random.Random(7)
    sources = ["".join(draw.choice("0123456789") for _ in range(draw.randint(1, 7))) for _ in range(lines)]
    (folder / "train.src").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    (folder / "train.tgt").write_text("".join(f"{line[::-1]}\n" for line in sources), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")


def tokenizer() -> CharTokenizer:
    made = train_exact("char", ["0123456789 abc"])
    assert isinstance(made, CharTokenizer)
    return made


def small_model(seed: int = 3) -> Transformer:
    torch.manual_seed(seed)
    size = len(tokenizer())
    return build(
        TransformerSpec(
            size,
            size,
            d_model=8,
            num_heads=2,
            d_ff=11,
            encoder_layers=1,
            decoder_layers=1,
            max_len=29,
            dropout=Dropout(0.3, 0.0, 0.0, 0.3),
        )
    )


def write_bundle(folder: Path, seed: int = 3) -> Path:
    """Write a model folder with random weights."""
    same = tokenizer()
    recipe = {"generation": {"beam": 2, "max_length": 7}}
    save_bundle(
        folder, model=small_model(seed), source_tokenizer=same, target_tokenizer=same, recipe=recipe, card="# A toy\n"
    )
    return folder
