"""How long until the first translation? The command, from its start to its one line, beside ``import torch`` alone.

Both are run in turn, and the medians of processor time (which a busy machine disturbs little) and of wall time are
printed with their ratio. The model is a tiny one of letters with weights at random, in a temporary folder.

    python benchmarks/start.py --turns 15
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory


def make_model(folder: Path) -> None:
    from regard.bundle import save_bundle
    from regard.data import train_exact
    from regard.models import build

    letters = train_exact("char", ["abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,"])
    model = build("tiny", source_vocab=len(letters))
    recipe = {"generation": {"max_length": 20}}
    save_bundle(folder, model=model, source_tokenizer=letters, target_tokenizer=letters, recipe=recipe, card="")


def seconds(command: list[str]) -> tuple[float, float]:
    """Return the processor and the wall time of a command that is given one line."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, input=b"A dog runs.\n", capture_output=True, check=True)
    wall, after = time.perf_counter() - began, os.times()
    if "translate" in command:
        assert done.stdout.count(b"\n") == 1, done.stderr
    return after.children_user + after.children_system - before.children_user - before.children_system, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=15)
    asked = parser.parse_args()
    with TemporaryDirectory() as place:
        make_model(Path(place) / "model")
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "regard translate": [sys.executable, "-m", "regard", "translate", f"{place}/model", "--threads", "1"],
        }
        for command in commands.values():  # files that are read for the first time
            seconds(command)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for turn in range(asked.turns):
            for name in list(commands) if turn % 2 else reversed(commands):
                times[name].append(seconds(commands[name]))
    for place_, kind in enumerate(("processor", "wall")):
        medians = {name: statistics.median(pair[place_] for pair in of_one) for name, of_one in times.items()}
        ratio = medians["regard translate"] / medians["import torch"]
        told = ", ".join(f"{name} {median:.2f} s" for name, median in medians.items())
        print(f"{kind} time: {told}: {ratio:.2f} times")


if __name__ == "__main__":
    main()
