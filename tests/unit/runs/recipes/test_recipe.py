"""The schema: what is accepted, what is refused in words, and that what is written is read back."""

from __future__ import annotations

import math
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.models import Dropout, Rotary, TransformerSpec
from regard.runs.recipes.recipe import Corpus, DataOptions, ModelChoice, Recipe, check, dump, to_tables
from regard.runs.recipes.tables import read_tables
from regard.runs.recipes.toml import write_toml

EVERYTHING = {
    "data": {
        "source": ["a.en", "b.en"],
        "target": ["a.de", "b.de"],
        "corpora": [{"pairs": "x.tsv", "columns": [2, 1], "weight": 2, "tag": "fr"}],
        "valid_source": "v.en",
        "valid_target": ["v.de", "w.de"],
        "test_pairs": "t.jsonl",
        "several_answers": True,
        "filters": {"max_ratio": 3, "unique": True},
        "noise": {"source_word_dropout": 0.1},
    },
    "tokenizer": {"joint": True, "vocab_size": 701},
    "model": {"preset": "small", "positions": "rotary", "dropout": 0.2, "tie": "all"},
    "training": {"minutes": 5, "betas": [0.8, 0.99], "metric": "bleu"},
    "generation": {"beam": 7, "nbest": 3},
    "evaluation": {"metrics": ["bleu", "ter"], "bleu_tokenize": "none"},
}


def test_nothing_said_is_a_recipe() -> None:
    assert check({}) == Recipe()


def test_dump_is_read_back_equal() -> None:
    recipe = check(EVERYTHING)
    assert check(tomllib.loads(dump(recipe))) == recipe
    assert dump(check(tomllib.loads(dump(recipe)))) == dump(recipe)


def test_another_limit_replaces_the_default_number_of_updates() -> None:
    assert check({"training": {"minutes": 2}}).training.updates is None
    assert check({"training": {"minutes": 2, "updates": 7}}).training.updates == 7
    assert check({"training": {"seed": 2}}).training.updates == Recipe().training.updates


def test_model_table_is_a_preset_and_what_differs() -> None:
    spec = check(EVERYTHING).model.spec(31, 31)
    assert (spec.d_model, spec.source_vocab, spec.positions) == (256, 31, Rotary())
    assert spec.dropout == Dropout(0.2, 0.0, 0.0, 0.2)
    part = ModelChoice("big", {"dropout": {"attention": 0.1}}).spec(5, 7)
    assert part.dropout == Dropout(0.3, 0.1, 0.0, 0.3)


