"""What a command may change in its own process, and a library must not: threads, and how memory is taken."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def set_up(threads: int | None, device: str) -> None:
    """Set the processor threads of torch, let freed memory be used again, and refuse a device that is not there."""
    import torch

    from regard.device import best_device
    from regard.training.allocator import keep_freed_memory

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    best_device(device)


def start_again_with_room() -> None:
    """Start this program once more, in its own place, if a training then needs less memory; nothing is read before."""
    from regard.training.allocator import environment_without_caches

    environment = environment_without_caches(os.environ)
    if environment is not None and sys.executable:
        with suppress(OSError):  # not allowed here: the training only takes more memory
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
