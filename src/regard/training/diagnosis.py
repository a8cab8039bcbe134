"""Where a number that is not finite came from: the update is run again, with ears on every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.random_state import restore_torch


def diagnose(
    objective: nn.Module,
    batches: Sequence[Any],
    autocast: Callable[[], AbstractContextManager[object]],
    random_state: Mapping[str, Tensor],
) -> str:
    """Return a sentence: the first parameter, output or gradient that is not finite, and in which examples.

    Args:
        objective: the module as it was when the update began.
        batches: of that update.
        autocast: the context in which it was called.
        random_state: torch's, of the moment when the update began, so that the same dropout falls.
    """
    for name, parameter in objective.named_parameters():
        if not _finite(parameter):
            return f"the weights {name} are not finite"
    restore_torch(random_state)
    for batch in batches:
        if fault := _first_fault(objective, batch, autocast):
            ids = ", ".join(map(str, batch.example_ids[:8])) + (", …" if len(batch.example_ids) > 8 else "")
            return f"{fault} is not finite, in a batch of the examples {ids}"
    return "the sum of the gradients is not finite, though each batch's is"


def _first_fault(
    objective: nn.Module, batch: Any, autocast: Callable[[], AbstractContextManager[object]]
) -> str | None:
    faults: list[str] = []

    def hear(where: str, tensor: Tensor) -> None:
        if not _finite(tensor):
            faults.append(where)

    def attend(name: str, output: Any) -> None:
        for tensor in _tensors(output):
            hear(f"the output of {name}", tensor)
            if tensor.requires_grad:
                tensor.register_hook(partial(hear, f"the gradient at the output of {name}"))  # type: ignore[no-untyped-call]

    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: attend(name, output))
        for name, module in objective.named_modules()
        if name
    ]
    try:
        objective.zero_grad(set_to_none=True)
        with autocast():
            loss, count = objective(batch)
        hear("the loss", loss)
        if count and not faults:
            loss.backward()
            for name, parameter in objective.named_parameters():
                if parameter.grad is not None:
                    hear(f"the gradient of {name}", parameter.grad)
    finally:
        for handle in handles:
            handle.remove()
        objective.zero_grad(set_to_none=True)
    return faults[0] if faults else None


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _tensors(output: Any) -> Iterable[Tensor]:
    """Yield the floating-point tensors among what a module returned."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)
