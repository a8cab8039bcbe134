"""The tensors of a module as safetensors bytes and back: shared ones stored once, every name accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.errors import DamagedError, FolderError


def tensor_bytes(module: nn.Module) -> bytes:
    """Return the parameters and buffers of ``module`` as safetensors, each once, whatever its number of names.

    It is stored under the first; the others are recorded in the file's metadata, under ``aliases``, as JSON:
    name -> stored name.
    """
    state = module.state_dict()
    groups = _names(module).values()
    tensors = {first: state[first] for first, *_ in groups}
    aliases = {other: first for first, *others in groups for other in others}
    # one metadata entry at most: the format does not fix the order of several, and the bytes must be reproducible
    return to_bytes(tensors, {"aliases": json.dumps(aliases, sort_keys=True)} if aliases else None)


def load_tensors(module: nn.Module, data: bytes | Mapping[str, Tensor]) -> None:
    """Copy safetensors bytes (or named tensors) into ``module`` in place, so that what is shared stays shared.

    Raises:
        FolderError: names are missing or unexpected, shapes differ, or the copies of one shared tensor disagree;
            nothing was changed.
    """
    tensors = from_bytes(data) if isinstance(data, bytes) else data
    targets = module.state_dict()
    groups = _names(module)
    faults = [f"unexpected {name}" for name in tensors if name not in targets]
    chosen: dict[str, Tensor] = {}
    for names in groups.values():
        present = [name for name in names if name in tensors]
        if not present:
            faults.append(f"missing {' = '.join(names)}")
            continue
        first = tensors[present[0]]
        if first.shape != targets[names[0]].shape:
            faults.append(f"{present[0]} has shape {list(first.shape)} instead of {list(targets[names[0]].shape)}")
        faults += [
            f"{present[0]} and {name} are one tensor in the model and differ in the file"
            for name in present[1:]
            if not torch.equal(first, tensors[name])
        ]
        chosen[names[0]] = first
    if faults:
        shown = "; ".join(faults[:8]) + (f"; and {len(faults) - 8} more" if len(faults) > 8 else "")
        raise FolderError(f"the weights do not fit the model: {shown}")
    with torch.no_grad():
        for name, tensor in chosen.items():
            targets[name].copy_(like(tensor, targets[name]))


def average(files: Iterable[bytes]) -> dict[str, Tensor]:
    """Return the mean of several weights files, oldest first, taken in float64 and rounded once.

    Shared tensors are stored once and so stay shared. Integers are not averaged: the newest file's are taken.

    Raises:
        FolderError: there is no file, or they do not hold the same names and shapes.
    """
    sums: dict[str, Tensor] = {}
    count = 0
    for count, data in enumerate(files, start=1):
        tensors = from_bytes(data)
        if count == 1:
            sums = {name: torch.zeros(t.shape, dtype=torch.float64) for name, t in tensors.items()}
        odd = sorted(tensors.keys() ^ sums.keys()) or [n for n in tensors if tensors[n].shape != sums[n].shape]
        if odd:
            raise FolderError(f"weights of different models cannot be averaged: they differ in {', '.join(odd[:8])}")
        for name, tensor in tensors.items():
            sums[name] += tensor
    if not count:
        raise FolderError("there is nothing to average: no checkpoint was given")
    return {
        name: (sums[name] / count).to(newest.dtype) if newest.is_floating_point() else newest
        for name, newest in tensors.items()
    }


def to_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return named tensors as safetensors, the same bytes for the same content."""
    plain = {name: whole(tensor.detach()).cpu().contiguous() for name, tensor in tensors.items()}
    return bytes(safetensors.torch.save(plain, metadata))


def from_bytes(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    Raises:
        DamagedError: it is none.
    """
    try:
        return dict(safetensors.torch.load(data))
    except SafetensorError as error:
        raise DamagedError(f"not a safetensors file: {error}") from None


def like(tensor: Tensor, example: Tensor) -> Tensor:
    """Return ``tensor`` on the device of ``example``, and in parts if that is."""
    tensor = tensor.to(example.device)
    if not hasattr(example, "placements") or tensor.shape != example.shape:
        return tensor
    from regard.training.sharding import part_of  # loaded already, or nothing would be in parts

    return part_of(tensor, example)  # type: ignore[arg-type]


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor of which every process holds a part as a whole one; all must ask together."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full


def metadata(data: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: the length of its header as 8 bytes, then the header as JSON.

    Raises:
        DamagedError: it is none, or has no metadata.
    """
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
        return dict(header["__metadata__"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError("not a safetensors file with metadata") from None


def _names(module: nn.Module) -> dict[int, list[str]]:
    """Return the names of each distinct tensor of the module; one tensor has several where weights are tied."""
    groups: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), []).append(name)
    return groups
