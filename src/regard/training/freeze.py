"""Which weights stay as they are: parameters by patterns of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from torch import nn

from regard.errors import RecipeError, nearest


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Let no training change the parameters that a pattern names, and return their names.

    A pattern is the name of a parameter or of a part, which means all parameters inside; ``*`` stands for anything.
    A shared parameter is frozen under any of its names.

    Raises:
        RecipeError: a pattern that names nothing, with the nearest name; or nothing is left to train.
    """
    named = list(module.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        found = [parameter for name, parameter in named if any(fnmatchcase(n, pattern) for n in _with_owners(name))]
        if not found:
            raise RecipeError(f"training.freeze: no part of the model is named {pattern!r}{_nearest(pattern, named)}")
        for parameter in found:
            parameter.requires_grad_(False)
    if named and not any(parameter.requires_grad for _, parameter in named):
        raise RecipeError("training.freeze: nothing is left to train; freeze less")
    return [name for name, parameter in module.named_parameters() if not parameter.requires_grad]


def _nearest(pattern: str, named: Sequence[tuple[str, nn.Parameter]]) -> str:
    """Name the closest part, or the outermost ones where none is close."""
    close = get_close_matches(pattern, {owner for name, _ in named for owner in _with_owners(name)}, n=1)
    return nearest(pattern, close or {name.partition(".")[0] for name, _ in named})


def _with_owners(name: str) -> Iterator[str]:
    """Yield ``a.b.c``, ``a.b`` and ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]
