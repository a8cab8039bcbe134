"""What does each part of the classifier bring? Positions × residuals × readouts on a recipe, several seeds each.

    python benchmarks/signals/ablation.py recipes/signals-three-tones.toml --seeds 3 --out ablation

Each run is a line of ``runs.jsonl`` in the output folder; runs that are there are not made again, so the command can be
stopped and goes on. The table is printed as Markdown, and drawn in ``ablation.png``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from itertools import product
from pathlib import Path

from regard.inspection.figures import accuracy_by_group
from regard.runs.evaluating.evaluate_classifier import evaluate_classifier
from regard.runs.recipes.recipe import read_tables
from regard.runs.training.train_classifier import train_classifier

POSITIONS = ("none", "sinusoidal", "learned")
RESIDUALS = ("pre", "none")
READOUTS = ("mean", "cls", "last", "attention")


def accuracy(recipe: Path, data: Path | None, changes: dict[str, str], seed: int) -> float:
    """Train a variant of a recipe and return its accuracy on the recipe's test set."""
    tables = read_tables(recipe)
    tables["model"] = {**tables.get("model", {}), **changes}
    folder = data or recipe.parent
    with tempfile.TemporaryDirectory() as out:
        trained = train_classifier(tables, out=out, data=folder, limits={"seed": seed}, quiet=True)
        return evaluate_classifier(trained, data=folder).report.accuracy


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("recipe", type=Path)
    arguments.add_argument("--data", type=Path)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--out", type=Path, default=Path("ablation"))
    asked = arguments.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    log = asked.out / "runs.jsonl"
    done = [json.loads(line) for line in log.read_text().split("\n") if line] if log.exists() else []
    known = {(run["positions"], run["residual"], run["readout"], run["seed"]): run["accuracy"] for run in done}

    for seed, *parts in product(range(1, asked.seeds + 1), POSITIONS, RESIDUALS, READOUTS):
        changes = dict(zip(("positions", "residual", "readout"), parts, strict=True))
        if (*parts, seed) in known:
            continue
        value = accuracy(asked.recipe, asked.data, changes, seed)
        known[(*parts, seed)] = value
        with log.open("a") as file:
            file.write(json.dumps({**changes, "seed": seed, "accuracy": value}) + "\n")

    curves: dict[str, dict[str, float]] = {}
    print("| positions | residual | " + " | ".join(READOUTS) + " |")
    print("|---|---|" + "---|" * len(READOUTS))
    for positions, residual in product(POSITIONS, RESIDUALS):
        cells = []
        for readout in READOUTS:
            of_seeds = [known[positions, residual, readout, seed] for seed in range(1, asked.seeds + 1)]
            spread = statistics.stdev(of_seeds) if len(of_seeds) > 1 else 0.0
            cells.append(f"{statistics.mean(of_seeds):.1f} ± {spread:.1f}")
            name = f"positions {positions}, residual {'on' if residual == 'pre' else 'off'}"
            curves.setdefault(name, {})[readout] = statistics.mean(of_seeds)
        print(f"| {positions} | {'on' if residual == 'pre' else 'off'} | " + " | ".join(cells) + " |")
    accuracy_by_group("readout", curves).savefig(asked.out / "ablation.png")


if __name__ == "__main__":
    main()
