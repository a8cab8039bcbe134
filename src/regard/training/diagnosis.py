"""Where a number that is not finite came from: the update is run again, with ears on every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import TrainingError

Autocast = Callable[[], AbstractContextManager[object]]
"""Gives the context in which a model is called, in the precision of its training."""


class NotFiniteError(TrainingError):
    """An update was not made, because a number was not finite.

    Attributes:
        update: its number.
        where: what `diagnose` found.
        seeds: where torch's generators started for each batch of it.
        is_here: whether it was found in this process, and not only in another.
    """

    def __init__(self, message: str, update: int, where: str, seeds: Sequence[int], *, is_here: bool = True) -> None:
        super().__init__(message)
        self.update = update
        self.where = where
        self.seeds = tuple(seeds)
        self.is_here = is_here


def diagnose(
    objective: nn.Module,
    batches: Sequence[Any],
    autocast: Autocast,
    seeds: Sequence[int],
) -> str | None:
    """Return a sentence: the first parameter, output or gradient that is not finite, and in which examples.

    Args:
        objective: the module as it was when the update began.
        batches: of that update.
        autocast: gives the context in which it was called.
        seeds: where torch's generators started for each batch, so that the same dropout falls.

    Returns:
        None when each batch alone is finite.
    """
    for name, parameter in objective.named_parameters():
        if not _finite(parameter):
            return f"the weights {name} are not finite"
    for batch, seed in zip(batches, seeds, strict=True):
        torch.manual_seed(seed)
        if fault := _first_fault(objective, batch, autocast):
            ids = ", ".join(map(str, batch.example_ids[:8])) + (", …" if len(batch.example_ids) > 8 else "")
            return f"{fault} is not finite, in a batch of the examples {ids}"
    return None


def _first_fault(objective: nn.Module, batch: Any, autocast: Autocast) -> str | None:
    faults: list[str] = []

    def hear(where: str, tensor: Tensor) -> bool:
        if not _finite(tensor):
            faults.append(where)
        return not faults

    listen(objective, batch, autocast, hear)
    return faults[0] if faults else None


def listen(objective: nn.Module, batch: Any, autocast: Autocast, hear: Callable[[str, Tensor], bool]) -> None:
    """Call ``hear`` with the name and value of every output on the way forward, and every gradient on the way back.

    The gradient stays out if ``hear`` says no to anything on the way forward; no gradient is left on the module.
    """

    def attend(name: str, output: Any) -> None:
        for tensor in _tensors(output):
            answers.append(hear(f"the output of {name}", tensor))
            if tensor.requires_grad:
                tensor.register_hook(partial(hear_only, f"the gradient at the output of {name}"))  # type: ignore[no-untyped-call]

    def hear_only(where: str, gradient: Tensor) -> None:
        hear(where, gradient)  # what a hook returns would take the place of the gradient

    answers: list[bool] = []
    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: attend(name, output))
        for name, module in objective.named_modules()
        if name
    ]
    try:
        objective.zero_grad(set_to_none=True)
        with autocast():
            loss, count = objective(batch)
        answers.append(hear("the loss", loss))
        if count and all(answers) and loss.requires_grad:
            loss.backward()
            for name, parameter in objective.named_parameters():
                if parameter.grad is not None:
                    hear(f"the gradient of {name}", parameter.grad)
    finally:
        for handle in handles:
            handle.remove()
        objective.zero_grad(set_to_none=True)


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
