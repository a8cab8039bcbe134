"""What in the signals may be a mistake? Sentences for a person, told before time is spent on it; nothing is refused.

==================  =================================================================================================
fractions           labels are numbers with a fraction, as what is to be measured has, and not what is to be named
one window          the window of the model is longer than every case
known to training   more than 1 % of the cases of validation are cases of training as well
==================  =================================================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from regard.models import ClassifierSpec
from regard.plural import plural
from regard.runs.training.prepare_signals import Material
from regard.signals.batches import SignalBatches
from regard.signals.numbers import is_number


def doubts_of_signals(material: Material, spec: ClassifierSpec) -> list[str]:
    """Return a sentence for each thing above that holds, with its figure and what to do."""
    found = [*_about_labels(material.classes), *_about_windows(spec, material.longest)]
    if material.valid is not None and isinstance(material.batches, SignalBatches):
        found += _about_validation(material.batches, material.valid)
    return found


def _about_labels(classes: Sequence[str]) -> Iterator[str]:
    fraction = next((name for name in classes if is_number(name) and not float(name).is_integer()), None)
    if fraction is not None:
        yield (
            f"labels are fractions, as {fraction}: each of the {len(classes):,} is a class of its own, and nothing is "
            "learned of their order; look whether these are the labels"
        )


def _about_windows(spec: ClassifierSpec, longest: int) -> Iterator[str]:
    if spec.window > longest:
        yield (
            f"model.window = {spec.window} is longer than the longest case, of {plural(longest, 'frame')}: each case "
            "is one window, filled up with zeros, that can attend to no other; make it shorter"
        )


def _about_validation(learned: SignalBatches, valid: SignalBatches) -> Iterator[str]:
    held_out, known = list(_contents(valid)), set(_contents(learned))
    if (both := sum(content in known for content in held_out)) > len(held_out) / 100:
        yield (
            f"the cases of training hold {both:,} of {plural(len(held_out), 'validation case')} too, so that "
            "validation looks better than it is; take them out of one"
        )


def _contents(batches: SignalBatches) -> Iterator[bytes]:
    for row in batches.rows.tolist():
        yield hashlib.blake2b(np.ascontiguousarray(batches.cases[row]).tobytes(), digest_size=8).digest()
