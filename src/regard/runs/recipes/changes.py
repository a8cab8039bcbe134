"""What does a caller change in a recipe, key by key, as in ``training.updates=500``? Read, and put in its tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from regard.errors import RecipeError
from regard.runs.recipes.tables import Tables

Changes = Mapping[str, Any]
"""``section.key`` to its value."""


def read_changes(lines: Sequence[str]) -> dict[str, Any]:
    """Return the changes in lines such as ``training.updates=500``: TOML, where a word may stand without its quotes.

    Raises:
        RecipeError: a line has no key or no value, or a key comes twice.
    """
    changes: dict[str, Any] = {}
    for line in lines:
        key, value = key_and_text(line, "--set", "training.updates=500")
        if key in changes:
            raise RecipeError(f"--set names {key} twice")
        changes[key] = value_of(value)
    return changes


def key_and_text(line: str, flag: str, example: str) -> tuple[str, str]:
    """Return the two sides of ``line``; a mistake names the ``flag`` that it was given by, and an ``example``.

    Raises:
        RecipeError: there is no key of a section, or no value.
    """
    key, equals, text = (part.strip() for part in line.partition("="))
    if not equals or not text or not all(key.split(".")) or "." not in key:
        raise RecipeError(f"{flag} must be like {example}, but is {line!r}")
    return key, text


def value_of(text: str) -> Any:
    """Return what TOML reads in ``text``, or, where it is none, the text itself."""
    try:
        read = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):  # not TOML, or a number of thousands of digits
        return text
    return read["x"] if len(read) == 1 else text  # of several lines each might be a key


def with_own(changes: Changes, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``changes`` and those keys that have a flag or an argument of their ``own``, where that is not None.

    Raises:
        RecipeError: a key is said both ways.
    """
    said = {key: str(value) if isinstance(value, Path) else value for key, value in own.items() if value is not None}
    if twice := sorted(said.keys() & changes.keys()):
        raise RecipeError(f"{twice[0]} is said twice, by a name of its own and as a key; say it once")
    return {**said, **changes}


def changed(tables: Mapping[str, Any], changes: Changes) -> Tables:
    """Return the tables of a recipe with the changes made.

    Raises:
        RecipeError: a change is of a key inside of what is no table.
    """
    result: Tables = deepcopy(dict(tables))
    for key, value in changes.items():
        *sections, last = key.split(".")
        place: Any = result
        for depth, section in enumerate(sections, start=1):
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise RecipeError(f"{key} cannot be said: {'.'.join(sections[:depth])} is no table, but {place!r}")
        place[last] = value
    return result
