"""From a recipe of signals to a classifier: what `regard train` does when ``[data]`` says ``kind = "signals"``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.errors import DataError, FolderError, InputError, InterruptedRun, RecipeError
from regard.models import build_classifier
from regard.protocols import BatchSource, Observer
from regard.runs.device import best_device
from regard.runs.recipes.recipe import in_folder, read_tables
from regard.runs.recipes.signal_recipe import SignalData, SignalRecipe, check_signals, complete, signal_tables
from regard.runs.saying import Say, say_nothing, say_on_stderr
from regard.runs.training.folder import RunFolder
from regard.signals.batches import GeneratedBatches, SignalBatch, SignalBatches
from regard.signals.cases import Array, Cases, Indices, as_cases
from regard.signals.classifier import SignalClassifier
from regard.signals.fitting import fit, hold_out, take_chosen_weights, weights_of_classes
from regard.signals.preparation import Preparation
from regard.signals.readers import SignalSet, as_texts, read_signals
from regard.signals.synthetic import Generator
from regard.training import ClassObjective
from regard.training.distributed import launched
from regard.training.freeze import freeze
from regard.training.observers import JsonLog, Progress

_VALID_SEED, _TEST_SEED, _FIT_SEED = 1_000_001, 1_000_002, 1_000_003
"""What is generated to validate, to test and to standardise by comes from streams that no epoch of training reaches."""

_FITTED_ON = 4096
"""Generated cases that the standardisation is taken from, where every epoch has new ones."""


@dataclass(frozen=True)
class Material:
    """What there is to learn.

    Attributes:
        classes: the labels, as text, in order.
        preparation: fitted on what is learned from.
        batches: to learn from.
        valid: to validate on; None for nothing.
        train_labels: class numbers of what is learned from; empty where every epoch has new cases.
        longest: frames of the longest case.
        num_cases: to learn from, in an epoch.
    """

    classes: tuple[str, ...]
    preparation: Preparation
    batches: BatchSource[SignalBatch]
    valid: SignalBatches | None
    train_labels: Indices
    longest: int
    num_cases: int


def train_classifier(
    recipe: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    limits: Mapping[str, int | float | None] | None = None,
    device: str = "auto",
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> SignalClassifier:
    """Train a classifier of signals, or go on with a training that was stopped; return it ready to classify.

    Args:
        recipe: a TOML file, or its tables; see `regard.runs.recipes.signal_recipe`.
        out: the folder of the run; left out, one named after the recipe, in ``runs``.
        data: the folder where relative paths start; left out, that of the recipe file, else the current one.
        limits: ``updates``, ``epochs``, ``minutes`` or ``seed``, which win over those of the recipe; None says nothing.
        device: ``cpu``, ``cuda``, ``mps``; ``auto`` takes the first that is there, from the end.
        quiet: say nothing on stderr.
        observers: told of updates, validations and checkpoints as they happen.

    Raises:
        InputError: a recipe, file or folder cannot be used.
        TrainingError: the run cannot go on; the last good checkpoint is there.
        InterruptedRun: Ctrl-C; everything was saved.
    """
    if launched():
        raise InputError("signals are learned by one process; start regard without torchrun")
    folder = RunFolder(out or Path("runs") / ("run" if isinstance(recipe, Mapping) else Path(recipe).stem))
    wanted = effective_recipe(recipe, data=data, limits=limits, started=folder if folder.started else None)
    effective = wanted.recipe
    folder.claim()
    say = say_nothing if quiet else say_on_stderr
    say(wanted.sentence)
    material = prepare_signals(effective, wanted.folder, say)
    folder.keep_tables(signal_tables(effective), defaults={})

    torch.manual_seed(effective.training.seed)
    spec = effective.model.spec(len(material.classes), material.preparation.num_features, material.longest)
    model = build_classifier(spec).to(best_device(device))
    say(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters; the run is kept in {folder.path}")
    if frozen := freeze(model, effective.training.freeze):
        say(f"frozen: {len(frozen)} tensors, from {frozen[0]} to {frozen[-1]}")
    classifier = SignalClassifier(
        model, material.preparation, np.array(material.classes), {"recipe": signal_tables(effective)}
    )
    weights = None
    if effective.data.class_weight == "balanced" and len(material.train_labels):
        weights = weights_of_classes(material.train_labels, len(material.classes), "balanced")
    try:
        outcome = fit(
            model,
            material.batches,
            effective.training,
            folder=folder.path,
            valid=material.valid,
            class_weights=weights,
            observers=[JsonLog(folder.log), *(() if quiet else (Progress(unit="case"),)), *observers],
            fingerprint={"signals": _digest(material)},
        )
    except InterruptedRun:
        take_chosen_weights(ClassObjective(model), folder.path, effective.training)
        classifier.save(folder.model)
        raise
    ended = {"terminated": "asked to stop", "minutes": "time is up", "patience": "nothing better came any more"}
    say(f"{ended.get(outcome.reason, 'done')} after update {outcome.update:,}, {outcome.seconds / 60:.1f} minutes")
    model.eval()
    classifier.save(folder.model)
    say(f"model in {folder.model}")
    return classifier


@dataclass(frozen=True)
class Wanted:
    """What is to be done.

    Attributes:
        recipe: with every key in effect.
        sentence: says what was chosen.
        folder: where relative paths start.
    """

    recipe: SignalRecipe
    sentence: str
    folder: Path


def effective_recipe(
    recipe: str | Path | Mapping[str, Any],
    *,
    data: str | Path | None = None,
    limits: Mapping[str, int | float | None] | None = None,
    started: RunFolder | None = None,
) -> Wanted:
    """Return the recipe in effect, after a look at the number of cases; the arguments are those of `train_classifier`.

    A run that was started keeps the warm-up that was chosen for it, though it may now be asked to go on for longer.

    Raises:
        InputError: a recipe, file or folder cannot be used.
    """
    if isinstance(recipe, Mapping):
        tables, where, beside = {name: dict(table) for name, table in recipe.items()}, "recipe", Path()
    else:
        tables, where, beside = read_tables(recipe), str(recipe), Path(recipe).parent
    said = {key: value for key, value in (limits or {}).items() if value is not None}
    if said:
        tables["training"] = {**tables.get("training", {}), **said}
    given = check_signals(tables, where)
    if started is not None:
        tables["training"] = {"warmup": read_tables(started.recipe)["training"]["warmup"], **tables.get("training", {})}
    folder = beside if data is None else Path(data)
    if not folder.is_dir():
        raise FolderError(f"there is no data folder {folder}")
    tables, sentence = complete(tables, num_cases(given.data, folder))
    return Wanted(check_signals(tables, where), sentence, folder)


def num_cases(options: SignalData, folder: Path) -> int:
    """Return how many cases there are in an epoch, about: what is set aside is counted too."""
    if options.generator is not None:
        return options.cases
    assert options.train is not None  # checked by the recipe
    return len(read_signals(in_folder(folder, options.train), options.layout).cases)


def prepare_signals(recipe: SignalRecipe, folder: Path, say: Say) -> Material:
    """Read or generate what a recipe names, standardise it and put it into batches.

    Raises:
        DataError: a file cannot be used.
        RecipeError: nothing could be validated that must be.
    """
    generator = recipe.data.generator
    if generator is not None:
        return _generated(recipe, generator)
    return _from_files(recipe, folder, say)


def evaluation_set(options: SignalData, folder: Path, seed: int) -> SignalSet:
    """Return the cases that a recipe is to be evaluated on.

    Raises:
        RecipeError: it names none.
    """
    if options.test is not None:
        return read_signals(in_folder(folder, options.test), options.layout)
    if options.generator is None:
        raise RecipeError("the recipe names no test file; give one, or data.test")
    drawn = options.generator.draw(options.test_cases, np.random.default_rng((seed, _TEST_SEED)))
    names = np.array(options.generator.classes)
    groups = {name: as_texts(values) for name, values in drawn.groups.items()}
    return SignalSet(as_cases(drawn.X), names[drawn.y].tolist(), groups)


def class_numbers(labels: Sequence[str], classes: Sequence[str], where: str) -> Indices:
    """Return the number of each label among the classes.

    Labels that are numbers, where the classes have other names, are taken as the numbers of the classes, from 0.

    Raises:
        DataError: a label is none of them.
    """
    places = {name: number for number, name in enumerate(classes)}
    if not places.keys() & set(labels):
        places = {str(number): number for number in range(len(classes))}
    strange = sorted(set(labels) - places.keys())
    if strange:
        raise DataError(f"{where}: the label {strange[0]!r} is none of those learned: {', '.join(list(classes)[:20])}")
    return np.array([places[label] for label in labels], dtype=np.int64)


def _from_files(recipe: SignalRecipe, folder: Path, say: Say) -> Material:
    options, seed = recipe.data, recipe.training.seed
    assert options.train is not None  # checked by the recipe
    read = read_signals(in_folder(folder, options.train), options.layout)
    assert read.labels is not None  # asked for
    classes = tuple(sorted(set(read.labels), key=_natural))
    if len(classes) < 2:
        raise DataError(f"{options.train}: all cases are of one class, {classes[0]!r}; a classifier needs two")
    labels = class_numbers(read.labels, classes, options.train)
    train = np.arange(len(labels))
    preparation_of = {"iq": options.iq, "missing": options.missing, "scaling": options.scaling}
    valid_cases, valid_labels, valid = read.cases, labels, None
    if options.valid is not None:
        other = read_signals(in_folder(folder, options.valid), options.layout)
        assert other.labels is not None  # asked for
        valid_cases, valid_labels = other.cases, class_numbers(other.labels, classes, options.valid)
        valid = np.arange(len(valid_labels))
    elif options.valid_fraction:
        train, valid = hold_out(labels, options.valid_fraction, seed)
        say(f"no validation file: {len(valid):,} of {len(labels):,} cases are set aside, a share of each class")
    preparation = Preparation.fit(read.cases, train, **preparation_of)  # type: ignore[arg-type]
    return Material(
        classes,
        preparation,
        _batches(recipe, read.cases, train, labels, preparation, learn=True),
        None if valid is None else _batches(recipe, valid_cases, valid, valid_labels, preparation, learn=False),
        labels[train],
        int(max(read.cases.lengths.max(), valid_cases.lengths.max())),
        len(train),
    )


def _generated(recipe: SignalRecipe, generator: Generator) -> Material:
    options, seed = recipe.data, recipe.training.seed

    def draw(n: int, rng: np.random.Generator) -> tuple[Cases, Indices]:
        made = generator.draw(n, rng)
        return as_cases(made.X), made.y

    cases, labels = draw(
        min(options.cases, _FITTED_ON) if options.fresh else options.cases, np.random.default_rng((seed, _FIT_SEED))
    )
    rows = np.arange(len(cases))
    preparation = Preparation.fit(cases, rows, iq=options.iq, missing=options.missing, scaling=options.scaling)
    batches: BatchSource[SignalBatch] = _batches(recipe, cases, rows, labels, preparation, learn=True)
    if options.fresh:
        batches = GeneratedBatches(
            draw,
            preparation,
            batch_size=options.batch_size,
            num_batches=-(-options.cases // options.batch_size),
            seed=seed,
            augment=options.augment.build(),
        )
    valid = None
    if options.valid_cases:
        others, of_others = draw(options.valid_cases, np.random.default_rng((seed, _VALID_SEED)))
        valid = _batches(recipe, others, np.arange(len(others)), of_others, preparation, learn=False)
    of_train = np.empty(0, dtype=np.int64) if options.fresh else labels
    longest = int(cases.lengths.max())
    return Material(generator.classes, preparation, batches, valid, of_train, longest, options.cases)


def _batches(
    recipe: SignalRecipe, cases: Cases, rows: Indices, labels: Array, preparation: Preparation, *, learn: bool
) -> SignalBatches:
    return SignalBatches(
        cases,
        rows,
        labels,
        preparation,
        batch_size=recipe.data.batch_size if learn else max(recipe.data.batch_size, 256),
        seed=recipe.training.seed,
        shuffle=learn,
        augment=recipe.data.augment.build() if learn else None,
    )


def _digest(material: Material) -> str:
    """Return what tells one set of training cases from another: labels, and statistics to which every number counts."""
    prepared = material.preparation
    facts = [material.classes, material.num_cases, material.longest, prepared.mean, prepared.scale]
    content = json.dumps(facts).encode() + np.ascontiguousarray(material.train_labels).tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _natural(label: str) -> tuple[float, str]:
    """Sort numbers by size and words after them."""
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label
