"""From a recipe of signals to a classifier: what `regard train` does when ``[data]`` says ``kind = "signals"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.device import best_device
from regard.models import build_classifier
from regard.protocols import Observer
from regard.runs.recipes.changes import Changes
from regard.runs.recipes.signal_plan import plan_signals
from regard.runs.recipes.signal_recipe import signal_tables
from regard.runs.saying import say_nothing, say_on_stderr
from regard.runs.training.beginning import begin
from regard.runs.training.doubts_signals import doubts_of_signals
from regard.runs.training.ending import ending
from regard.runs.training.export import exported
from regard.runs.training.folder import RunFolder
from regard.runs.training.prepare_signals import prepare_signals
from regard.signals.classifier import SignalClassifier
from regard.signals.fitting import fit, weights_of_classes
from regard.training.distributed import joined
from regard.training.observers import JsonLog, Progress


def train_classifier(
    recipe: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    changes: Changes | None = None,
    device: str = "auto",
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> SignalClassifier:
    """Train a classifier of signals, or go on with a training that was stopped; return it ready to classify.

    Started by torch's launcher in several processes, these share the cases of every batch; see
    `regard.training.distributed`. The folder of the run must be the same for all.

    Args:
        recipe: a TOML file, or its tables; see `regard.runs.recipes.signal_recipe`.
        out: the folder of the run; left out, one named after the recipe, in ``runs``.
        data: the folder where relative paths start; left out, that of the recipe file, else the current one.
        changes: keys that win over those of the recipe, as ``{"training.updates": 500}``.
        device: ``cpu``, ``cuda``, ``mps``; ``auto`` takes the first that is there, from the end.
        quiet: say nothing on stderr.
        observers: told of updates, validations and checkpoints as they happen.

    Raises:
        InputError: a recipe, file or folder cannot be used.
        TrainingError: the run cannot go on; the last good checkpoint is there.
        InterruptedRun: Ctrl-C; everything was saved, or, after a second one, what the message tells.
    """
    folder = RunFolder(out or Path("runs") / ("run" if isinstance(recipe, Mapping) else Path(recipe).stem))
    chosen = best_device(device)
    with joined(chosen) as ranks:
        say = say_nothing if quiet or not ranks.is_first else say_on_stderr
        with ranks.first():
            plan = plan_signals(recipe, data=data, changes=changes, warmup=folder.warmup())
            options = plan.recipe.training
            if ranks.is_first:
                folder.claim()
            say(plan.sentence)
            material = prepare_signals(plan, say, ranks)
            if ranks.is_first:
                folder.keep_tables(signal_tables(plan.recipe), defaults={})

        torch.manual_seed(options.seed)
        spec = plan.recipe.model.spec(len(material.classes), material.preparation.num_features, material.longest)
        model = build_classifier(spec).to(chosen)
        for doubt in () if quiet or folder.started or not ranks.is_first else doubts_of_signals(material, spec):
            say(f"warning: {doubt}")
        begin(model, options.freeze, folder, ranks, say)
        recipe_of_model = {"recipe": signal_tables(plan.recipe)}
        classifier = SignalClassifier(model, material.preparation, np.array(material.classes), recipe_of_model)
        weights = None
        if plan.recipe.data.class_weight == "balanced" and len(material.train_labels):
            weights = weights_of_classes(material.train_labels, len(material.classes), "balanced")
        with ranks.first():
            if ranks.is_first:
                folder.keep_classifier(classifier)
        with exported(folder, ranks, say):
            outcome = fit(
                model,
                material.batches,
                options,
                folder=folder.path,
                valid=material.valid,
                class_weights=weights,
                observers=[JsonLog(folder.log), *(() if quiet else (Progress(unit="case"),)), *observers],
                fingerprint={"signals": material.digest},
                ranks=ranks,
            )
            say(ending(outcome, options))
    model.eval()
    return classifier