MISTAKES = [
    ({"training": {"learning_rat": 1.0}}, "training.learning_rat is unknown; did you mean 'learning_rate'"),
    ({"training": {"dropout": 0.1}}, r"training.dropout is unknown; it belongs in \[model\]"),
    ({"updates": 3}, r"updates is unknown; it belongs in \[training\]"),
    ({"modle": {}}, "modle is unknown; did you mean 'model'"),
    ({"training": {"seed": "x"}}, 'training.seed must be a whole number, but is "x"'),
    ({"training": {"seed": True}}, "training.seed must be a whole number, but is true"),
    ({"training": {"updates": 0}}, r"\[training\] `updates` must be at least 1, but is 0"),
    ({"training": {"schedule": "cosin"}}, "training.schedule = 'cosin' is unknown; did you mean 'cosine'"),
    ({"training": {"betas": [0.9]}}, "training.betas"),
    ({"training": {"metric": "blue"}}, "training.metric = 'blue' is not measured; did you mean 'bleu'"),
    ({"training": 3}, "training must be a table, but is 3"),
    ({"data": {"source": 3}}, "data.source must be a text or a list, but is 3"),
    ({"data": {"source": "a"}}, r"\[data\] `source` needs its `target`"),
    ({"data": {"source": ["a", "b"], "target": "c"}}, "`source` names 2 files but `target` 1"),
    ({"data": {"pairs": "a.tsv", "source": "b", "target": "c"}}, "`pairs` holds both sides and stands instead of"),
    ({"data": {"pairs": "a.tsv", "source": "b"}}, "`pairs` holds both sides and stands instead of"),
    ({"data": {"corpora": [{"weight": 2}]}}, "either `source` and `target` or `pairs`"),
    ({"data": {"kind": "Signal"}}, "data.kind = 'Signal' is unknown; did you mean 'signals'"),
    ({"data": {"kind": "char"}}, r"data.kind is unknown; it belongs in \[tokenizer\]"),
    ({"data": {"pairs": "a.tsv", "columns": [1, 1]}}, "`columns` must be two different numbers"),
    ({"data": {"valid_source": "a"}}, "`valid_source` and `valid_target` go together"),
    ({"data": {"valid_lines": 0}}, "`valid_lines` must be at least 1"),
    (
        {"data": {"corpora": [{"pairs": "a"}, {"wieght": 1}]}},
        r"data.corpora\[2\].wieght is unknown; did you mean 'weight'",
    ),
    ({"data": {"corpora": [{"pairs": "a", "weight": 0}]}}, r"\[data.corpora\[1\]\] `weight` of a must be above 0"),
    ({"data": {"filters": {"max_ratio": 0.5}}}, "`max_ratio` must be at least 1"),
    ({"data": {"temperature": 0}}, "`temperature` must be above 0"),
    ({"model": {"d_modle": 3}}, "model.d_modle is unknown; did you mean 'd_model'"),
    ({"model": {"preset": "tinny"}}, "model.preset = 'tinny' is unknown; did you mean 'tiny'"),
    ({"model": {"preset": 3}}, "model.preset must be a text, but is 3"),
    ({"model": {"source_vocab": 9}}, "set tokenizer.vocab_size"),
    ({"model": {"tie": "all"}}, "set tokenizer.joint = true"),
    (
        {"model": {"max_len": 100}, "data": {"filters": {"max_target_length": 97}}},
        "data.filters.max_source_length = 512 lets in more than the model can read",
    ),
    ({"model": {"dropout": {"x": 1}}}, "model.dropout.x is unknown"),
    ({"model": {"positions": "rotaryy"}}, "did you mean 'rotary'"),
    ({"generation": {"beam": 0}}, "`generation.beam` must be at least 1"),
    ({"evaluation": {"metrics": ["blu"]}}, r"evaluation.metrics\[1\] = 'blu' is unknown; did you mean 'bleu'"),
]


@pytest.mark.parametrize(("tables", "sentence"), MISTAKES, ids=[pattern for _, pattern in MISTAKES])
def test_a_mistake_is_told_with_its_key(tables: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecipeError, match=r"^r\.toml: ") as caught:
        check(tables, "r.toml")
    assert caught.match(sentence)
    assert "\n" not in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(RecipeError, match=r"^r\.toml: 3 mistakes\n") as caught:
        check({"training": {"seed": "x", "lr": 1}, "generation": {"beam": 0}}, "r.toml")
    assert len(str(caught.value).split("\n")) == 4


@pytest.mark.parametrize(
    ("tables", "mistakes"),
    [
        ({"training": {"warmup": -1, "seed": -1, "ema": 1.0, "schedule": "linear"}, "model": {"num_heads": 7}}, 4),
        ({"model": {"d_model": 0, "d_ff": "x", "d_modle": 3, "dropout": {"attention": 1.0, "residual": -1}}}, 4),
        ({"model": {"d_model": 0, "d_ff": 0}, "tokenizer": {"vocab_size": 3, "min_frequency": 0}}, 4),
        ({"data": {"source": "a", "valid_source": "b", "temperature": 0, "filters": {}}}, 3),
        ({"data": {"filters": {"max_source_length": 1, "max_ratio": 0.5}, "noise": {"source_sampling": 2.0}}}, 3),
        ({"model": {"max_len": 100}, "training": {"metric": "blue"}}, 3),
        ({"generation": {"beam": 5, "sampling": {"samples": 0, "top_p": 0.0}}}, 2),
        ({"generation": {"beam": 0, "groups": 0, "word_reward": 1e30, "no_repeat": -1}}, 4),
        ({"generation": {"nbest": 7, "groups": 3, "min_length": 7, "max_length": 5}}, 3),
    ],
)
def test_several_mistakes_of_a_section_are_told_at_once(tables: dict[str, object], mistakes: int) -> None:
    with pytest.raises(RecipeError, match=rf"^r\.toml: {mistakes} mistakes\n"):
        check(tables, "r.toml")


