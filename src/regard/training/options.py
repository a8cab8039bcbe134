"""What a person may choose about training: the recipe table ``[training]``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from regard.errors import RecipeError, refuse
from regard.training.schedule import Schedule, constant, cosine, inverse_sqrt, linear, noam

LENGTHS = frozenset({"updates", "epochs", "minutes", "patience"})
"""The options that end a run."""

CHANGEABLE = LENGTHS | {
    "validate_every",
    "save_every",
    "keep_last",
    "keep_best",
    "average",
    "average_count",
    "shard",
    "compile",
}
"""The options that may differ when a run is resumed: they say how long and what is kept, not what is learned.

With the schedules ``linear`` and ``cosine`` another ``updates`` also stretches the rest of the schedule.
"""


@dataclass(frozen=True)
class TrainingOptions:
    """How to train. The first of ``updates``, ``epochs``, ``minutes`` and ``patience`` that is reached ends the run.

    Attributes:
        updates: stop after so many changes of the weights.
        epochs: stop after so many passes over the data.
        minutes: stop after so many minutes of training, validation and saving, summed over resumed runs.
        patience: stop after so many validations in a row that brought nothing better.
        max_tokens: target or source tokens in a batch at most, padding included.
        max_sentences: examples in a batch at most.
        accumulate: batches per update.
        optimizer: ``adam`` (decay added to the gradient) or ``adamw`` (decay apart from it).
        learning_rate: highest rate; not used by ``noam``.
        betas: decay of the running mean and variance of the gradient.
        eps: added to the root of the variance.
        weight_decay: only on matrices, embeddings included; never on biases and norms.
        clip_norm: longest gradient allowed, per token; 0 means any.
        schedule: ``constant``, ``linear``, ``cosine``, ``inverse_sqrt`` or ``noam``.
        warmup: updates of linear rise at the start.
        schedule_factor: the factor of ``noam``.
        label_smoothing: share of the target distribution spread over the vocabulary.
        validate_every: updates between validations.
        save_every: updates between checkpoints.
        metric: the validation figure that decides what is best: ``loss``, ``perplexity``, or what is measured besides.
        keep_last: newest checkpoints kept.
        keep_best: best checkpoints kept.
        average: final weights are the mean of the ``last`` or ``best`` checkpoints, or of ``none``.
        average_count: of how many.
        ema: decay of a moving average of the weights, such as 0.999, which is then validated and put in the model
            folder in place of the weights themselves; 0 for none.
        freeze: parameters and parts of the model that stay as they are, by name, as ``encoder`` or ``*.bias``.
        init: a model folder to start from, looked up where the command runs; its vocabulary is used.
        init_vocabulary: ``keep`` that of ``init``, or ``map`` it to one of this run, piece by piece.
        seed: of everything random.
        precision: of the matrix products, with weights in fp32: ``fp32``, or ``bf16`` or ``fp16``, or ``tf32``, which
            is fp32 with inputs rounded to 10 bits where the device has it (NVIDIA from Ampere on).
        compile: let ``torch.compile`` make code of the objective: faster on a GPU after some minutes, seldom on a CPU.
        shard: of several processes, let each hold a part of every weight instead of all (FSDP).
    """

    updates: int | None = 20_000
    epochs: int | None = None
    minutes: float | None = None
    patience: int | None = None
    max_tokens: int = 4096
    max_sentences: int | None = None
    accumulate: int = 1
    optimizer: Literal["adam", "adamw"] = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "noam"] = "inverse_sqrt"
    warmup: int = 1000
    schedule_factor: float = 1.0
    label_smoothing: float = 0.1
    validate_every: int = 500
    save_every: int = 500
    metric: str = "loss"
    keep_last: int = 2
    keep_best: int = 1
    average: Literal["none", "last", "best"] = "none"
    average_count: int = 5
    ema: float = 0.0
    freeze: tuple[str, ...] = ()
    init: str | None = None
    init_vocabulary: Literal["keep", "map"] = "keep"
    seed: int = 1
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    shard: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        wishes: dict[str, tuple[bool, str]] = {}
        at_least_one = ("max_tokens", "accumulate", "validate_every", "save_every", "average_count", "keep_last")
        for key in (*at_least_one, "updates", "epochs", "patience", "max_sentences"):
            wishes[key] = getattr(self, key) is None or getattr(self, key) >= 1, "at least 1"
        wishes["seed"] = 0 <= self.seed < 2**64, "from 0 to below 2^64"
        for key in ("warmup", "keep_best", "weight_decay", "clip_norm"):
            wishes[key] = 0 <= getattr(self, key) < math.inf, "at least 0"
        if self.schedule in ("inverse_sqrt", "noam"):
            wishes["warmup"] = self.warmup >= 1, f"at least 1 when `schedule` is {self.schedule!r}"
        for key in ("learning_rate", "eps", "schedule_factor"):
            wishes[key] = 0 < getattr(self, key) < math.inf, "above 0"
        wishes["minutes"] = self.minutes is None or 0 < self.minutes < math.inf, "above 0"
        wishes["label_smoothing"] = 0 <= self.label_smoothing < 1, "from 0 to below 1"
        wishes["freeze"] = all(self.freeze), "names of parts of the model"
        wishes["ema"] = 0 <= self.ema < 1, "from 0 to below 1"
        wishes["betas"] = all(0 <= beta < 1 for beta in self.betas), "two numbers from 0 to below 1"
        kept = f"keep_{self.average}"
        if self.average != "none" and wishes[kept][0]:
            enough = getattr(self, kept) >= self.average_count
            wishes[kept] = enough, f"at least `average_count` ({self.average_count})"
        for key, (holds, wish) in wishes.items():
            if not holds:
                yield f"`{key}` must be {wish}, but is {getattr(self, key)!r}"

        if self.updates is self.epochs is self.minutes is self.patience is None:
            yield "one of `updates`, `epochs`, `minutes` and `patience` must be set, or training never ends"
        elif self.schedule in ("linear", "cosine") and self.updates is None:
            yield f"`updates` must be set when `schedule` is {self.schedule!r}, which falls until then"
        if self.init_vocabulary == "map" and self.init is None:
            yield "`init_vocabulary` = 'map' needs `init`, a model folder to start from"
        if self.ema and self.average != "none":
            yield "`ema` is an average already: leave out `average`, or set `ema` = 0"

    def rates(self, d_model: int | None = None) -> Schedule:
        """Return the schedule: update (from 1) -> learning rate.

        Raises:
            RecipeError: ``noam`` needs the width of the model, and it is not given.
        """
        rate, warmup = self.learning_rate, self.warmup
        match self.schedule:
            case "constant":
                return partial(constant, rate=rate, warmup=warmup)
            case "linear" | "cosine" as name:
                assert self.updates is not None  # checked above
                return partial(linear if name == "linear" else cosine, rate=rate, warmup=warmup, updates=self.updates)
            case "inverse_sqrt":
                return partial(inverse_sqrt, rate=rate, warmup=warmup)
            case "noam":
                if d_model is None:
                    raise RecipeError("`schedule` = 'noam' needs the width of a model; choose another for this one")
                return partial(noam, d_model=d_model, warmup=warmup, factor=self.schedule_factor)
