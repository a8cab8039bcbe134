"""How is a step followed that a module takes in a method of its own, where no hook of torch reaches?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from regard.protocols import Stepped

Through = Callable[..., Any]
"""Given the method and then its arguments; calls it, and returns what it returned."""


def steps_of(module: nn.Module) -> tuple[str, ...]:
    """Return the names of the methods by which a module tells its steps; none for most."""
    return module.inner_steps if isinstance(module, Stepped) else ()


def follow(module: nn.Module, step: str, through: Through) -> Callable[[], None]:
    """Let each call of ``module``'s method ``step`` go by ``through``, until the returned function is called."""
    own, method = vars(module).get(step), getattr(module, step)
    setattr(module, step, lambda *args, **named: through(method, *args, **named))

    def leave() -> None:
        delattr(module, step)
        if own is not None:
            setattr(module, step, own)

    return leave


def stepped(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield path, module and name of each step inside ``model``."""
    for path, module in model.named_modules():
        for step in steps_of(module):
            yield path, module, step
