"""What is varied is read as TOML, and whatever would stop a training is told before there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import DataError, RecipeError
from regard.runs.looking.variants import usable, variants
from regard.runs.recipes.tables import read_tables
from unit.runs.toys import write_corpus


def test_values_are_toml_and_words_need_no_quotes() -> None:
    assert [v.changes for v in variants(["model.positions=none, learned"])] == [
        {"model.positions": "none"},
        {"model.positions": "learned"},
    ]
    [one] = variants(['model.positions={kind = "rotary", base = 500.0}'])
    assert one.changes == {"model.positions": {"kind": "rotary", "base": 500.0}}
    assert one.name == "model.positions={kind=rotary, base=500.0}"
    mixed = variants(["model.tie=none,target", "training.updates=5", "model.gated=true,false"])
    assert [v.name for v in mixed] == [
        "model.tie=none, model.gated=true",
        "model.tie=none, model.gated=false",
        "model.tie=target, model.gated=true",
        "model.tie=target, model.gated=false",
    ]
    assert all(v.changes["training.updates"] == 5 for v in mixed)
    assert mixed[0].changes == {"model.tie": "none", "training.updates": 5, "model.gated": True}


@pytest.mark.parametrize(
    ("vary", "sentence"),
    [
        (["model.positions"], "--vary must be like"),
        (["model.positions="], "--vary must be like"),
        (["positions=none"], "--vary must be like"),
        (["model.tie=none,,target"], "--vary has an empty value"),
        (["model.tie=none", "model.tie=target"], "names model.tie twice"),
        (["training.seed=1,2"], "use --seeds"),
    ],
)
def test_what_cannot_be_varied(vary: list[str], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        variants(vary)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("data.target=train.tgt,gone.tgt", "gone.tgt: there is no such file (data of "),
        ("data.test_pairs=gone.tsv", "gone.tsv: there is no such file (data.test_pairs of "),
        ("tokenizer.source_model=gone.model", "gone.model: there is no such file (tokenizer.source_model of "),
        ("data.source=-", "several trainings cannot read standard input (data); name a file"),
    ],
)
def test_files_that_no_training_would_find(tmp_path: Path, key: str, sentence: str) -> None:
    write_corpus(tmp_path)
    with pytest.raises((DataError, RecipeError)) as refused:
        usable(variants([key]), read_tables(tmp_path / "recipe.toml"), "recipe.toml", tmp_path, lambda _: None)
    assert sentence in str(refused.value)


def test_a_recipe_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nothing to train on"):
        usable(variants(["model.tie=none"]), {}, "recipe.toml", tmp_path, lambda _: None)
