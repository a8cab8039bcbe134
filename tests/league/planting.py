"""A planted fault, and the small tools that plant it in a built model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Fault:
    """One fault in one host.

    Attributes:
        name: What is wrong, in a few words.
        host: Which model it is planted in.
        make: Builds the host.
        plant: Makes it wrong.
        named_by: Checks of which at least one must fail for the fault to be named.
        given: What verify is told.
    """

    name: str
    host: str
    make: Callable[[], nn.Module]
    plant: Callable[[Any], None]
    named_by: tuple[str, ...]
    given: dict[str, Any] = field(default_factory=dict)

    def build(self) -> nn.Module:
        model = self.make()
        self.plant(model)
        return model


def each(model: nn.Module, kind: type | str) -> Iterator[Any]:
    """Yield the parts of ``model`` of a class, or of a class with that name."""
    for part in model.modules():
        if type(part).__name__ == kind if isinstance(kind, str) else isinstance(part, kind):
            yield part


def replace(part: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Put ``make(old)`` in the place of the method ``name`` of one object; closures, as users write them."""
    setattr(part, name, make(getattr(part, name)))
