"""What is in effect: the recipe file, what is said beside it, and what fits the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import FolderError, RecipeError
from regard.runs.recipes.defaults import Extent, complete
from regard.runs.recipes.plan import plan
from unit.runs.toys import write_corpus


def test_what_is_said_wins_over_the_file(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    asked = plan(tmp_path / "recipe.toml", updates=11, preset="small", seed=5)
    training = asked.given.training
    assert (training.updates, training.seed, training.warmup) == (11, 5, 2)
    assert (asked.given.model.preset, asked.given.model.changes["d_model"]) == ("small", 8)
    assert asked.data == tmp_path
    assert [files.source for files in asked.corpora()] == [str(tmp_path / "train.src")]


def test_a_length_is_chosen_by_a_flag_or_a_recipe(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    assert not plan(pairs="p.tsv").length_chosen
    assert plan(pairs="p.tsv", minutes=0.5).length_chosen
    assert plan(tmp_path / "recipe.toml").length_chosen  # updates = 3


def test_another_corpus_takes_the_place_of_the_recipes(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    asked = plan(tmp_path / "recipe.toml", pairs="p.tsv", valid=("v.src", "v.tgt"))
    assert [files.paths for files in asked.corpora()] == [(str(tmp_path / "p.tsv"),)]
    assert (asked.given.data.valid_source, asked.given.data.valid_target) == ("v.src", "v.tgt")
    assert asked.given.data.valid_lines == 5


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ('[model]\ntie = "all"', {"tokenizer.joint": True}),
        ("[model]\nnum_heads = 7", {"model.d_model": 91}),
        ("[generation]\nnbest = 7", {"generation.beam": 11}),
        ('[training]\naverage = "last"\naverage_count = 7', {"training.keep_last": 7}),
        ('[training]\nschedule = "linear"\nminutes = 3', {"training.updates": 5}),
        ('[data]\nvalid_source = "v"', {"data.valid_target": "w"}),
    ],
)
def test_a_recipe_may_need_what_is_said_beside_it(tmp_path: Path, recipe: str, said: dict[str, object]) -> None:
    path = tmp_path / "r.toml"
    path.write_text(recipe)
    section, key = next(iter(said)).split(".")
    given = plan(path, changes=said).given
    options = given.model.changes if section == "model" else vars(getattr(given, section))
    assert options[key] == said[f"{section}.{key}"]


def test_of_the_files_of_a_recipe_only_those_are_replaced_that_others_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('[data]\nsource = "a"\ntarget = "b"\nvalid_pairs = "v"\n')
    data = plan(path, target="c", changes={"data.valid_source": "x", "data.valid_target": "y"}).given.data
    assert (data.source, data.target, data.pairs) == ("a", "c", None)
    assert (data.valid_source, data.valid_target, data.valid_pairs) == ("x", "y", None)
    path.write_text('[data]\npairs = "p"\ncolumns = [3, 2]\n[[data.corpora]]\npairs = "q"\n')
    assert plan(path, pairs="r").given.data.columns == (3, 2)
    assert plan(path, pairs="r", changes={"data.columns": [1, 2]}).given.data.columns == (1, 2)
    assert plan(path, pairs="r").given.data.corpora == ()
    assert plan(path, source="s", target="t").given.data.columns is None


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        ({"source": "d/train.en", "target": "e/train.de.gz"}, "en-de"),
        ({"source": "english.txt", "target": "german.txt"}, "english"),
        ({"pairs": "words.tsv.gz"}, "words"),
        ({}, "run"),
    ],
)
def test_a_run_is_named_after_its_files(paths: dict[str, str], name: str) -> None:
    assert plan(**paths).out == Path("runs") / name


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"training\.updates is said twice"):
        plan(updates=5, changes={"training.updates": 7})
    with pytest.raises(RecipeError, match="nothing to train on"):
        plan().corpora()
    with pytest.raises(
        RecipeError, match="validation takes a file of pairs, or a source and a target file, not 3 files"
    ):
        plan(valid=("a", "b", "c"))
    with pytest.raises(RecipeError, match=r"the command line: .*`updates` must be at least 1"):
        plan(updates=0)
    with pytest.raises(FolderError, match="no data folder"):
        plan(data=tmp_path / "nowhere")


def test_extent_counts_by_kind_of_token() -> None:
    extent = Extent.of(["ab cd", "", "efghi"])
    assert extent == Extent(pairs=3, target_words=4, target_characters=10)
    assert extent.target_tokens("word") == 3 + 4
    assert extent.target_tokens("char") == 3 + 10
    assert extent.target_tokens("sentencepiece") == 3 + 2  # 10 / 4.5


def test_small_corpora_get_a_small_model_and_many_passes() -> None:
    tables, sentence = complete({}, Extent(29_000, 320_000, 1_900_000))
    norms = {"residual": "pre", "encoder_final_norm": True, "decoder_final_norm": True}
    assert tables["model"] == {"preset": "tiny", "dropout": 0.3, "tie": "all", **norms}
    assert tables["tokenizer"] == {"joint": True}
    # 451,222 tokens are 110.2 batches of 4,096; 40 passes are 4,406 updates
    assert tables["training"] == {
        "max_tokens": 4096,
        "updates": 4400,
        "warmup": 440,
        "validate_every": 220,
        "save_every": 220,
        "learning_rate": 2e-3,
    }
    assert sentence == (
        '29,000 pairs, about 451,222 target tokens; chosen to fit: model.preset = "tiny", model.residual = "pre", '
        "model.encoder_final_norm = true, model.decoder_final_norm = true, model.dropout = 0.3, "
        'tokenizer.joint = true, model.tie = "all", training.max_tokens = 4096, training.updates = 4400, '
        "training.warmup = 440, training.validate_every = 220, training.save_every = 220, "
        "training.learning_rate = 0.002"
    )


def test_a_short_run_warms_up_in_its_time_and_a_longer_one_goes_on_with_that() -> None:
    extent = Extent(29_000, 320_000, 1_900_000)
    warmups = {
        minutes: complete({"training": {"minutes": minutes}}, extent)[0]["training"]["warmup"]
        for minutes in (0.5, 2, 10, 120)
    }
    assert warmups == {0.5: 20, 2: 50, 10: 250, 120: 440}
    assert complete({"training": {"minutes": 10}}, extent, warmup=50)[0]["training"]["warmup"] == 50


@pytest.mark.parametrize(
    ("length", "warmup", "validate_every"),
    [({"updates": 61}, 20, 50), ({"updates": 2}, 1, 50), ({"epochs": 5}, 55, 50), ({"updates": 9000}, 900, 450)],
)
def test_warm_up_and_validation_follow_the_length_asked_for(
    length: dict[str, int], warmup: int, validate_every: int
) -> None:
    tables, _ = complete({"training": {**length}}, Extent(29_000, 320_000, 1_900_000))
    assert (tables["training"]["warmup"], tables["training"]["validate_every"]) == (warmup, validate_every)


def test_large_corpora_get_a_large_one() -> None:
    tables, _ = complete({}, Extent(2_000_000, 50_000_000, 270_000_000))
    assert (tables["model"]["preset"], tables["model"]["dropout"]) == ("base", 0.1)
    assert (tables["training"]["updates"], tables["training"]["warmup"]) == (100_000, 4000)


def test_what_somebody_chose_is_kept() -> None:
    given = {
        "tokenizer": {"kind": "char", "target_kind": "word"},
        "model": {"preset": "big", "dropout": 0.0},
        "training": {
            "minutes": 5,
            "max_tokens": 97,
            "warmup": 3,
            "validate_every": 7,
            "save_every": 5,
            "learning_rate": 1,
        },
    }
    tables, sentence = complete(given, Extent(100, 700, 3000))
    assert (tables, sentence) == (given, "100 pairs, about 800 target tokens")
    separate = complete({"tokenizer": {"joint": False}}, Extent(100, 700, 3000))[0]
    assert "tie" not in separate["model"]
    untied = complete({"model": {"tie": "none"}}, Extent(100, 700, 3000))[0]
    assert "joint" not in untied["tokenizer"]


def test_a_named_preset_keeps_its_norms() -> None:
    tables, sentence = complete({"model": {"preset": "tiny"}}, Extent(29_000, 320_000, 1_900_000))
    assert "residual" not in tables["model"] and "residual" not in sentence
