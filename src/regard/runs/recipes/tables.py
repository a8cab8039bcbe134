"""What do recipes of text and of signals have in common? Tables as TOML has them, and where relative paths start."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import FolderError, RecipeError, nearest
from regard.training.options import LENGTHS

Tables = dict[str, dict[str, Any]]
"""A recipe as TOML has it: section -> key -> value, with only the keys that somebody gave."""


def read_tables(path: str | Path) -> Tables:
    """Return the tables of a recipe file, as they stand.

    Raises:
        RecipeError: the file cannot be read or is not TOML.
    """
    try:
        tables = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise RecipeError(f"{path}: the recipe cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not valid UTF-8 at byte {error.start + 1}") from None
    except (ValueError, RecursionError) as error:  # not TOML, or a number of thousands of digits
        raise RecipeError(f"{path}: not TOML: {error}") from None
    return tables


def is_of_signals(tables: Mapping[str, Any]) -> bool:
    """Whether the tables of a recipe say ``kind = "signals"`` in ``[data]``; they may be anything that TOML holds."""
    data = tables.get("data")
    return isinstance(data, Mapping) and data.get("kind") == "signals"


def with_changes(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a spec with those that a table ``[model]`` changes, its short forms written out."""
    changes = dict(changes)
    if isinstance(changes.get("positions"), str):
        changes["positions"] = {"kind": changes["positions"]}
    if isinstance(share := changes.get("dropout"), int | float):
        changes["dropout"] = {"embedding": share, "residual": share}
    if isinstance(places := changes.get("dropout"), Mapping):
        changes["dropout"] = {**spec["dropout"], **places}
    return {**spec, **changes}


def with_limits(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``tables`` with ``updates`` None where only another limit is given: TOML has no word for it."""
    tables = {name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()}
    if isinstance(training := tables.get("training"), dict) and limited_otherwise(training):
        training["updates"] = None
    return tables


def limited_otherwise(training: Mapping[str, Any]) -> bool:
    """Whether the keys of a table ``[training]`` end a run by something else than a number of updates."""
    return "updates" not in training and not LENGTHS.isdisjoint(training)


def unmeasured(metric: str, figures: Collection[str]) -> Iterator[str]:
    """Tell if ``metric``, which is to decide what is best, is none of the figures of validation."""
    if metric not in figures:
        yield f"training.metric = {metric!r} is not measured{nearest(metric, figures)}"


def data_folder(data: str | Path | None, recipe: str | Path | None) -> Path:
    """Return where relative paths start: ``data`` if given, else the folder of the recipe file, else the current one.

    Raises:
        FolderError: there is no such folder.
    """
    folder = Path(data) if data is not None else Path() if recipe is None else Path(recipe).parent
    if not folder.is_dir():
        raise FolderError(f"there is no data folder {folder}")
    return folder


def in_folder(folder: Path, path: str) -> str:
    """Return ``path`` taken from ``folder`` if it is relative; ``-`` stays standard input."""
    return path if path == "-" else str(folder / path)
