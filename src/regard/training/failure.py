"""An update that gave a number that is not finite: kept in one file, with all that is needed to make it again.

The file is safetensors: ``weights.*`` and ``batch.0.source`` and so on, and as metadata the rest as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import FolderError, RegardError
from regard.protocols import Batch
from regard.storage import write_bytes
from regard.training.diagnosis import Autocast, NotFiniteError, listen
from regard.training.weights import from_bytes, load_tensors, metadata, tensor_bytes, to_bytes

_WEIGHTS = "weights."
_TENSORS = ("source", "source_lengths", "target_in", "target_out", "target_lengths")


@dataclass(frozen=True)
class KeptBatch:
    """A batch as it was read back; see ``regard.protocols.Batch``."""

    source: Tensor
    source_lengths: Tensor | None
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor | None
    num_target_tokens: int
    example_ids: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    """An update that was not made.

    Attributes:
        update: its number.
        where: the first thing that was not finite, and in which examples.
        batches: of the update.
        weights: of the objective, by name, when it began.
        seeds: where torch's generators started for each batch.
    """

    update: int
    where: str
    batches: tuple[KeptBatch, ...]
    weights: dict[str, Tensor]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """One value on the way through the model.

    Attributes:
        where: as ``the output of model.encoder.layers.0``.
        largest: the largest of its finite numbers, without sign.
        not_finite: how many of its numbers are not.
        size: how many it has.
    """

    where: str
    largest: float
    not_finite: int
    size: int


def keep_failure(folder: Path, objective: nn.Module, batches: Sequence[Any], error: NotFiniteError) -> NotFiniteError:
    """Write the file, and return ``error`` with the command that looks into it.

    The error is returned as it is if the disk refuses, or if the batches are not of pairs, which alone are kept.
    """
    if not all(isinstance(batch, Batch) for batch in batches):
        return error
    tensors = {f"{_WEIGHTS}{name}": tensor for name, tensor in from_bytes(tensor_bytes(objective)).items()}
    for number, batch in enumerate(batches):
        parts = {name: getattr(batch, name) for name in _TENSORS}
        tensors |= {f"batch.{number}.{name}": tensor for name, tensor in parts.items() if tensor is not None}
    facts = {
        "update": error.update,
        "where": error.where,
        "tokens": [batch.num_target_tokens for batch in batches],
        "examples": [list(batch.example_ids) for batch in batches],
        "seeds": list(error.seeds),
    }
    path = folder / f"failed-update-{error.update:08d}.safetensors"
    try:
        write_bytes(path, to_bytes(tensors, {"failure": json.dumps(facts)}))
    except RegardError:
        return error
    message = f"{error}. The update is kept, and can be looked into: regard train --replay {path}"
    return NotFiniteError(message, error.update, error.where, error.seeds)


def read_failure(path: str | Path) -> Failure:
    """Return what `keep_failure` kept.

    Raises:
        FolderError: there is no such file, or it is not one.
    """
    path = Path(path)
    if not path.is_file():
        raise FolderError(f"there is no file {path}; a failed update is kept as failed-update-*.safetensors in its run")
    try:
        data = path.read_bytes()
        facts = json.loads(metadata(data)["failure"])
        tensors = from_bytes(data)
        batches = []
        for number, (tokens, examples) in enumerate(zip(facts["tokens"], facts["examples"], strict=True)):
            parts: dict[str, Any] = {name: tensors.get(f"batch.{number}.{name}") for name in _TENSORS}
            batches.append(KeptBatch(**parts, num_target_tokens=int(tokens), example_ids=tuple(examples)))
        weights = {name.removeprefix(_WEIGHTS): t for name, t in tensors.items() if name.startswith(_WEIGHTS)}
        seeds = tuple(map(int, facts["seeds"]))
        if len(seeds) != len(batches):
            raise ValueError
        return Failure(int(facts["update"]), str(facts["where"]), tuple(batches), weights, seeds)
    except (FolderError, OSError, ValueError, KeyError, TypeError):
        raise FolderError(f"{path} is not a failed update that Regard kept, or it is damaged") from None


def replay(objective: nn.Module, failure: Failure, autocast: Autocast) -> list[Reading]:
    """Make the update again with its weights and its dropout, and return every value up to the first not finite.

    The last reading is that one; if all are finite, the update gives other numbers here than where it failed.
    """
    load_tensors(objective, failure.weights)
    readings = [_reading(f"the weights {name}", tensor) for name, tensor in failure.weights.items()]
    if any(reading.not_finite for reading in readings):
        return [next(reading for reading in readings if reading.not_finite)]
    for batch, seed in zip(failure.batches, failure.seeds, strict=True):
        torch.manual_seed(seed)
        readings = []

        def hear(where: str, tensor: Tensor, readings: list[Reading] = readings) -> bool:
            if not (readings and readings[-1].not_finite):
                readings.append(_reading(where, tensor))
            return not readings[-1].not_finite

        listen(objective, batch, autocast, hear)
        if readings[-1].not_finite:
            break
    return readings


def _reading(where: str, tensor: Tensor) -> Reading:
    tensor = tensor.detach()
    finite = torch.isfinite(tensor)
    largest = float(tensor.masked_fill(~finite, 0).abs().max()) if tensor.numel() else 0.0
    return Reading(where, largest, int((~finite).sum()), tensor.numel())
