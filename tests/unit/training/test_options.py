"""Values out of range are refused by the name of their key; the options go through JSON unchanged."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import subprocess
import sys

import pytest

from regard.errors import RecipeError
from regard.training import TrainingOptions
from regard.training.options import CHANGEABLE

WRONG = {
    "updates": [0, -1],
    "epochs": [0],
    "minutes": [0.0, -1.0, math.inf, math.nan],
    "patience": [0],
    "max_tokens": [0],
    "max_sentences": [0],
    "accumulate": [0],
    "learning_rate": [0.0, -1.0, math.nan, math.inf],
    "betas": [(0.9, 1.0), (-0.1, 0.9), (math.nan, 0.9)],
    "eps": [0.0],
    "weight_decay": [-0.1, math.inf],
    "clip_norm": [-1.0, math.nan],
    "warmup": [-1],
    "schedule_factor": [0.0],
    "label_smoothing": [-0.1, 1.0, math.nan],
    "validate_every": [0],
    "save_every": [0],
    "keep_last": [0],
    "keep_best": [-1],
    "average_count": [0],
    "ema": [-0.1, 1.0, math.nan],
    "freeze": [("encoder", "")],
    "seed": [-1],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_out_of_range(key, value):
    with pytest.raises(RecipeError, match=f"`{key}` must be .*but is"):
        TrainingOptions(**{key: value})


def test_every_number_has_a_range():
    numbers = {
        f.name
        for f in dataclasses.fields(TrainingOptions)
        if isinstance(f.default, int | float | tuple) and not isinstance(f.default, bool)
    }
    assert numbers <= WRONG.keys()


def test_choices_that_do_not_go_together():
    with pytest.raises(RecipeError, match="never ends"):
        TrainingOptions(updates=None)
    with pytest.raises(RecipeError, match="`updates` must be set"):
        TrainingOptions(updates=None, epochs=3, schedule="cosine")
    with pytest.raises(RecipeError, match=r"`keep_best` must be at least `average_count` \(5\), but is 3"):
        TrainingOptions(average="best", keep_best=3)
    with pytest.raises(RecipeError, match="`ema` is an average already"):
        TrainingOptions(average="last", keep_last=5, ema=0.9)
    with pytest.raises(RecipeError, match="'map' needs `init`"):
        TrainingOptions(init_vocabulary="map")


def test_every_option_is_documented_and_changeable_ones_exist():
    names = [field.name for field in dataclasses.fields(TrainingOptions)]
    documentation = inspect.getdoc(TrainingOptions)
    assert [name for name in names if f"\n    {name}: " not in documentation] == []
    assert set(names) >= CHANGEABLE


def test_json_gives_them_back():
    options = TrainingOptions(minutes=2.5, betas=(0.8, 0.9), freeze=("encoder",))
    fields = json.loads(json.dumps(dataclasses.asdict(options)))
    tuples = {key: tuple(fields[key]) for key in ("betas", "freeze")}
    assert TrainingOptions(**{**fields, **tuples}) == options


def test_reading_options_needs_no_torch():
    code = "import sys; from regard.training import TrainingOptions; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
