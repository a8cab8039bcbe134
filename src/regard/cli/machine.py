"""What a command may change in its own process, and a library must not: threads, and how memory is taken."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def set_up(threads: int | None, device: str) -> None:
    """Set the processor threads of torch, let freed memory be used again, and refuse a device that is not there."""
    import torch

    from regard.cli.allocator import keep_freed_memory
    from regard.device import best_device

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    best_device(device)


def start_again_with_room() -> None:
    """Start this program once more, in its own place, if a training then needs less memory; nothing is read before.

    Only where the process is the command and nothing else. Of a script that calls ``main`` nobody knows what it did
    before, or what it would do after.
    """
    from regard.cli.allocator import environment_without_caches

    environment = environment_without_caches(os.environ)
    if environment is not None and sys.executable and _is_the_command():
        with suppress(OSError):  # not allowed here: the training only takes more memory
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _is_the_command() -> bool:
    """Tell ``regard …`` and ``python -m regard …`` from other ways to get here."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return Path(sys.argv[0]).name == "regard" if spec is None else spec.name == "regard.__main__"
