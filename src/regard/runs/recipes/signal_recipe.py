"""What can a run on signals be told? Tables as those of a recipe for text, with ``kind = "signals"`` in ``[data]``.

::

    [data]        files or a generator, what is done to the numbers      [training]    as for text
    [model]       what differs from the defaults of a ClassifierSpec

What is left out is chosen to fit the number of cases (`complete`), and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal

from regard.errors import RecipeError, refuse
from regard.models import ClassifierSpec, classifier_spec_from_dict, spec_to_dict
from regard.plural import plural
from regard.runs.recipes.mistakes import validated
from regard.runs.recipes.tables import Tables, limited_otherwise, unmeasured, with_changes, with_limits
from regard.runs.recipes.toml import without_none, write_toml
from regard.signals.augmentation import AugmentOptions
from regard.signals.pace import BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY, pace
from regard.signals.preparation import Missing, Scaling
from regard.signals.readers import Layout
from regard.signals.synthetic import Generator, Modulations, Tones, too_many
from regard.signals.validation import FIGURES
from regard.training import TrainingOptions


@dataclass(frozen=True)
class SignalData:
    """The table ``[data]`` of a run on signals: where they are, and what is done to them.

    Attributes:
        kind: ``signals``.
        train: the file to learn from: .npz, .npy, .csv or .ts.
        valid: a file to validate on; left out, a share of each class of ``train`` is set aside.
        test: the file of the final evaluation, if there is to be one.
        valid_fraction: the share that is set aside; 0 for none, and no validation.
        x: the array of an .npz file that holds the signals.
        labels: its array of labels; or the column of a .csv file, by name or number from 1; or, beside an .npy file,
            another file with one label a line. Left out, the first of ``y``, ``label``, ``labels``, ``class`` and
            ``target`` that is there; in a .csv without a header the last column.
        lengths: the array of an .npz file that holds the real length of each case, where they differ.
        groups: arrays or columns with a value a case, by which an evaluation tells accuracies apart: the SNR, say.
        channels_last: arrays are [cases, length, channels] and not [cases, channels, length].
        iq: complex numbers, or channels in pairs, are in-phase and quadrature.
        missing: NaN is an ``error``, or values to ``mask``.
        scaling: by ``channel`` as in training, by ``case``, or ``none``.
        batch_size: cases in a batch.
        class_weight: ``none``, or ``balanced``: rare classes count more.
        augment: what is changed in a case each time that it is learned from.
        tones: instead of files: sines to order.
        modulations: instead of files: digital modulations to order.
        cases: how many are generated to learn from, in an epoch.
        fresh: each epoch has new ones.
        valid_cases: how many are generated to validate on; 0 for none.
        test_cases: how many for the evaluation, where there is no ``test`` file.
    """

    kind: Literal["signals"] = "signals"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    valid_fraction: float = 0.1
    x: str = "X"
    labels: str | None = None
    lengths: str | None = None
    groups: tuple[str, ...] = ()
    channels_last: bool = False
    iq: bool = False
    missing: Missing = "error"
    scaling: Scaling = "channel"
    batch_size: int = BATCH_SIZE
    class_weight: Literal["none", "balanced"] = "none"
    augment: AugmentOptions = field(default_factory=AugmentOptions)
    tones: Tones | None = None
    modulations: Modulations | None = None
    cases: int = 900
    fresh: bool = False
    valid_cases: int = 0
    test_cases: int = 1000

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        if [self.train, self.tones, self.modulations].count(None) != 2:
            yield "exactly one of `train`, `tones` and `modulations` must say what to learn from"
        if not 0 <= self.valid_fraction < 1:
            yield f"`valid_fraction` must be from 0 to below 1, but is {self.valid_fraction}"
        for name, least in (("batch_size", 1), ("cases", 2), ("valid_cases", 0), ("test_cases", 1)):
            if getattr(self, name) < least:
                yield f"`{name}` must be at least {least}, but is {getattr(self, name)}"
        if self.generator is not None:
            for name in ("batch_size" if self.fresh else "cases", "valid_cases", "test_cases"):
                yield from too_many(name, getattr(self, name), self.generator)

    @property
    def generator(self) -> Generator | None:
        """What makes the cases, where they are made."""
        return self.tones or self.modulations

    @property
    def layout(self) -> Layout:
        """Where in a file things are."""
        return Layout(self.x, self.labels, self.lengths, self.groups, self.channels_last)

    def layout_of(self, path: str) -> Layout:
        """Return where things are in a file that need not be of the format of ``train``."""
        return self.layout.carried(path, self.train or self.test or path)


@dataclass(frozen=True)
class ClassifierChoice:
    """The table ``[model]``: fields of `ClassifierSpec` that differ from its defaults, by their names.

    ``positions = "rotary"`` stands for ``positions = {kind = "rotary"}``, and ``dropout = 0.3`` for that share in the
    two places of the paper: embeddings and residuals. ``max_len`` is twice the longest case unless given.

    Attributes:
        changes: the keys of the table.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec(2, 2, 2)  # any cases will do to see whether the rest is a model

    def spec(self, num_classes: int, num_features: int, longest: int) -> ClassifierSpec:
        """Return the model for these cases.

        Raises:
            RecipeError: a key or value that no model has.
        """
        for known in ("num_classes", "num_features"):
            if known in self.changes:
                raise RecipeError(f"model.{known} is that of the data, and cannot be set")
        base = ClassifierSpec(num_classes, num_features, max_len=max(64, 2 * longest))
        return classifier_spec_from_dict(with_changes(spec_to_dict(base), self.changes))


