"""From a recipe of signals to what training needs: cases, their standardisation, batches, and a set to validate on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import DataError, RecipeError, nearest
from regard.plural import plural
from regard.protocols import BatchSource
from regard.runs.recipes.signal_plan import SignalPlan
from regard.runs.recipes.signal_recipe import SignalData, SignalRecipe
from regard.runs.recipes.tables import in_folder
from regard.runs.saying import Say
from regard.signals.batches import GeneratedBatches, SignalBatch, SignalBatches
from regard.signals.cases import Array, Cases, Indices, as_cases
from regard.signals.fitting import hold_out
from regard.signals.labels import as_texts
from regard.signals.preparation import Preparation
from regard.signals.readers import SignalSet, naming, read_signals
from regard.signals.synthetic import Generator
from regard.training.distributed import ALONE, Ranks

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

    @property
    def digest(self) -> str:
        """What tells one set of training cases from another: labels, and statistics to which every number counts."""
        facts = [self.classes, self.num_cases, self.longest, self.preparation.mean, self.preparation.scale]
        content = json.dumps(facts).encode() + np.ascontiguousarray(self.train_labels).tobytes()
        return hashlib.sha256(content).hexdigest()[:16]


def prepare_signals(plan: SignalPlan, say: Say, ranks: Ranks = ALONE) -> Material:
    """Take or generate what a recipe names, standardise it and put it into batches.

    Args:
        plan: the recipe in effect, and what was read for it.
        say: told what was done.
        ranks: the processes, which share each batch.

    Raises:
        DataError: a file cannot be used.
        RecipeError: nothing could be validated that must be.
    """
    generator = plan.recipe.data.generator
    if generator is not None:
        return _generated(plan.recipe, generator, ranks)
    assert plan.train is not None  # read where nothing generates
    return _from_files(plan.recipe, plan.train, plan.folder, say, ranks)


def evaluation_set(options: SignalData, folder: Path, seed: int, groups: Sequence[str] = ()) -> SignalSet:
    """Return the cases that a recipe is to be evaluated on, told apart by its groups and by further ones.

    Raises:
        RecipeError: it names none, or what it generates has no such group.
    """
    if options.test is not None:
        return read_signals(in_folder(folder, options.test), options.layout_of(options.test).with_groups(groups))
    if options.generator is None:
        raise RecipeError("the recipe names no test file; give one, or data.test")
    drawn = options.generator.draw(options.test_cases, np.random.default_rng((seed, _TEST_SEED)))
    if strange := [name for name in groups if name not in drawn.groups]:
        known = nearest(strange[0], drawn.groups) if drawn.groups else ""
        raise RecipeError(f"the generated signals have no group {strange[0]!r}{known}")
    names = np.array(options.generator.classes)
    of_groups = {name: as_texts(values) for name, values in drawn.groups.items()}
    return SignalSet(as_cases(drawn.X), names[drawn.y].tolist(), of_groups)


def class_numbers(labels: Sequence[str], classes: Sequence[str], where: str) -> Indices:
    """Return the number of each label among the classes.

    Raises:
        DataError: a label is none of them.
    """
    places = {name: number for number, name in enumerate(classes)}
    strange = sorted(set(labels) - places.keys())
    if strange:
        raise DataError(f"{where}: the label {strange[0]!r} is none of those learned: {', '.join(list(classes)[:20])}")
    return np.array([places[label] for label in labels], dtype=np.int64)


def _from_files(recipe: SignalRecipe, read: SignalSet, folder: Path, say: Say, ranks: Ranks) -> Material:
    options, seed = recipe.data, recipe.training.seed
    assert options.train is not None and read.labels is not None  # asked for
    classes = tuple(sorted(set(read.labels), key=_natural))
    if len(classes) < 2:
        raise DataError(f"{options.train}: all cases are of one class, {classes[0]!r}; a classifier needs two")
    labels = class_numbers(read.labels, classes, options.train)
    if len(classes) == len(labels):
        raise DataError(
            f"{options.train}: {plural(len(labels), 'case')} of {plural(len(classes), 'class', 'classes')}: no label "
            "comes twice, so none can be learned; is this the column of the labels?"
        )
    train = np.arange(len(labels))
    valid_cases, valid_labels, valid = read.cases, labels, None
    if options.valid is not None:
        other = read_signals(in_folder(folder, options.valid), options.layout_of(options.valid))
        assert other.labels is not None  # asked for
        valid_cases, valid_labels = other.cases, class_numbers(other.labels, classes, options.valid)
        valid = np.arange(len(valid_labels))
    elif options.valid_fraction:
        train, valid = hold_out(labels, options.valid_fraction, seed)
        say(f"no validation file: set aside, a share of each class: {len(valid):,} of {plural(len(labels), 'case')}")
    with naming(options.train):
        preparation = Preparation.fit(
            read.cases,
            train,
            iq=options.iq,
            missing=options.missing,
            scaling=options.scaling,
            say=lambda words: say(f"warning: {options.train}: {words}"),
        )
    if valid is not None:
        with naming(options.valid or options.train):  # before time is spent on what cannot be validated
            preparation.check(valid_cases, valid)
    return Material(
        classes=classes,
        preparation=preparation,
        batches=_batches(recipe, read.cases, train, labels, preparation, ranks),
        valid=None if valid is None else _batches(recipe, valid_cases, valid, valid_labels, preparation, None),
        train_labels=labels[train],
        longest=int(max(read.cases.lengths.max(), valid_cases.lengths.max())),
        num_cases=len(train),
    )


def _generated(recipe: SignalRecipe, generator: Generator, ranks: Ranks) -> Material:
    options, seed = recipe.data, recipe.training.seed

    def draw(n: int, rng: np.random.Generator) -> tuple[Cases, Indices]:
        made = generator.draw(n, rng)
        return as_cases(made.X), made.y

    cases, labels = draw(
        min(options.cases, _FITTED_ON) if options.fresh else options.cases, np.random.default_rng((seed, _FIT_SEED))
    )
    rows = np.arange(len(cases))
    preparation = Preparation.fit(cases, rows, iq=options.iq, missing=options.missing, scaling=options.scaling)
    batches: BatchSource[SignalBatch] = _batches(recipe, cases, rows, labels, preparation, ranks)
    if options.fresh:
        batches = GeneratedBatches(
            draw,
            preparation,
            batch_size=options.batch_size,
            num_batches=-(-options.cases // options.batch_size),
            seed=seed,
            augment=options.augment.build(),
            share=(ranks.rank, ranks.world),
        )
    valid = None
    if options.valid_cases:
        others, of_others = draw(options.valid_cases, np.random.default_rng((seed, _VALID_SEED)))
        valid = _batches(recipe, others, np.arange(len(others)), of_others, preparation, None)
    return Material(
        classes=generator.classes,
        preparation=preparation,
        batches=batches,
        valid=valid,
        train_labels=np.empty(0, dtype=np.int64) if options.fresh else labels,
        longest=int(cases.lengths.max()),
        num_cases=options.cases,
    )


def _batches(
    recipe: SignalRecipe, cases: Cases, rows: Indices, labels: Array, preparation: Preparation, ranks: Ranks | None
) -> SignalBatches:
    """Return batches to learn from, shared by ``ranks``; or, for None, one pass in order, to validate on."""
    return SignalBatches(
        cases,
        rows,
        labels,
        preparation,
        batch_size=recipe.data.batch_size if ranks else max(recipe.data.batch_size, 256),
        seed=recipe.training.seed,
        shuffle=ranks is not None,
        augment=recipe.data.augment.build() if ranks else None,
        share=(ranks.rank, ranks.world) if ranks else (0, 1),
    )


def _natural(label: str) -> tuple[float, str]:
    """Sort numbers by size and words after them."""
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label
