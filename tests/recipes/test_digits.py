"""Copy and reverse: a model that cannot learn these has a fault in attention, positions, masks, loss or search."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from regard.runs.training.train import train

RECIPE = """
[data]
source = "train.src"
target = "train.tgt"
valid_source = "valid.src"
valid_target = "valid.tgt"

[tokenizer]
kind = "char"

[model]
preset = "tiny"
d_model = 64
d_ff = 128
encoder_layers = 2
decoder_layers = 2
residual = "pre"
encoder_final_norm = true
decoder_final_norm = true
dropout = 0.0

[training]
max_tokens = 1024
learning_rate = 3e-3
schedule = "cosine"
warmup = 200
label_smoothing = 0.0
validate_every = 9999
save_every = 9999
average = "none"

[generation]
beam = 1
max_length = 40
"""


def strings(draw: random.Random, count: int) -> list[str]:
    """Return different strings of 3 to 19 digits; so long a string is hardly ever drawn twice."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choices("0123456789", k=draw.randint(3, 19)))] = None
    return list(found)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 5, 7, 11])
@pytest.mark.parametrize(("task", "updates"), [("copy", 1000), ("reverse", 1800)])
def test_unseen_digit_strings_come_out_right(task: str, updates: int, seed: int, tmp_path: Path) -> None:
    known = strings(random.Random(seed), 11_000)
    wanted = known if task == "copy" else [text[::-1] for text in known]
    for name, part in {"valid": slice(0, 500), "train": slice(1000, None)}.items():
        (tmp_path / f"{name}.src").write_text("\n".join(known[part]) + "\n")
        (tmp_path / f"{name}.tgt").write_text("\n".join(wanted[part]) + "\n")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    translator = train(tmp_path / "recipe.toml", out=tmp_path / "run", updates=updates, seed=seed, quiet=True)
    unseen = slice(500, 1000)
    right = sum(a == b for a, b in zip(translator(known[unseen]), wanted[unseen], strict=True))
    assert right >= 0.99 * 500, f"{right} of 500"
