"""Where is computed? The device of a name, the same for text and signals."""

from __future__ import annotations

import os

import torch


def best_device(name: str) -> torch.device:
    """Return the device that ``name`` means; ``auto`` is a CUDA device, else Apple's, else the processor.

    Of the processes that a launcher started on one machine, each has the CUDA device of its number.
    """
    if name == "auto" and torch.cuda.is_available():
        name = "cuda"
    elif name == "auto":
        name = "mps" if torch.backends.mps.is_available() and "LOCAL_RANK" not in os.environ else "cpu"
    return torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if name == "cuda" and "LOCAL_RANK" in os.environ else name)
