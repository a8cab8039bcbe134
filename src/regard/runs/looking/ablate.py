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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import FolderError, InputError, MissingExtraError
from regard.inspection import draw_table
from regard.inspection.figures import compared_variants, image_bytes
from regard.runs.looking.trial import trial
from regard.runs.looking.variants import Variant, usable, variants
from regard.runs.recipes.changes import changed
from regard.runs.recipes.tables import Tables, data_folder, read_tables
from regard.runs.recipes.toml import write_toml
from regard.runs.saying import Say
from regard.runs.training.folder import RunFolder
from regard.runs.translating.output import refuse_output_folder
from regard.storage import write_bytes


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
        vary: Keys and their values, as `regard.runs.looking.variants.variants` reads them.
        seeds: How many seeds: 1, 2, … the same for each variant.
        out: A folder; left out, one named after the recipe, in ``runs``.
        data: Where relative paths start; left out, the folder of the recipe.
        device: Where to compute.
        quiet: Say nothing of each training.
        say: Told which training begins, and what is missing at the end.

    Raises:
        InputError: A variant is no recipe or names a file that is not there, or the folder is none or holds other
            runs; all of it is told before the first is trained.
        InterruptedRun: Asked to stop; everything is saved, and the same call goes on.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, but is {seeds}")
    folder = Path(out) if out is not None else Path("runs") / f"ablate-{Path(recipe).stem}"
    refuse_output_folder(folder)
    tables = read_tables(recipe)
    data = data_folder(data, recipe)
    chosen = usable(variants(vary), tables, recipe, data, say)
    trainings = [_Training.of(variant, seed, tables, folder) for seed in range(1, seeds + 1) for variant in chosen]
    for training in trainings:
        training.finished()  # refuses a folder of another recipe while nothing is trained yet
    outcomes = []
    for number, training in enumerate(trainings, 1):
        say(f"{number} of {len(trainings)}: {training.variant}, seed {training.seed}")
        outcomes.append(training.finished() or training.run(folder / "recipes", data, device, quiet))
    names = [variant.name for variant in chosen]
    outcomes.sort(key=lambda outcome: (names.index(outcome.variant), outcome.seed))
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


@dataclass(frozen=True)
class _Training:
    """A variant with one seed.

    Attributes:
        variant: Its name.
        seed: Of everything random.
        recipe: The whole recipe, as TOML.
        folder: Of the run.
    """

    variant: str
    seed: int
    recipe: str
    folder: RunFolder

    @classmethod
    def of(cls, variant: Variant, seed: int, tables: Tables, out: Path) -> _Training:
        seeded = changed(tables, {**variant.changes, "training.seed": seed})
        folder = RunFolder(out / re.sub(r"[^\w.=+,-]+", "_", variant.name) / f"seed-{seed}")
        return cls(variant.name, seed, write_toml(seeded), folder)

    @property
    def figures(self) -> Path:
        return self.folder.path / "figures.json"

    def finished(self) -> Outcome | None:
        """Return what it came to, or None if it is not finished. Raises FolderError if another recipe was trained."""
        if not self.figures.is_file():
            return None
        kept = json.loads(self.figures.read_bytes())
        if kept.pop("recipe") != self.recipe:
            raise FolderError(f"{self.folder.path} was trained by another recipe; choose another --out")
        figures = {key: math.nan if value is None else value for key, value in kept.pop("figures").items()}
        return Outcome(**kept, figures=figures)

    def run(self, recipes: Path, data: Path, device: str, quiet: bool) -> Outcome:
        """Train, with the recipe in a file of the folder ``recipes``, and keep what came of it."""
        file = recipes / f"{self.folder.path.parent.name}-{self.folder.path.name}.toml"
        recipes.mkdir(parents=True, exist_ok=True)
        write_bytes(file, self.recipe.encode())
        parameters, figures = trial(file, folder=self.folder, data=data, device=device, quiet=quiet)
        outcome = Outcome(self.variant, self.seed, parameters, figures, str(self.folder.path))
        kept = json.dumps({**outcome.to_json(), "recipe": self.recipe}, indent=1, ensure_ascii=False)
        write_bytes(self.figures, kept.encode() + b"\n")
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
