"""What must not change between a run and its resumption, and the words for what did."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from regard.errors import RecipeError
from regard.training.options import CHANGEABLE, TrainingOptions

_DIGEST = re.compile(r'"[0-9a-f]{16}"')
"""What stands for the content of files, and tells a person nothing."""


def fingerprint(options: TrainingOptions, rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options that a resumed run must share, with ``rest``, as JSON gives them back."""
    kept = {key: value for key, value in dataclasses.asdict(options).items() if key not in CHANGEABLE}
    return dict(json.loads(json.dumps({"training": kept, **rest})))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> list[str]:
    """Return a clause for every key whose value differs; keys of nested tables are joined by dots.

    A key that ``before`` lacks counts as its default, if it has one: an older Regard did not know it.
    """
    old, new = _leaves(before), _leaves(now)
    old = {key: value for key, value in _leaves(defaults or {}).items() if key in new} | old
    return [
        _clause(key, _shown(old, key), _shown(new, key))
        for key in sorted(old.keys() | new.keys())
        if (key in old, old.get(key)) != (key in new, new.get(key))
    ]


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise RecipeError that lists every key whose value is not what the run was started with."""
    defaults = fingerprint(TrainingOptions(), {})
    if found := changes(before, now, defaults):
        raise RecipeError(
            f"the run in this folder was started otherwise: {'; '.join(found)}. "
            "Restore these to go on, or train in another folder"
        )


def _clause(key: str, before: str, now: str) -> str:
    if _DIGEST.fullmatch(before) and _DIGEST.fullmatch(now):
        return f"the content of the {key.replace('_', ' ')} has changed"
    return f"{key} was {before} and is {now}"


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    return json.dumps(leaves[key], ensure_ascii=False) if key in leaves else "not set"


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= _leaves(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
