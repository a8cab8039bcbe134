"""Fit time and accuracy beside scikit-learn's own classifiers, on the same cases and in the same run.

    python benchmarks/signals/compare.py recipes/japanese-vowels.toml --data timeseries --seeds 5

The others get the same numbers, filled up with zeros to the longest case; cases that are longer in the test set are cut
there. Settings are scikit-learn's defaults. Times are of the processor, so that a busy machine counts little.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from regard.runs.evaluating.evaluate_classifier import evaluate_classifier
from regard.runs.recipes.signal_recipe import check_signals
from regard.runs.recipes.tables import in_folder, read_tables
from regard.runs.training.train_classifier import train_classifier
from regard.signals.cases import Cases
from regard.signals.readers import read_signals

PEERS: dict[str, Callable[[int], object]] = {
    "logistic regression": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "SVM, RBF kernel": lambda seed: make_pipeline(StandardScaler(), SVC()),
    "random forest, 100 trees": lambda seed: RandomForestClassifier(random_state=seed),
}


def filled(cases: Cases, length: int) -> np.ndarray:
    """Return cases as [n, channels, length], filled up with zeros or cut."""
    rows = np.zeros((len(cases), cases.channels, length))
    for index in range(len(cases)):
        case = cases[index][:, :length]
        rows[index, :, : case.shape[1]] = case
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("recipe", type=Path)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--seeds", type=int, default=5)
    asked = arguments.parse_args()
    tables = read_tables(asked.recipe)
    options = check_signals(tables).data
    train, test = (
        read_signals(in_folder(asked.data, str(path)), options.layout) for path in (options.train, options.test)
    )
    longest = int(train.cases.lengths.max())
    X, X_test = (filled(of.cases, longest).reshape(len(of.cases), -1) for of in (train, test))
    results: dict[str, list[tuple[float, float]]] = {}
    for seed in range(1, asked.seeds + 1):
        with tempfile.TemporaryDirectory() as out:
            began = time.process_time()
            model = train_classifier(tables, out=out, data=asked.data, changes={"training.seed": seed}, quiet=True)
            seconds = time.process_time() - began
        right = evaluate_classifier(model, data=asked.data).report.accuracy
        results.setdefault("Regard", []).append((right, seconds))
        for name, make in PEERS.items():
            peer = make(seed)
            began = time.process_time()
            peer.fit(X, train.labels)  # type: ignore[attr-defined]
            seconds = time.process_time() - began
            right = 100 * peer.score(X_test, test.labels)  # type: ignore[attr-defined]
            results.setdefault(name, []).append((right, seconds))
        print(f"seed {seed}: " + ", ".join(f"{name} {of[-1][0]:.2f}" for name, of in results.items()), flush=True)
    print("\n| classifier | accuracy, mean (deviation) | processor seconds to fit, median |\n|---|---|---|")
    for name, of in results.items():
        rights = [right for right, _ in of]
        spread = statistics.stdev(rights) if len(rights) > 1 else 0.0
        print(f"| {name} | {statistics.mean(rights):.2f} ({spread:.2f}) | {statistics.median(s for _, s in of):.1f} |")


if __name__ == "__main__":
    main()
