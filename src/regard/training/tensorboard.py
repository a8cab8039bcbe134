"""An observer that writes curves for TensorBoard (extra ``track``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import MissingExtraError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Writes what each update and validation tells, by the names of the log: ``update/loss``, ``validation/BLEU``, ...

    Args:
        folder: where; ``tensorboard --logdir`` shows it. A resumed run goes on at its checkpoint.

    Raises:
        MissingExtraError: the package is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            import torch.utils.tensorboard as board
        except ImportError:
            raise MissingExtraError("tensorboard", "track") from None
        self._make = board.SummaryWriter
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """Write the numbers of an event."""
        update = facts["update"]
        match event:
            case "started" | "resumed":
                self._writer = self._make(str(self.folder), purge_step=update + 1)
            case "update":
                self._write("update", update, {name: facts[name] for name in facts if name not in ("update", "epoch")})
            case "validation":
                self._write("validation", update, facts["figures"])
            case "ended" if self._writer:
                self._writer.close()
                self._writer = None

    def _write(self, group: str, update: int, numbers: Mapping[str, Any]) -> None:
        assert self._writer is not None  # every run begins by `started` or `resumed`
        for name, value in numbers.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self._writer.add_scalar(f"{group}/{name}", value, update)
