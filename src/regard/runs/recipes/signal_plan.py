"""Which recipe of signals is in effect? The file, what the caller changes, and else what fits the cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.runs.recipes.changes import Changes, changed
from regard.runs.recipes.signal_recipe import SignalRecipe, check_signals, complete
from regard.runs.recipes.tables import data_folder, in_folder, read_tables
from regard.signals.readers import SignalSet, read_signals


@dataclass(frozen=True)
class SignalPlan:
    """What is to be done.

    Attributes:
        recipe: with every key in effect.
        sentence: says what was chosen.
        folder: where relative paths start.
        train: what is learned from, where it is a file.
    """

    recipe: SignalRecipe
    sentence: str
    folder: Path
    train: SignalSet | None


def plan_signals(
    recipe: str | Path | Mapping[str, Any],
    *,
    data: str | Path | None = None,
    changes: Changes | None = None,
    warmup: int | None = None,
) -> SignalPlan:
    """Return the recipe in effect, after a look at the number of cases.

    Args:
        recipe: a TOML file, or its tables.
        data: the folder where relative paths start; left out, that of the recipe file, else the current one.
        changes: keys that win over those of the recipe, as ``{"training.updates": 500}``.
        warmup: of the run that is gone on with: it stays, though the run may now be asked to go on for longer.

    Raises:
        InputError: a recipe, file or folder cannot be used.
    """
    if isinstance(recipe, Mapping):
        tables, where, file = {name: dict(table) for name, table in recipe.items()}, "recipe", None
    else:
        tables, where, file = read_tables(recipe), str(recipe), recipe
    if changes:
        where = f"{where} and the command line"
        tables = changed(tables, changes)
    given = check_signals(tables, where).data
    if warmup is not None:
        tables["training"] = {"warmup": warmup, **tables.get("training", {})}
    folder = data_folder(data, file)
    train = None if given.train is None else read_signals(in_folder(folder, given.train), given.layout)
    tables, sentence = complete(tables, given.cases if train is None else len(train.cases))
    return SignalPlan(check_signals(tables, where), sentence, folder, train)
