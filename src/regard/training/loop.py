"""A whole run: epochs of updates, validations, checkpoints, and the reasons to stop.

After each update, in this order: stop if a signal asks; validate if due; save if due or if among the best; stop if a
limit is reached. A run that is stopped anywhere and resumed gives the same bytes as one that was not.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import InterruptedRun, RecipeError, TrainingError
from regard.protocols import Batch, BatchSource, Observer
from regard.storage import Sealed, lock
from regard.training.checkpoints import Checkpoints
from regard.training.options import CHANGEABLE, TrainingOptions
from regard.training.random_state import kept_random_state, random_state, restore, seed_all
from regard.training.schedule import Schedule
from regard.training.signals import Signals
from regard.training.step import Updater
from regard.training.weights import from_bytes, load_tensors, tensor_bytes, to_bytes

Validate = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class Better:
    """Which validation figure decides what is best, and whether a higher one is better."""

    metric: str = "loss"
    higher: bool = False

    def first(self, values: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
        """Return (value, update) pairs, best first; of equals, the older."""
        return sorted(values, key=lambda pair: (-pair[0] if self.higher else pair[0], pair[1]))


@dataclass
class State:
    """Where a run is; with weights, optimiser and random generators, all that is needed to go on.

    Attributes:
        update: changes of the weights so far.
        epoch: pass over the data, from 0.
        batch: batches of this epoch already used.
        tokens: target tokens learned from so far.
        validated: the update of the last validation.
        since_best: validations since the best.
        best: (value, update) of the best validations, best first.
        saved: updates of the last scheduled checkpoints, oldest first.
        scale: the loss scale of float16 and
        clean: the updates since it changed.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    validated: int = 0
    since_best: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    scale: float = 1.0
    clean: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: ``updates``, ``epochs``, ``minutes``, ``patience``, or ``terminated`` by a signal.
        update: changes of the weights so far.
        best: (value, update) of the best validations, best first.
        saved: updates of the last checkpoints, oldest first.
        seconds: spent, over all resumed runs.
    """

    reason: str
    update: int
    best: tuple[tuple[float, int], ...]
    saved: tuple[int, ...]
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the options ended the run, so that going on would change nothing."""
        return self.reason != "terminated"


def train(
    objective: nn.Module,
    batches: BatchSource[Batch],
    options: TrainingOptions,
    *,
    folder: str | Path,
    schedule: Schedule | None = None,
    validate: Validate | None = None,
    better: Better = Better(),
    observers: Sequence[Observer] = (),
    fingerprint: Mapping[str, Any] | None = None,
) -> Outcome:
    """Train until the options or a signal say to stop; go on from the newest checkpoint in ``folder`` if there is one.

    Args:
        objective: a module; ``objective(batch)`` gives the loss summed over real tokens, and their count. It holds the
            last weights afterwards.
        batches: the data, in an order that depends on the epoch alone.
        options: how.
        folder: of the run; checkpoints go in its folder ``checkpoints``.
        schedule: update, from 1, to learning rate; made from the options by default.
        validate: called with the objective in evaluation mode and without gradients; gives figures by name.
        better: which of them decides.
        observers: told ``started``, ``resumed``, ``update``, ``validation``, ``saved`` and ``ended``.
        fingerprint: whatever else must not change between a run and its resumption, as JSON values.

    Raises:
        InterruptedRun: Ctrl-C; the state was saved.
        TrainingError: something was not finite, or the data has no tokens.
        RecipeError: the checkpoint is of a different recipe.
        FolderError: another run holds the folder, or the newest checkpoint is damaged.
    """
    run = _Run(objective, batches, options, Checkpoints(Path(folder) / "checkpoints"), schedule or options.rates())
    run.validate, run.better, run.observers = validate, better, observers
    run.fingerprint = json.loads(json.dumps({"training": _unchangeable(options), **(fingerprint or {})}))
    run.checkpoints.folder.mkdir(parents=True, exist_ok=True)
    with lock(run.checkpoints.folder), Signals() as signals:
        return run(signals)