@dataclass(frozen=True)
class SignalRecipe:
    """A whole run on signals."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    data: SignalData
    model: ClassifierChoice = field(default_factory=ClassifierChoice)
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        yield from unmeasured(self.training.metric, FIGURES)
        for key in ("max_tokens", "max_sentences", "init", "init_vocabulary", "shard"):
            if getattr(self.training, key) != getattr(TrainingOptions(), key):
                instead = "; cases in a batch are data.batch_size" if key.startswith("max") else ""
                yield f"training.{key} is for text{instead}"


def check_signals(tables: Mapping[str, Any], where: str = "recipe") -> SignalRecipe:
    """Return the recipe that ``tables`` describe.

    Raises:
        RecipeError: every mistake, each with its key and the nearest valid name.
    """
    tables = with_limits(tables)
    if isinstance(model := tables.get("model"), dict):
        tables["model"] = {"changes": model}
    return validated(SignalRecipe, tables, where, keys={"model": [item.name for item in fields(ClassifierSpec)]})


def complete(tables: Tables, num_cases: int) -> tuple[Tables, str]:
    """Return ``tables`` with a value for each key of the training that was left out, and a sentence that says which.

    Updates, warm-up and validations are those of `regard.signals.pace`, unless another limit is given; the rate falls
    along a cosine where the number of updates is known.
    """
    tables = {name: dict(table) for name, table in tables.items()}
    training = tables.setdefault("training", {})
    fits = pace(num_cases, tables["data"].get("batch_size", BATCH_SIZE), training.get("updates"))
    limited = limited_otherwise(training)
    wishes = {
        **({} if limited else {"updates": fits.updates}),
        "schedule": "inverse_sqrt" if limited else "cosine",
        "warmup": fits.warmup,
        "validate_every": fits.validate_every,
        "save_every": fits.validate_every,
        "learning_rate": LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
    }
    chosen = {key: value for key, value in wishes.items() if key not in training}
    training |= chosen
    said = ", ".join(f"{key} = {value}" for key, value in chosen.items())
    return tables, f"{plural(num_cases, 'case')} to learn from; chosen to fit: {said or 'nothing'}"


def signal_tables(recipe: SignalRecipe) -> Tables:
    """Return a recipe as the tables of its TOML; values that are None are left out."""
    tables: Tables = without_none({**asdict(recipe), "model": recipe.model.changes})
    return tables


def dump_signals(recipe: SignalRecipe) -> str:
    """Return a recipe as TOML, every key written out."""
    return write_toml(signal_tables(recipe))
