"""Which module does a word of the command line mean? A folder's, or whatever a name in somebody's code stands for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from torch import nn

from regard.errors import InputError


def is_code(subject: str) -> bool:
    """Return whether ``subject`` is ``package.module:name`` and not a folder."""
    return ":" in subject and not Path(subject).exists()


def made(subject: str) -> tuple[nn.Module, Callable[[], nn.Module] | None]:
    """Return the module that a name in somebody's code stands for, and how to make another.

    Raises:
        InputError: nothing of that name, or it is no ``torch.nn.Module``.
    """
    found = _named(subject)
    if isinstance(found, nn.Module):
        return found, None
    if not callable(found):
        raise InputError(f"{subject} is neither a torch.nn.Module nor a function that makes one, but {found!r}")

    def make() -> nn.Module:
        try:
            new = found()
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{subject} cannot be called without arguments: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(new, nn.Module):
            raise InputError(f"{subject} makes a {type(new).__name__} and not a torch.nn.Module")
        return new

    return make(), make


def _named(subject: str) -> object:
    path, _, name = subject.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # as `python -m` does: one's own files are found where one stands
    try:
        found: object = import_module(path)
    except (Exception, SystemExit) as error:  # a script that ends itself is no module to import
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{path} has no {name!r}")
        found = getattr(found, part)
    return found