class _Run:
    validate: Validate | None
    better: Better
    observers: Sequence[Observer]
    fingerprint: dict[str, Any]

    def __init__(
        self,
        objective: nn.Module,
        batches: BatchSource[Batch],
        options: TrainingOptions,
        checkpoints: Checkpoints,
        schedule: Schedule,
    ) -> None:
        self.objective = objective
        self.batches = batches
        self.options = options
        self.checkpoints = checkpoints
        self.schedule = schedule
        self.updater = Updater(objective, options)
        self.state = State()
        self.seconds_before = 0.0
        self.began = time.monotonic()

    def __call__(self, signals: Signals) -> Outcome:
        self.checkpoints.recover()
        newest = self.checkpoints.newest()
        if newest is None:
            seed_all(self.options.seed)
            self._tell("started")
        else:
            self._resume(newest)
        self.objective.train()
        try:
            reason = self._go_on(signals)
        finally:
            self._tell("ended")
        s = self.state
        if reason == "interrupted":
            raise InterruptedRun(
                f"stopped after update {s.update}, which is saved; the same command goes on from there"
            )
        return Outcome(reason, s.update, tuple(s.best), tuple(s.saved), self._seconds())

    def _go_on(self, signals: Signals) -> str:
        s, options = self.state, self.options
        self._keep_up()
        while (reason := self._limit()) is None:
            tokens, batch = s.tokens, s.batch
            source = iter(self.batches.epoch(s.epoch, skip=s.batch))
            while group := list(islice(source, options.accumulate)):
                self._update(group)
                if signals.asked:
                    self._save()
                    return signals.asked
                self._keep_up()
                if reason := self._limit():
                    break
            else:
                if batch == 0 and s.tokens == tokens:
                    raise TrainingError(f"epoch {s.epoch} has no target tokens to learn from")
                s.epoch, s.batch = s.epoch + 1, 0
        self._keep_up(last=True)
        return reason

    def _update(self, group: list[Batch]) -> None:
        s = self.state
        rate = self.schedule(s.update + 1)
        began = time.monotonic()
        done = self.updater(group, number=s.update + 1, rate=rate)
        s.batch += len(group)
        if not done.applied:
            return
        s.update += 1
        s.tokens += done.tokens
        self._tell(
            "update",
            epoch=s.epoch,
            loss=done.loss / done.tokens,
            tokens=done.tokens,
            rate=rate,
            gradient_norm=done.gradient_norm,
            time={"tokens_per_second": done.tokens / max(time.monotonic() - began, 1e-9)},
        )

    def _keep_up(self, *, last: bool = False) -> None:
        """Validate and save if this update should and has not."""
        s, options = self.state, self.options
        improved = False
        if self.validate and s.update != s.validated and (last or s.update % options.validate_every == 0):
            improved = self._validation(self.validate)
        scheduled = s.update not in s.saved and (last or s.update % options.save_every == 0)
        if scheduled and s.update:
            s.saved = [*s.saved, s.update][-options.keep_last :]
        if (scheduled and s.update) or improved:
            self._save()

    def _validation(self, validate: Validate) -> bool:
        """Validate; return whether this update is among the best to keep."""
        s = self.state
        self.objective.eval()
        try:
            with kept_random_state(), self.updater.no_gradients():
                figures = dict(validate(self.objective))
        finally:
            self.objective.train()
        value = figures.get(self.better.metric)
        if value is None:
            raise RecipeError(f"validation gives no {self.better.metric!r}; it gives {', '.join(figures)}")
        s.validated = s.update
        best = self.better.first([*s.best, (value, s.update)] if math.isfinite(value) else s.best)
        is_best = bool(best) and best[0][1] == s.update
        s.since_best = 0 if is_best else s.since_best + 1
        s.best = best[: max(self.options.keep_best, 1)]
        self._tell("validation", figures=figures, best=is_best)
        return self.options.keep_best > 0 and s.update in [update for _, update in s.best]

    def _limit(self) -> str | None:
        s, o = self.state, self.options
        reached = {
            "updates": o.updates is not None and s.update >= o.updates,
            "epochs": o.epochs is not None and s.epoch >= o.epochs,
            "minutes": o.minutes is not None and self._seconds() >= 60 * o.minutes,
            "patience": o.patience is not None and s.since_best >= o.patience,
        }
        return next((reason for reason, is_reached in reached.items() if is_reached), None)

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    def _save(self) -> None:
        s = self.state
        s.scale, s.clean = self.updater.scale, self.updater.clean
        best = [update for _, update in s.best] if self.options.keep_best else []
        content = {"state": dataclasses.asdict(s), "fingerprint": self.fingerprint}
        files = {
            "model.safetensors": tensor_bytes(self.objective),
            "optimizer.safetensors": to_bytes(self.updater.optimizer_tensors()),
            "random.safetensors": to_bytes(random_state()),
            "state.json": json.dumps(content, indent=1, sort_keys=True).encode(),
            "clock.json": json.dumps({"seconds": self._seconds()}).encode(),
        }
        path = self.checkpoints.save(s.update, files, keep=[*s.saved, *best])
        self._tell("saved", path=str(path))

    def _resume(self, sealed: Sealed) -> None:
        content = json.loads(sealed.read("state.json"))
        _refuse_changes(content["fingerprint"], self.fingerprint)
        self.state = State(**content["state"])
        self.state.best = [(value, update) for value, update in self.state.best]
        self.seconds_before = json.loads(sealed.read("clock.json"))["seconds"]
        load_tensors(self.objective, sealed.read("model.safetensors"))
        self.updater.load_optimizer(from_bytes(sealed.read("optimizer.safetensors")))
        self.updater.scale, self.updater.clean = self.state.scale, self.state.clean
        restore(from_bytes(sealed.read("random.safetensors")))
        self._tell("resumed", validated=self.state.validated)

    def _tell(self, event: str, *, time: Mapping[str, float] | None = None, **facts: Any) -> None:
        """Tell the observers; what differs between two equal runs is under ``time``."""
        told = {"update": self.state.update, **facts, "time": {"seconds": self._seconds(), **(time or {})}}
        for observer in self.observers:
            observer(event, told)


def _unchangeable(options: TrainingOptions) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(options).items() if key not in CHANGEABLE}


def _refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise RecipeError that lists every key whose value is not what the checkpoint was made with."""
    old, new = _flat(before), _flat(now)
    absent = object()
    changes = [
        f"`{key}` was {old.get(key, 'absent')!r} and is {new.get(key, 'absent')!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, absent) != new.get(key, absent)
    ]
    if changes:
        raise RecipeError(
            f"the run in this folder was started with another recipe: {'; '.join(changes)}. "
            "Restore these, or train in another folder"
        )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            leaves |= _flat(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
