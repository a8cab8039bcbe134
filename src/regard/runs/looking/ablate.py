"""What does a choice of a recipe bring? One training per variant and seed, one after the other, and a table of results.

::

    runs/ablate-NAME/
      model.positions=none/seed-1/     a run like any other, with figures.json once it is finished
      recipes/                         the recipe of each variant
      ablation.json                    all figures
      ablation.png                     the same as a picture
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from regard.errors import FolderError, InputError, MissingExtraError, RecipeError
from regard.inspection import draw_table
from regard.inspection.figures import compared_variants, image_bytes
from regard.runs.looking.trial import check_any, trial
from regard.runs.recipes.recipe import Tables, read_tables
from regard.runs.recipes.toml import write_toml
from regard.runs.saying import Say
from regard.runs.training.folder import RunFolder
from regard.storage import write_bytes


@dataclass(frozen=True)
class Variant:
    """One way to fill in what is varied.

    Attributes:
        name: ``model.positions=none``; several keys are joined by commas.
        changes: ``section.key`` to its value.
    """

    name: str
    changes: Mapping[str, Any]

    def tables(self, tables: Mapping[str, Any]) -> Tables:
        """Return the tables of a recipe with the changes made."""
        changed: Tables = json.loads(json.dumps(tables, default=str))
        for key, value in self.changes.items():
            *sections, last = key.split(".")
            place: dict[str, Any] = changed
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        return changed


@dataclass(frozen=True)
class Outcome:
    """What one training came to.

    Attributes:
        variant: The name of the variant.
        seed: Of everything random.
        parameters: Of the model.
        figures: On the validation set and, as ``test.…``, on the test set of the recipe: of the finished model.
        folder: Of the run.
    """

    variant: str
    seed: int
    parameters: int
    figures: Mapping[str, float]
    folder: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them; what is not finite is null."""
        figures = {name: value if math.isfinite(value) else None for name, value in self.figures.items()}
        return {**vars(self), "figures": figures}


def variants(vary: Sequence[str]) -> list[Variant]:
    """Return every combination of the values in lines such as ``model.positions=none,learned``.

    A key with one value holds for all variants and is not part of their names.

    Raises:
        RecipeError: A line has no key or no value, or a key comes twice.
    """
    choices: dict[str, list[Any]] = {}
    for line in vary:
        key, equals, values = line.partition("=")
        key = key.strip()
        if not equals or not values.strip() or "." not in key:
            raise RecipeError(f"--vary must be like model.positions=none,learned, but is {line!r}")
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


def ablate(
    recipe: str | Path,
    vary: Sequence[str],
    *,
    seeds: int = 3,
    out: str | Path | None = None,
    data: str | Path | None = None,
    device: str = "auto",
    quiet: bool = False,
    say: Say,
) -> list[Outcome]:
    """Train every variant with every seed, one after the other; what was finished before is not trained again.

    Args:
        recipe: A TOML file, of text or of signals.
        vary: Keys and their values, as :func:`variants` reads them.
        seeds: How many seeds: 1, 2, … the same for each variant.
        out: A folder; left out, one named after the recipe, in ``runs``.
        data: Where relative paths start; left out, the folder of the recipe.
        device: Where to compute.
        quiet: Say nothing of each training.
        say: Told which training begins, and what is missing at the end.

    Raises:
        InputError: A variant is no recipe (all are checked before the first is trained), or the folder holds others.
        InterruptedRun: Asked to stop; everything is saved, and the same call goes on.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, but is {seeds}")
    chosen = variants(vary)
    tables = read_tables(recipe)
    for variant in chosen:
        check_any(variant.tables(tables), f"{recipe} with {variant.name}")
    folder = Path(out) if out is not None else Path("runs") / f"ablate-{Path(recipe).stem}"
    data = Path(data) if data is not None else Path(recipe).parent
    outcomes = []
    jobs = [(variant, seed) for seed in range(1, seeds + 1) for variant in chosen]
    for number, (variant, seed) in enumerate(jobs, 1):
        say(f"{number} of {len(jobs)}: {variant.name}, seed {seed}")
        outcomes.append(_trained(variant, seed, tables, folder, data, device, quiet))
    rank = {variant.name: place for place, variant in enumerate(chosen)}
    outcomes.sort(key=lambda outcome: (rank[outcome.variant], outcome.seed))
    found = [outcome.to_json() for outcome in outcomes]
    write_bytes(folder / "ablation.json", json.dumps(found, indent=1, ensure_ascii=False).encode() + b"\n")
    try:
        picture = image_bytes(compared_variants(_by_figure(outcomes), title=Path(recipe).stem))
        write_bytes(folder / "ablation.png", picture)
    except MissingExtraError as error:
        say(f"no picture is drawn: {error}")
    return outcomes


def table_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line per variant: parameters, and each figure as mean ± standard deviation over seeds."""
    by_figure = _by_figure(outcomes)
    seeds = {outcome.seed for outcome in outcomes}
    table = [["variant", "parameters", *by_figure]]
    for variant in dict.fromkeys(outcome.variant for outcome in outcomes):
        sizes = {f"{outcome.parameters:,}" for outcome in outcomes if outcome.variant == variant}
        cells = [_mean_and_spread(values[variant]) for values in by_figure.values()]
        table.append([variant, " ".join(sorted(sizes)), *cells])
    yield draw_table(table, left=(0,))
    yield ""
    yield f"mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else "one seed: no spread is known"


def _trained(variant: Variant, seed: int, tables: Tables, out: Path, data: Path, device: str, quiet: bool) -> Outcome:
    """Train one variant, or read what a finished training came to."""
    name = re.sub(r"[^\w.=+,-]+", "_", variant.name)
    text = write_toml(Variant(variant.name, {**variant.changes, "training.seed": seed}).tables(tables))
    folder = RunFolder(out / name / f"seed-{seed}")
    file = folder.path / "figures.json"
    if file.is_file():
        kept = json.loads(file.read_bytes())
        if kept.pop("recipe") != text:
            raise FolderError(f"{folder.path} was trained by another recipe; choose another --out")
        figures = {key: math.nan if value is None else value for key, value in kept.pop("figures").items()}
        return Outcome(**kept, figures=figures)
    recipe = out / "recipes" / f"{name}-seed-{seed}.toml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(recipe, text.encode())
    parameters, found = trial(recipe, folder=folder, data=data, device=device, quiet=quiet)
    outcome = Outcome(variant.name, seed, parameters, found, str(folder.path))
    write_bytes(file, json.dumps({**outcome.to_json(), "recipe": text}, indent=1, ensure_ascii=False).encode() + b"\n")
    return outcome


def _by_figure(outcomes: Sequence[Outcome]) -> dict[str, dict[str, list[float]]]:
    """Return figure -> variant -> its value with each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for outcome in outcomes:
        for name, value in outcome.figures.items():
            found.setdefault(name, {}).setdefault(outcome.variant, []).append(value)
    return found


def _mean_and_spread(values: Sequence[float]) -> str:
    mean = f"{statistics.fmean(values):.4g}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2g}"


def _values(text: str) -> list[Any]:
    """Return the values of ``none, 3, {kind = "rotary"}``: TOML, where a word may stand without its quotes."""
    try:
        values: list[Any] = tomllib.loads(f"x = [{text}]")["x"]
    except tomllib.TOMLDecodeError:
        values = [_value(part.strip()) for part in text.split(",")]
    if any(value == "" for value in values):
        raise RecipeError(f"--vary has an empty value in {text!r}")
    return values


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_shown(inner)}" for key, inner in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)
