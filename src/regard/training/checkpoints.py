"""Where a run can go on from: one sealed folder per kept update, and a file that names the newest.

::

    checkpoints/
      latest                    the name of the newest, a line of text
      update-00000500/
        model.safetensors       weights of the objective, shared tensors once
        optimizer.safetensors   parameter name + "." + quantity
        random.safetensors      every random generator
        state.json              counters, position in the data, best so far, fingerprint of the recipe
        clock.json              seconds spent: with it, only manifest.json differs between two equal runs
        manifest.json
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from regard.errors import DamagedError, FolderError
from regard.storage import Sealed, open_sealed, recover, remove, seal, write_bytes
from regard.training.weights import average as average_files

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
        """Return the checkpoint to go on from, every file checked, or None when there is none.

        Raises:
            DamagedError: it is damaged; the message names the file and the newest whole one before it.
        """
        updates = self.updates()
        if not updates:
            return None
        try:
            return self.open(updates[-1])
        except DamagedError as damage:
            raise DamagedError(f"{damage}. {self._remedy(updates)}") from None

    def open(self, update: int) -> Sealed:
        """Open the checkpoint of ``update`` and check every file."""
        sealed = open_sealed(self.path(update))
        sealed.check()
        return sealed

    def average(self, updates: Sequence[int]) -> dict[str, Tensor]:
        """Return the mean weights of several checkpoints; see `regard.training.weights.average`."""
        return average([self.path(update) for update in sorted(updates)])

    def _remedy(self, updates: Sequence[int]) -> str:
        for update in reversed(updates[:-1]):
            try:
                self.open(update)
            except FolderError:
                continue
            return f"{self.path(update)} is whole: to go on from it, delete the folder {self.path(updates[-1])}"
        return f"No earlier checkpoint is whole: to start again, delete the folder {self.folder}"


def average(paths: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean weights of several checkpoint folders, oldest first, in float64, rounded once."""
    return average_files(open_sealed(path).read("model.safetensors") for path in paths)
