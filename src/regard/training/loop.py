"""A whole run: epochs of updates, validations, checkpoints, and the reasons to stop.

After each update, in this order: stop if a signal asks; validate if due; save if due or if among the best; stop if a
limit is reached. A run that is stopped anywhere and resumed gives the same bytes as one that was not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import InterruptedRun, RecipeError, TrainingError
from regard.locking import lock
from regard.modes import evaluation_mode
from regard.protocols import BatchSource, Observer
from regard.storage import Sealed
from regard.training.checkpoints import EMA, Checkpoints
from regard.training.compiled import Compiled
from regard.training.diagnosis import NotFiniteError
from regard.training.distributed import ALONE, Ranks
from regard.training.ema import MovingAverage
from regard.training.failure import keep_failure
from regard.training.fingerprint import fingerprint as fingerprint_of
from regard.training.fingerprint import refuse_changes
from regard.training.options import TrainingOptions
from regard.training.precision import products
from regard.training.random_state import kept_random_state, random_state, restore, seed_all
from regard.training.schedule import Schedule
from regard.training.signals import Signals, StopRequest
from regard.training.state import LOWEST_LOSS, Better, Outcome, State
from regard.training.step import Updater
from regard.training.weights import from_bytes, load_tensors, tensor_bytes, to_bytes

Validate = Callable[[nn.Module], Mapping[str, float]]


def train(
    objective: nn.Module,
    batches: BatchSource[Any],
    options: TrainingOptions,
    *,
    folder: str | Path,
    schedule: Schedule | None = None,
    validate: Validate | None = None,
    better: Better = LOWEST_LOSS,
    observers: Sequence[Observer] = (),
    fingerprint: Mapping[str, Any] | None = None,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Train until the options or a signal say to stop; go on from the newest checkpoint in ``folder`` if there is one.

    Args:
        objective: a module; ``objective(batch)`` gives the loss summed over real tokens, and their count. It holds the
            last weights afterwards, in training mode.
        batches: the data, in an order that depends on the epoch alone.
        options: how.
        folder: of the run; checkpoints go in its folder ``checkpoints``.
        schedule: update, from 1, to learning rate; made from the options by default.
        validate: called with the objective in evaluation mode and without gradients; gives figures by name. It may be
            left at any point by a signal, and draws no random number that training would have drawn.
        better: which of the figures decides.
        observers: told ``started`` or ``resumed``, then ``update``, ``validating``, ``validation``, ``saved``, and at
            last ``ended``; ``notice`` has ``words`` for people. Each event has ``update`` and ``seconds``; only
            ``seconds`` differs between two equal runs. Updates and epochs are told from 1.
        fingerprint: whatever else must not change between a run and its resumption, as JSON values.
        ranks: the processes of this run, all of which call with the same arguments but for ``batches``: each gives its
            shares of the same batches, of which some may be empty. The first alone writes and has observers.

    Raises:
        InterruptedRun: Ctrl-C; the state was saved.
        TrainingError: something was not finite (the update is kept in a file, for `regard.training.replay`), or the
            data has no tokens.
        RecipeError: the checkpoint is of another recipe, or `patience` or `better` ask for what is not measured.
        FolderError: another run holds the folder, or the newest checkpoint is damaged.
    """
    if options.patience and not validate:
        raise RecipeError("`patience` counts validations, but there is no validation data")
    checkpoints = Checkpoints(Path(folder) / "checkpoints")
    checkpoints.folder.mkdir(parents=True, exist_ok=True)
    with (
        lock(checkpoints.folder) if ranks.is_first else nullcontext(),
        Signals(told_twice=ranks.world > 1) as signals,
        products(options.precision),
    ):
        return _Run(
            objective=objective,
            batches=batches,
            options=options,
            checkpoints=checkpoints,
            signals=signals,
            schedule=schedule or options.rates(),
            validate=validate,
            better=better,
            observers=observers,
            fingerprint=fingerprint_of(options, fingerprint or {}),
            ranks=ranks,
        )()


