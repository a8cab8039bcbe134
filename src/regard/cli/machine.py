"""What a command may change in its own process, and a library must not: threads, and how memory is taken."""

from __future__ import annotations

from regard.errors import InputError


def set_up(threads: int | None, device: str) -> None:
    """Set the processor threads of torch, let freed memory be used again, and refuse a device that is not there."""
    import torch

    from regard.device import best_device
    from regard.training.allocator import keep_freed_memory

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        torch.empty(1, device=best_device(device))
    except (RuntimeError, AssertionError) as error:  # what torch raises depends on the device
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"device {device!r} cannot be used here: {reason}") from None
