"""Where a run can go on from: one sealed folder per kept update, and a file that names the newest.

::

    checkpoints/
      latest                    the name of the newest, a line of text
      update-00000500/
        model.safetensors       weights of the objective, shared tensors once
        ema.safetensors         the moving average of the weights, if there is one
        optimizer.safetensors   parameter name + "." + quantity
        random.safetensors      every random generator
        state.json              counters, position in the data, best so far, fingerprint of the recipe
        clock.json              seconds spent: with it, only manifest.json differs between two equal runs
        manifest.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from torch import Tensor

from regard.errors import DamagedError, FolderError
from regard.storage import Sealed, open_sealed, recover, remove, seal, write_bytes
from regard.training.state import State
from regard.training.weights import average as average_files

EMA = "ema.safetensors"
_NAME = re.compile(r"update-(\d{8,})")


class Checkpoints:
    """The checkpoints in one folder, by the number of their update."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def recover(self) -> None:
        """Remove what an interrupted save left."""
        recover(self.folder)

    def path(self, update: int) -> Path:
        """Return where the checkpoint of ``update`` is or would be."""
        return self.folder / f"update-{update:08d}"

    def updates(self) -> list[int]:
        """Return the updates that have a checkpoint, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(int(match[1]) for entry in self.folder.iterdir() if (match := _NAME.fullmatch(entry.name)))

    def save(self, update: int, files: Mapping[str, bytes], *, keep: Collection[int]) -> Path:
        """Write a checkpoint, point ``latest`` to it, then remove all but it and those in ``keep``."""
        path = self.path(update)
        seal(path, files)
        write_bytes(self.folder / "latest", f"{path.name}\n".encode())
        for other in self.updates():
            if other != update and other not in keep:
                remove(self.path(other))
        return path

    def newest(self) -> Sealed | None:
        """Return the checkpoint that ``latest`` names, or else the last, every file checked; None when there is none.

        Raises:
            DamagedError: it is damaged; the message names the file and the newest whole one before it.
        """
        updates = self.updates()
        if (latest := self._latest()) in updates:
            updates = updates[: updates.index(latest) + 1]
        if not updates:
            return None
        try:
            return self.open(updates[-1])
        except DamagedError as damage:
            raise DamagedError(f"{damage}. {self._remedy(updates)}") from None

    def open(self, update: int) -> Sealed:
        """Open the checkpoint of ``update`` and check every file.

        Raises:
            FolderError: it is missing or damaged.
        """
        sealed = open_sealed(self.path(update))
        sealed.check()
        return sealed

    def chosen(self, which: Literal["last", "best"], count: int) -> list[int]:
        """Return the updates of the ``count`` last scheduled or best checkpoints, oldest first, as far as kept.

        Without any validation the last stand for the best. Checkpoints made because a run was stopped do not count as
        last, so that a stopped and resumed run ends with the same mean.

        Raises:
            FolderError: there is none, or the newest is damaged.
        """
        newest = self.newest()
        if newest is None:
            raise FolderError(f"{self.folder} holds no checkpoint yet; train first")
        state = State.from_json(json.loads(newest.read("state.json"))["state"])
        there = self.updates()
        best = [update for _, update in state.best if update in there]
        last = [update for update in state.saved if update in there] or there[-1:]
        return sorted(best[:count] if which == "best" and best else last[-count:])

    def average(self, updates: Sequence[int]) -> dict[str, Tensor]:
        """Return the mean weights of several checkpoints; see `regard.training.weights.average`."""
        return average([self.path(update) for update in sorted(updates)])

    def _latest(self) -> int | None:
        """Return the update that the pointer names, if it can be read; without it the folders speak for themselves."""
        try:
            name = (self.folder / "latest").read_bytes().decode(errors="replace").strip()
        except OSError:
            return None
        return int(match[1]) if (match := _NAME.fullmatch(name)) else None

    def _remedy(self, updates: Sequence[int]) -> str:
        for update in reversed(updates[:-1]):
            try:
                self.open(update)
            except FolderError:
                continue
            return f"{self.path(update)} is whole: to go on from it, delete the folder {self.path(updates[-1])}"
        return f"No earlier checkpoint is whole: to start again, delete the folder {self.folder}"


def average(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean weights of several checkpoint folders, oldest first, in float64, rounded once.

    Of a checkpoint that has a moving average of its weights, that is taken.
    """
    sealed = map(open_sealed, paths)
    return average_files(one.read(EMA if EMA in one.names else "model.safetensors") for one in sealed)