@dataclass(kw_only=True)
class _Run:
    objective: nn.Module
    batches: BatchSource[Any]
    options: TrainingOptions
    checkpoints: Checkpoints
    signals: Signals
    schedule: Schedule
    validate: Validate | None
    better: Better
    observers: Sequence[Observer]
    fingerprint: dict[str, Any]
    ranks: Ranks

    def __post_init__(self) -> None:
        self.updater = Updater(self.objective, self.options, self.ranks)
        self.compiled = Compiled(self.objective, self._notice) if self.options.compile else None
        self.ema = MovingAverage(self.objective, self.options.ema) if self.options.ema else None
        self.state = State()
        self.given = 0  # target tokens of this epoch, learned from or lost to an overflow of float16
        self.validation_seconds = 0.0  # of the longest so far: `minutes` must leave as much for the last one
        self.began = time.monotonic()

    def __call__(self) -> Outcome:
        with self.ranks.first():
            if self.ranks.is_first:
                self.checkpoints.recover()
            newest = self.checkpoints.newest()
        if newest:
            self._resume(newest)
        else:
            seed_all(self.options.seed)
            self._tell("started", **self._limits())
        self.objective.train()
        reason, began_at = "failed", self.state.update
        try:
            with self.compiled or nullcontext():
                reason = self._go_on()
        except StopRequest as request:
            reason = request.reason
            self._save()
        finally:
            self._tell("ended", reason=reason)
        if reason == "interrupted":
            raise InterruptedRun(f"stopped after update {self.state.update}, which is saved; the same command goes on")
        s = self.state
        return Outcome(reason, s.update, tuple(s.best), tuple(s.saved), began_at, self._seconds())

    def _go_on(self) -> str:
        s = self.state
        self._keep_up()
        while not (reason := self._limit()):
            batch, self.given = s.batch, 0
            source = iter(self.batches.epoch(s.epoch, skip=s.batch))
            while not reason and self._update(list(islice(source, self.options.accumulate))):
                self.signals.obey(self.ranks)
                self._keep_up()
                reason = self._limit()
            if reason:
                break
            if batch == 0 and not self.given:
                raise TrainingError(
                    f"epoch {s.epoch + 1} has no target token to learn from; look at the data and filters"
                )
            s.epoch, s.batch = s.epoch + 1, 0
        self._keep_up(last=True)
        return reason

    def _update(self, group: Sequence[Any]) -> bool:
        """Make one update; return False if no process had anything left to make it from."""
        s = self.state
        rate = self.schedule(s.update + 1)
        try:
            done = self.updater(group, number=s.update + 1, rate=rate)
        except NotFiniteError as error:
            with self.updater.spread.gathered():  # which takes all processes
                if not error.is_here:
                    raise
                raise keep_failure(self.checkpoints.folder.parent, self.objective, group, error) from None
        s.batch += done.batches
        self.given += done.tokens
        if done.applied:
            s.update += 1
            s.tokens += done.tokens
            loss = done.loss / done.tokens
            facts = {"epoch": s.epoch + 1, "loss": loss, "tokens": done.tokens, "rate": rate}
            if self.ema:
                self.ema.update(s.update)
            if self.compiled:
                self.compiled.count_update()
            self._tell("update", **facts, gradient_norm=done.gradient_norm, **done.norms)
        return done.batches > 0

    def _keep_up(self, *, last: bool = False) -> None:
        """Validate and save, if this update should and has not."""
        s = self.state
        if not s.update and not last:
            return
        to_keep = False
        if self.validate and s.update != s.validated and (last or s.update % self.options.validate_every == 0):
            self._tell("validating", last=last)
            to_keep = self._validate(self.validate)
        if s.update not in s.saved and (last or s.update % self.options.save_every == 0):
            s.saved = [*s.saved, s.update][-self.options.keep_last :]
            to_keep = True
        if to_keep:
            self._save()
            self._tell("saved", checkpoint=self.checkpoints.path(s.update).name)

    def _validate(self, validate: Validate) -> bool:
        """Validate; return whether this update is among the best, of which so many are kept."""
        s, options, began = self.state, self.options, self._seconds()
        with (
            self.ema.in_place() if self.ema else nullcontext(),
            evaluation_mode(self.objective),
            kept_random_state(),
            torch.no_grad(),
            self.updater.autocast(),
            self.compiled.paused() if self.compiled else nullcontext(),
            self.updater.spread.gathered(),
            # with several processes one cannot leave while the others go on
            self.signals.at_once() if self.ranks.world == 1 else nullcontext(),
        ):
            figures = {name: float(value) for name, value in validate(self.objective).items()}
        figures = dict(zip(figures, self.ranks.of_first(*figures.values()), strict=True))
        if self.better.metric not in figures:
            raise RecipeError(f"`metric` must be one of {', '.join(figures)}, but is {self.better.metric!r}")
        value = figures[self.better.metric]
        best = self.better.first([*s.best, (value, s.update)] if math.isfinite(value) else s.best)
        is_best = best[:1] == [(value, s.update)]
        self.validation_seconds = max(self.validation_seconds, self._seconds() - began)
        s.validated = s.update
        s.since_best = 0 if is_best else s.since_best + 1
        s.best = best[: max(options.keep_best, 1)]
        self._tell("validation", figures=figures, best=is_best)
        return options.keep_best > 0 and (value, s.update) in s.best

    def _limits(self) -> dict[str, float | None]:
        o = self.options
        return {"updates": o.updates, "epochs": o.epochs, "minutes": o.minutes, "patience": o.patience}

    def _limit(self) -> str:
        """Return the name of the limit that is reached, or nothing."""
        s, [seconds] = self.state, self.ranks.most(self._seconds() + self.validation_seconds)
        reached = {"updates": s.update, "epochs": s.epoch, "minutes": seconds / 60, "patience": s.since_best}
        return next((name for name, limit in self._limits().items() if limit and reached[name] >= limit), "")

    def _seconds(self) -> float:
        return time.monotonic() - self.began

    def _save(self) -> None:
        s = self.state
        s.scale, s.clean = self.updater.scale, self.updater.clean
        if not (self.ranks.is_first or self.updater.spread.in_parts):
            return
        content = {"state": asdict(s), "fingerprint": self.fingerprint}
        files = {
            "model.safetensors": tensor_bytes(self.objective),
            "optimizer.safetensors": to_bytes(self.updater.memory()),
            "random.safetensors": to_bytes(random_state()),
            "state.json": json.dumps(content, indent=1, sort_keys=True).encode(),
            "clock.json": json.dumps({"seconds": self._seconds(), "validation": self.validation_seconds}).encode(),
        }
        if self.ema:
            files[EMA] = self.ema.to_bytes()
        best = [update for _, update in s.best[: self.options.keep_best]]
        if self.ranks.is_first:
            self.checkpoints.save(s.update, files, keep=[*s.saved, *best])

    def _resume(self, sealed: Sealed) -> None:
        content = json.loads(sealed.read("state.json"))
        refuse_changes(content["fingerprint"], self.fingerprint)
        self.state = s = State.from_json(content["state"])
        clock = json.loads(sealed.read("clock.json"))
        self.began -= clock["seconds"]
        self.validation_seconds = clock.get("validation", 0.0)  # an older Regard did not keep it
        load_tensors(self.objective, sealed.read("model.safetensors"))
        if self.ema:
            self.ema.restore(sealed.read(EMA))
        self.updater.remember(from_bytes(sealed.read("optimizer.safetensors")))
        self.updater.scale, self.updater.clean = s.scale, s.clean
        restore(from_bytes(sealed.read("random.safetensors")))
        self._tell("resumed", validated=s.validated, **self._limits())

    def _notice(self, words: str) -> None:
        self._tell("notice", words=words)

    def _tell(self, event: str, **facts: Any) -> None:
        for observer in self.observers if self.ranks.is_first else ():
            observer(event, {"update": self.state.update, **facts, "seconds": self._seconds()})
