"""On which device is computed? What a name means, the same for text and signals."""

from __future__ import annotations

import os

import torch

from regard.errors import RecipeError


def best_device(name: str) -> torch.device:
    """Return the device that ``name`` means; ``auto`` is a CUDA device, else Apple's, else the processor.

    Of the processes that a launcher started on one machine, each has the CUDA device of its number.

    Raises:
        RecipeError: no device has that name, or there is none of its kind or number here.
    """
    if name == "auto" and torch.cuda.is_available():
        name = "cuda"
    elif name == "auto":
        name = "mps" if torch.backends.mps.is_available() and "LOCAL_RANK" not in os.environ else "cpu"
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"device {name!r} cannot be used here: only auto, cpu, cuda and mps are known") from None
    is_there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not is_there.get(device.type, True):
        raise RecipeError(f"device {name!r} cannot be used here: there is none; auto takes what there is")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # what torch raises depends on the device
        reason = str(error).split("\n", 1)[0]
        raise RecipeError(f"device {name!r} cannot be used here: {reason}") from None
    return device
