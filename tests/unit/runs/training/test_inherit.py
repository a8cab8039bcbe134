"""A run that starts from a model folder has its shape and its weights, and each piece that both know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest
import torch

from regard.bundle import load_bundle, save_bundle
from regard.data import train_exact
from regard.errors import FolderError, RecipeError
from regard.models import build
from regard.runs.recipes.plan import plan
from regard.runs.training.inherit import inherit_weights
from regard.runs.training.train import train
from unit.runs.toys import RECIPE, small_model, tokenizer, write_bundle, write_corpus


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe_with(*lines: str, model: str = "") -> str:
    """The toy recipe without [tokenizer] and [model], so that both are taken over."""
    rest = RECIPE[RECIPE.index("[data]") :].replace("= 53", "= 29")
    return f"[model]\n{model}\n{rest}".replace("[training]", "\n".join(["[training]", *lines]))


def test_shape_vocabulary_and_weights_are_taken_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(place / "old")
    (place / "recipe.toml").write_text(recipe_with("learning_rate = 1e-9").replace("learning_rate = 1e-2", ""))
    translator = train(place / "recipe.toml", out=place / "new", init="old")
    assert "starting from the weights and the vocabulary of old\n" in capsys.readouterr().err
    old = load_bundle("old")
    assert translator.source_tokenizer.to_files() == old.source_tokenizer.to_files()
    assert translator.model.spec == old.model.spec
    for (name, a), b in zip(old.model.state_dict().items(), translator.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-7, msg=name)  # three updates of at most 1e-9 each
    train(place / "recipe.toml", out=place / "new", init="old", updates=4)
    told = capsys.readouterr().err
    assert "going on after update 3" in told and "starting from" not in told


@pytest.mark.parametrize("vocabulary", ["keep", "map"])
def test_a_run_that_has_begun_needs_the_older_model_no_more(place: Path, vocabulary: str) -> None:
    write_bundle(place / "old")
    recipe = recipe_with('init = "old"', f'init_vocabulary = "{vocabulary}"') + '[tokenizer]\nkind = "char"\n'
    (place / "recipe.toml").write_text(recipe)
    train(place / "recipe.toml", out=place / "new", quiet=True)
    rmtree(place / "old")
    before = (place / "new" / "recipe.toml").read_text()
    train(place / "recipe.toml", out=place / "new", updates=4, quiet=True)
    assert (place / "new" / "recipe.toml").read_text() == before.replace("updates = 3", "updates = 4")
    with pytest.raises(FolderError, match=r"was started with another recipe: .*model\.d_ff"):
        (place / "recipe.toml").write_text(recipe_with('init = "old"', model="d_ff = 13"))
        train(place / "recipe.toml", out=place / "new", quiet=True)
    with pytest.raises(FolderError, match="there is no model folder old"):
        train(place / "recipe.toml", out=place / "another", quiet=True)
    (place / "recipe.toml").write_text(recipe)
    with pytest.raises(
        FolderError, match=r"was started with another recipe: training\.init was \"old\" and is \"older\""
    ):
        train(place / "recipe.toml", out=place / "new", init="older", quiet=True)


def test_dropout_may_differ_and_little_else(place: Path) -> None:
    write_bundle(place / "old")
    (place / "recipe.toml").write_text(recipe_with('init = "old"', model="dropout = 0.25\nmax_len = 31"))
    spec = plan(place / "recipe.toml").given.model.spec(11, 11)
    assert (spec.dropout.residual, spec.max_len, spec.d_model) == (0.25, 31, 8)
    (place / "recipe.toml").write_text(recipe_with('init = "old"', model='d_ff = 13\nresidual = "pre"'))
    with pytest.raises(
        RecipeError, match=r"old is another model than .* d_ff = 11 there and 13 here; residual = 'post'"
    ):
        plan(place / "recipe.toml")
    with pytest.raises(RecipeError, match="num_heads = 2 there and 4 here"):
        plan(init="old", preset="tiny")
    (place / "recipe.toml").write_text(recipe_with('init = "old"') + '[tokenizer]\nkind = "word"\n')
    with pytest.raises(RecipeError, match=r"tokenizer\.kind = 'word' asks for another vocabulary than that of old"):
        plan(place / "recipe.toml")
    with pytest.raises(FolderError, match="there is no model folder nowhere"):
        plan(init="nowhere")


def test_each_piece_brings_its_rows(place: Path) -> None:
    before, after = train_exact("char", ["cab<x>"], tags=["x"]), train_exact("char", ["bdc", "d"], tags=["y", "x"])
    spec = small_model().spec
    old = build(replace(spec, source_vocab=len(before), target_vocab=len(before)))
    save_bundle("old", model=old, source_tokenizer=before, target_tokenizer=before, recipe={}, card="")
    new = build(replace(spec, source_vocab=len(after), target_vocab=len(after)))
    drawn = {name: tensor.clone() for name, tensor in new.state_dict().items()}
    said = inherit_weights(new, after, after, "old")
    assert said == "starting from the weights of old: 3 of 5 source pieces found in its vocabulary, the others are new"
    rows = dict(enumerate([0, 1, 2, 3]))
    for text in "bc":
        rows[after.encode(text)[0]] = before.encode(text)[0]
    rows[after.tag_id("x")] = before.tag_id("x")
    for name, tensor in new.state_dict().items():
        if tensor.size(0) != len(after) or ("table" not in name and "output" not in name):
            assert torch.equal(tensor, old.state_dict()[name]), name
            continue
        for row in range(len(after)):
            there = old.state_dict()[name][rows[row]] if row in rows else drawn[name][row]
            assert torch.equal(tensor[row], there), (name, row)


def test_mapping_in_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(place / "old")
    lines = ('init = "old"', 'init_vocabulary = "map"', 'freeze = ["encoder"]')
    (place / "recipe.toml").write_text(recipe_with(*lines) + '[tokenizer]\nkind = "char"\n')
    translator = train(place / "recipe.toml", out=place / "new")
    told = capsys.readouterr().err
    assert "10 of 10 source pieces found" in told and "10 of 10 target pieces found" in told
    assert "frozen: " in told and "from encoder.layers.0" in told
    assert len(translator.source_tokenizer) == 14 != len(tokenizer())
    old = load_bundle("old").model.state_dict()
    encoder = {name: t for name, t in translator.model.state_dict().items() if name.startswith("encoder")}
    assert all(torch.equal(tensor, old[name]) for name, tensor in encoder.items())


def test_the_model_folder_may_be_said_beside_the_recipe_that_needs_it(place: Path) -> None:
    write_bundle(place / "old")
    (place / "recipe.toml").write_text(recipe_with() + '[tokenizer]\nkind = "char"\n')
    said = plan(place / "recipe.toml", init="old", changes={"training.init_vocabulary": "map"}).given.training
    (place / "recipe.toml").write_text(recipe_with('init_vocabulary = "map"') + '[tokenizer]\nkind = "char"\n')
    assert plan(place / "recipe.toml", init="old").given.training == said
    with pytest.raises(RecipeError, match="'map' needs `init`"):
        plan(place / "recipe.toml")
