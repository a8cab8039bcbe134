"""Each doubt is told for a text that deserves it, and none for a clean one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from regard.data import open_raw
from regard.runs.recipes.plan import plan
from regard.runs.saying import say_nothing
from regard.runs.training.doubts import doubts
from regard.runs.training.folder import RunFolder
from regard.runs.training.prepare import prepare

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def told(
    folder: Path,
    source: list[str],
    target: list[str],
    recipe: str,
    valid: tuple[list[str], list[str]] | None = None,
    init: str | None = None,
) -> list[str]:
    def write(name: str, lines: list[str]) -> None:
        (folder / name).write_text("".join(f"{line}\n" for line in lines))

    write("s", source)
    write("t", target)
    if valid is not None:
        write("vs", valid[0])
        write("vt", valid[1])
        recipe = recipe.replace("[data]", '[data]\nvalid_source = "vs"\nvalid_target = "vt"')
    (folder / "recipe.toml").write_text(recipe)
    asked = plan(folder / "recipe.toml", source="s", target="t")
    run = RunFolder(folder / "run")
    raw = open_raw(asked.corpora(), run.cache)
    effective, _ = asked.recipe(raw.target_lines())
    prepared = prepare(effective, raw, run, asked.data, say_nothing)
    return doubts(prepared, replace(effective, training=replace(effective.training, init=init)))


def sentences(count: int, ending: str = "", seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) + ending for _ in range(count)]


WORD = '[data]\n[tokenizer]\nkind = "word"\n'
PIECES = '[data]\n[tokenizer]\nkind = "sentencepiece"\nvocab_size = VOCAB\n'


def test_a_clean_text(tmp_path: Path) -> None:
    lines = sentences(200)
    assert told(tmp_path, lines, lines[::-1], WORD) == []


def test_the_same_file_for_both_sides(tmp_path: Path) -> None:
    lines = sentences(200)
    assert told(tmp_path, lines, lines, WORD) == [
        "source and target are the same text in 100% of the pairs; look whether one file stands for both sides"
    ]
    assert told(tmp_path, lines, [*lines[:99], *lines[:98:-1]], WORD) == []


def test_validation_files_that_changed_places(tmp_path: Path) -> None:
    lines, others = sentences(199), sentences(31, seed=2)
    loud = [line.replace("o", "ö").replace("e", "é") for line in lines]
    valid = others, [line.replace("o", "ö").replace("e", "é") for line in others]
    assert told(tmp_path, lines, loud, WORD, valid) == []
    assert told(tmp_path, lines, loud, WORD, valid[::-1])[0].startswith(
        "the validation text looks swapped: its sources"
    )
    reversals = [line[::-1] for line in lines], [line[::-1] for line in others]
    assert told(tmp_path, lines, reversals[0], WORD, (others, reversals[1])) == [], "the same characters on both sides"


@pytest.mark.parametrize(
    ("source", "recipe", "expected"),
    [
        (sentences(200, "."), WORD, r"the source side looks unsplit: 1\d% of its words end in a punctuation mark"),
        (
            ["".join(line.split()) + "aaaaaaaaaaaaaaa" for line in sentences(200)],
            WORD,
            "100% of its long lines have no space",
        ),
        (
            [line.replace("e ", "@@ e ") for line in sentences(200)],
            PIECES.replace("VOCAB", "285"),
            "looks cut into pieces already: 88%",
        ),
    ],
)
def test_what_the_text_looks_like(tmp_path: Path, source: list[str], recipe: str, expected: str) -> None:
    found = told(tmp_path, source, sentences(200), recipe)
    with pytest.raises(AssertionError, match=expected):
        raise AssertionError(found)


def test_unknown_words_and_bytes(tmp_path: Path) -> None:
    lines = sentences(200)
    valid = [*sentences(10, seed=2), "eleven twelve"], sentences(11, seed=3)
    (found,) = told(tmp_path, lines, lines[::-1], WORD, valid)
    assert found.startswith("2.") or found.startswith("3."), found
    assert "of the tokens of the source side of the validation text are unknown" in found
    odd = [line + " " + "äöüßéèêñçøåæœðþĸŋħŧłđ"[i % 21] for i, line in enumerate(lines)]
    found = told(tmp_path, odd, lines, PIECES.replace("VOCAB", "285") + "character_coverage = 0.98\n")
    assert any("of the source side of the training text are single bytes" in one for one in found), found


def test_how_fewer_words_become_unknown(tmp_path: Path) -> None:
    lines = sentences(200, seed=2)
    rare = [f"{line} rare{i}" for i, line in enumerate(sentences(200))]
    (whole,) = told(tmp_path, lines, lines[::-1], WORD, (rare[:7], lines[:7]))
    frequent, _ = told(tmp_path, rare, lines, WORD + "min_frequency = 2\n")
    short, _ = told(tmp_path, rare, lines, WORD + "vocab_size = 17\n")
    assert whole.endswith('cannot be learned; let tokenizer.kind be "sentencepiece"')
    assert frequent.endswith("cannot be learned; lower min_frequency in [tokenizer]")
    assert short.endswith("cannot be learned; raise vocab_size in [tokenizer]")


def test_a_vocabulary_of_another_text(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in WORDS[:7]))
    training, validation = told(tmp_path, sentences(200), sentences(200, seed=2), WORD + 'source_model = "words"\n')
    for found in (training, validation):
        assert found.endswith("cannot be learned; leave out tokenizer.source_model")
    (inherited,) = told(tmp_path, sentences(200), sentences(200, seed=2), WORD, (["eleven"], ["one"]), init="older")
    assert inherited.endswith('cannot be learned; set training.init_vocabulary = "map"')


def test_lengths_duplicates_and_a_large_vocabulary(tmp_path: Path) -> None:
    lines = sentences(200)
    valid = [*lines[:3], *sentences(4, seed=5)], sentences(7, seed=6)
    # of the seven validation lines three are too long as well
    filters = "[data.filters]\nmax_source_length = 8\n"
    found = told(tmp_path, lines, lines[::-1], WORD + filters, valid)
    assert len(found) == 2
    assert found[0].startswith("left out, because a side is longer than data.filters allow: ")
    assert "of 200 pairs" in found[0]
    assert found[1].startswith("the training text holds 2 of 4 validation sources too")
    (clipped, _) = told(tmp_path, lines, lines[::-1], WORD + filters + 'overlong = "clip"\n', valid)
    assert clipped.startswith("clipped, because a side")
    rare = [f"{line} rare{i}" for i, line in enumerate(lines)]
    (large,) = told(tmp_path, rare, lines, WORD, (lines[:0] or sentences(9, seed=8), sentences(9, seed=9)))
    assert large.startswith("the source vocabulary is larger than the text supports: 95% of its 210 entries occur")
    assert "min_frequency = 2" in large
