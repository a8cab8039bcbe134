"""Who watches a run: `JsonLog` for programs, `Progress` for people. Both are called with an event and its facts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from regard.errors import RegardError
from regard.storage import write_bytes


class JsonLog:
    """A file with one event a line, as JSON; a resumed run goes on exactly where its checkpoint was made.

    Numbers that are not finite become null. All but the ``seconds`` of a line is the same in two equal runs.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """Append a line; what only begins is not noted, nor are checkpoints, which speak for themselves.

        Raises:
            RegardError: the file cannot be written.
        """
        if event in ("saved", "validating"):
            return
        if event == "resumed":
            self._forget(after=facts["update"], validations_after=facts["validated"])
        line = json.dumps({"event": event, **_finite(facts)}, ensure_ascii=False).encode() + b"\n"
        try:
            with self.path.open("wb" if event == "started" else "ab") as file:
                file.write(line)
        except OSError as error:
            raise RegardError(f"cannot write {self.path}: {error.strerror}") from error

    def _forget(self, *, after: int, validations_after: int) -> None:
        """Drop the events that came after the checkpoint, and a line that was cut."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except OSError:  # without a log the run is as good
            return
        kept = []
        for line in lines:
            try:
                fact = json.loads(line)
                limit = validations_after if fact["event"] == "validation" else after
                if fact["update"] <= limit:
                    kept.append(line + b"\n")
            except (ValueError, KeyError, TypeError):
                continue
        write_bytes(self.path, b"".join(kept))


def _finite(facts: Any) -> Any:
    if isinstance(facts, Mapping):
        return {key: _finite(value) for key, value in facts.items()}
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


class Progress:
    """A line on stderr that says how training goes: alive on a terminal, a plain one from time to time elsewhere.

    Args:
        console: where; stderr by default.
        every: seconds between lines; half a second on a terminal and ten elsewhere by default.
        unit: what losses are counted by.
    """

    def __init__(
        self, console: Console | None = None, *, every: float | None = None, unit: str = "target token"
    ) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.every = every if every is not None else 0.5 if self.console.is_terminal else 10.0
        self._live: Live | None = None
        self._pace = _Pace({}, 0, 0.0, is_fresh=True)
        self._unit = unit
        self._window = _Window(0.0, unit)

    def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """Show the event, if it is time."""
        seconds, update = facts["seconds"], facts["update"]
        match event:
            case "started" | "resumed":
                limits = {name: facts[name] for name in ("updates", "epochs", "minutes") if facts[name]}
                self._pace = _Pace(limits, update, seconds, is_fresh=event == "started")
                self._window = _Window(seconds, self._unit)
                if event == "resumed":
                    self._print(f"going on after update {update:,}")
                if self.console.is_terminal:
                    self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=False)
                    self._live.start()
            case "update":
                self._pace.see(update, facts["epoch"])
                self._window.add(facts)
                if seconds - self._window.since >= self.every:
                    self._show(self._window.line(facts, left=self._pace.left(update, seconds)))
                    self._window = _Window(seconds, self._unit)
            case "validating" if self._live or facts["last"]:
                self._show(f"{'last update done: ' if facts['last'] else ''}validating after update {update:,} …")
            case "validation":
                figures = ", ".join(f"{name} {value:.4g}" for name, value in facts["figures"].items())
                self._print(f"validation after update {update:,}: {figures}{' (best)' if facts['best'] else ''}")
                self._window.since += seconds - self._window.last
            case "notice":
                self._print(facts["words"])
            case "ended" if self._live:
                self._live.stop()
                self._live = None

    def _show(self, line: str) -> None:
        if self._live:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)


class _Window:
    """What the updates since the last shown line say together."""

    def __init__(self, since: float, unit: str) -> None:
        self.since = self.last = since
        self.unit = unit
        self.loss = 0.0
        self.tokens = 0

    def add(self, facts: Mapping[str, Any]) -> None:
        self.loss += facts["loss"] * facts["tokens"]
        self.tokens += facts["tokens"]
        self.last = facts["seconds"]

    def line(self, facts: Mapping[str, Any], *, left: float | None) -> str:
        parts = [
            f"update {facts['update']:,}",
            f"epoch {facts['epoch']}",
            f"loss {self.loss / self.tokens:.3f} nats/{self.unit.rpartition(' ')[2]}",
            f"rate {facts['rate']:.2e}",
            f"{self.tokens / max(facts['seconds'] - self.since, 1e-9):,.0f} {self.unit}s/s",
            f"gradient {facts['gradient_norm']:.2f}",
            f"{_clock(left)} left" if left is not None else f"{_clock(facts['seconds'])} so far",
        ]
        return " · ".join(parts)


class _Pace:
    """How fast this session goes, and so how long until the nearest limit."""

    def __init__(self, limits: Mapping[str, float], update: int, seconds: float, *, is_fresh: bool) -> None:
        self.limits = limits
        self.first_update, self.first_seconds = update, seconds
        self.epoch: int | None = None
        self.epoch_began = 0  # updates before it
        self.epoch_length = 0
        self.saw_epoch_begin = is_fresh

    def see(self, update: int, epoch: int) -> None:
        if epoch != self.epoch:
            if self.epoch is not None:
                self.epoch_length = update - 1 - self.epoch_began if self.saw_epoch_begin else 0
                self.saw_epoch_begin = True
            self.epoch, self.epoch_began = epoch, update - 1

    def left(self, update: int, seconds: float) -> float | None:
        """Return the seconds to go, or None while nobody can know."""
        per_update = (seconds - self.first_seconds) / max(update - self.first_update, 1)
        ends = []
        if "minutes" in self.limits:
            ends.append(60 * self.limits["minutes"] - seconds)
        if "updates" in self.limits:
            ends.append((self.limits["updates"] - update) * per_update)
        if "epochs" in self.limits and self.epoch is not None and self.epoch_length:
            last = self.epoch_began + (self.limits["epochs"] - self.epoch + 1) * self.epoch_length
            ends.append((last - update) * per_update)
        return max(min(ends), 0.0) if ends else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