def test_corpora_are_files_in_the_data_folder() -> None:
    folder = Path("d")
    corpus = Corpus(source=("a.en", "/b.en"), target=("a.de", "-"), weight=2.0, tag="x")
    assert [(files.source, files.target, files.weight, files.tag) for files in corpus.files(folder)] == [
        ("d/a.en", "d/a.de", 2.0, "x"),
        ("/b.en", "-", 2.0, "x"),
    ]
    (files,) = Corpus(pairs="p.tsv", columns=(3, 1)).files(folder)
    assert (files.source, files.target, files.columns) == ("d/p.tsv", None, (3, 1))
    data = DataOptions(pairs=("p.tsv", "q.tsv"), corpora=(corpus,))
    assert [len(one.files(folder)) for one in data.all_corpora()] == [2, 2]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[data", "not TOML"),
        (b"x = '\xff'", "not valid UTF-8 at byte 6"),
        (b"a = " + b"[" * 5000, "not TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_recipe(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError, match=sentence):
        read_tables(path)


def test_a_byte_order_mark_and_carriage_returns_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(b"\xef\xbb\xbf" + b"[training]\r\nseed = 7\r\n")
    assert read_tables(path) == {"training": {"seed": 7}}


def test_every_field_of_a_spec_can_be_a_key() -> None:
    spec = check({}).model.spec(8, 8)
    for item in fields(TransformerSpec):
        if not item.name.endswith("_vocab") and item.name not in ("positions", "dropout"):
            tables = {"model": {item.name: getattr(spec, item.name)}}
            assert check(tomllib.loads(write_toml(to_tables(check(tables))))).model.spec(8, 8) == spec


ENDLESS = [
    ("data", "temperature"),
    ("data", "filters.max_ratio"),
    ("data", "noise.source_word_dropout"),
    ("data", "noise.target_sampling"),
    ("data", "corpora.weight"),
    ("tokenizer", "character_coverage"),
    ("model", "dropout"),
    ("model", "positions.base"),
    ("training", "minutes"),
    ("training", "learning_rate"),
    ("training", "eps"),
    ("training", "weight_decay"),
    ("training", "clip_norm"),
    ("training", "label_smoothing"),
    ("training", "ema"),
    ("generation", "length_penalty"),
    ("generation", "max_length_ratio"),
    ("generation", "min_length_ratio"),
    ("generation", "word_reward"),
    ("generation", "coverage_penalty"),
    ("generation", "diversity"),
    ("generation", "repetition_penalty"),
    ("generation", "sampling.temperature"),
    ("generation", "sampling.top_p"),
    ("generation", "sampling.min_p"),
]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("section", "key"), ENDLESS)
def test_what_is_no_number_or_has_no_end_is_refused_by_its_key(section: str, key: str, number: float) -> None:
    *table, name = key.split(".")
    value: object = {name: number}
    for part in reversed(table):
        value = {part: [{"pairs": "x.tsv", name: number}] if part == "corpora" else value}
    if table == ["positions"]:
        value = {"positions": {"kind": "rotary", "base": number}}
    with pytest.raises(RecipeError, match=name):
        check({section: value})  # type: ignore[dict-item]
