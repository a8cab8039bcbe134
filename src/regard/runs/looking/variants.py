"""What is varied of a recipe, and can every variant be trained? All of it is found out before the first is."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from regard.errors import DataError, RecipeError
from regard.runs.recipes.changes import Changes, changed, key_and_text, value_of
from regard.runs.recipes.recipe import DataOptions, ModelChoice, Recipe, check, dump, listed
from regard.runs.recipes.signal_recipe import ClassifierChoice, check_signals, dump_signals
from regard.runs.recipes.tables import Tables, in_folder, is_of_signals
from regard.runs.saying import Say


@dataclass(frozen=True)
class Variant:
    """One way to fill in what is varied.

    Attributes:
        name: ``model.positions=none``; several keys are joined by commas.
        changes: what is filled in.
    """

    name: str
    changes: Changes


def variants(vary: Sequence[str]) -> list[Variant]:
    """Return every combination of the values in lines such as ``model.positions=none,learned``.

    A key with one value holds for all variants and is not part of their names.

    Raises:
        RecipeError: A line has no key or no value, or a key comes twice.
    """
    choices: dict[str, list[Any]] = {}
    for line in vary:
        key, values = key_and_text(line, "--vary", "model.positions=none,learned")
        if key in choices:
            raise RecipeError(f"--vary names {key} twice; give all its values in one")
        if key == "training.seed":
            raise RecipeError("seeds are not varied as a key: use --seeds")
        choices[key] = _values(values)
    varied = [key for key, values in choices.items() if len(values) > 1] or list(choices)
    found = []
    for combination in product(*choices.values()):
        changes = dict(zip(choices, combination, strict=True))
        found.append(Variant(", ".join(f"{key}={_shown(changes[key])}" for key in varied), changes))
    return found


def usable(chosen: Sequence[Variant], tables: Tables, recipe: str | Path, data: Path, say: Say) -> list[Variant]:
    """Return the variants that differ, after a look at every one.

    Args:
        chosen: From `variants`.
        tables: Of the recipe.
        recipe: Its name, for messages.
        data: Where relative paths start.
        say: Told of variants that come to the same recipe as one before.

    Raises:
        RecipeError: One is no recipe, or has nothing to train on.
        DataError: It names a file that is not there.
    """
    known: dict[Hashable, Variant] = {}
    for variant in chosen:
        where = f"{recipe} with {variant.name}"
        filled = changed(tables, variant.changes)
        sense, files = _of_signals(filled, where, data) if is_of_signals(filled) else _of_text(filled, where, data)
        for key, path in files:
            if path == "-":
                raise RecipeError(f"{where}: several trainings cannot read standard input ({key}); name a file")
            if not Path(path).is_file():
                raise DataError(f"{path}: there is no such file ({key} of {where})")
        if (same := known.setdefault(sense, variant)) is not variant:
            say(f"{variant.name} comes to the same as {same.name}, which is trained once")
    return [*known.values()]


# Both return what a recipe comes to, however it is spelled, and the key and path of each file that it reads.
# A model may be spelled in several ways, "none" and {kind = "none"}; its spec has one.


def _of_text(tables: Tables, where: str, data: Path) -> tuple[Hashable, list[tuple[str, str]]]:
    whole = check(tables, where)
    if not whole.data.all_corpora():
        raise RecipeError(f"{where}: nothing to train on; name source and target, or pairs, in [data]")
    sense = dump(replace(whole, model=ModelChoice())), whole.model.spec(source_vocab=8, target_vocab=8)
    return sense, [*_files(whole, data)]


def _of_signals(tables: Tables, where: str, data: Path) -> tuple[Hashable, list[tuple[str, str]]]:
    whole = check_signals(tables, where)
    sense = dump_signals(replace(whole, model=ClassifierChoice())), whole.model.spec(2, 1, 64)
    named = ((f"data.{name}", getattr(whole.data, name)) for name in ("train", "valid", "test"))
    return sense, [(key, in_folder(data, path)) for key, path in named if path is not None]


def _files(recipe: Recipe, data: Path) -> Iterator[tuple[str, str]]:
    """Yield the key and path of each file that a recipe reads."""
    for corpus in recipe.data.all_corpora():
        for files in corpus.files(data):
            yield from (("data", path) for path in files.paths)
    yield from _set_files(recipe.data, data)
    for key in ("source_model", "target_model"):
        if (path := getattr(recipe.tokenizer, key)) is not None:
            yield f"tokenizer.{key}", in_folder(data, path)


def _set_files(options: DataOptions, data: Path) -> Iterator[tuple[str, str]]:
    for name in ("valid", "test"):
        for side in ("source", "target", "pairs"):
            key = f"{name}_{side}"
            yield from ((f"data.{key}", in_folder(data, path)) for path in listed(getattr(options, key)))


def _values(text: str) -> list[Any]:
    """Return the values of ``none, 3, {kind = "rotary"}``: TOML, where a word may stand without its quotes."""
    try:
        values: list[Any] = tomllib.loads(f"x = [{text}]")["x"]
    except tomllib.TOMLDecodeError:
        values = [value_of(part.strip()) for part in text.split(",")]
    if any(value == "" for value in values):
        raise RecipeError(f"--vary has an empty value in {text!r}")
    return values


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_shown(inner)}" for key, inner in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)
