"""Keys said over a recipe: how they are read, what they change, and that they win."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.runs.recipes.changes import changed, read_changes
from regard.runs.recipes.plan import plan


def test_values_are_toml_and_words_need_no_quotes() -> None:
    lines = ["training.updates=7", "model.tie = all", 'model.positions={kind = "rotary"}', "data.source=a=b.txt"]
    assert read_changes(lines) == {
        "training.updates": 7,
        "model.tie": "all",
        "model.positions": {"kind": "rotary"},
        "data.source": "a=b.txt",
    }


@pytest.mark.parametrize("line", ["updates=7", "training.updates", "training.updates=", ".updates=7", "=7", "a..b=7"])
def test_a_line_without_key_or_value_is_refused(line: str) -> None:
    with pytest.raises(RecipeError, match=r"--set must be like training\.updates=500, but is "):
        read_changes([line])


def test_a_key_comes_once() -> None:
    with pytest.raises(RecipeError, match=r"--set names training\.seed twice"):
        read_changes(["training.seed=2", "training.seed=3"])


def test_tables_are_changed_deeply_and_left_as_they_were() -> None:
    tables = {"model": {"dropout": {"residual": 0.1, "embedding": 0.2}}}
    found = changed(tables, {"model.dropout.residual": 0.3, "training.updates": 5})
    assert found == {"model": {"dropout": {"residual": 0.3, "embedding": 0.2}}, "training": {"updates": 5}}
    assert tables == {"model": {"dropout": {"residual": 0.1, "embedding": 0.2}}}


def test_a_key_inside_of_a_value_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"model\.positions\.kind cannot be said: model\.positions is no table"):
        changed({"model": {"positions": "none"}}, {"model.positions.kind": "rotary"})


def test_changes_win_over_the_file_and_a_mistake_is_not_blamed_on_it(tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[data]\nsource = "a"\ntarget = "b"\n[training]\nupdates = 11\nlabel_smoothing = 0.1\n')
    asked = plan(recipe, changes={"training.label_smoothing": 0.2})
    assert (asked.given.training.label_smoothing, asked.given.training.updates) == (0.2, 11)
    with pytest.raises(RecipeError, match=r"r\.toml and the command line: training\.updatse is .*updates"):
        plan(recipe, changes={"training.updatse": 5})


def test_nothing_behind_a_value_is_dropped() -> None:
    assert read_changes(["training.seed=2\nupdates = 3"]) == {"training.seed": "2\nupdates = 3"}
    assert read_changes(["data.source=[1,\n2]"]) == {"data.source": [1, 2]}
