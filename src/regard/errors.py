"""Everything that Regard raises on purpose.

::

    RegardError                 exit 1   something failed while running
    ├── InputError              exit 2   what the caller gave cannot be used
    │   ├── RecipeError                  a recipe key or value (also a ValueError)
    │   ├── DataError                    a text file, a line, a pair
    │   ├── ShapeError                   a tensor: mask, ids, width, length (also a ValueError)
    │   ├── FolderError                  a model or run folder: missing, locked, of another recipe
    │   │   └── DamagedError             a sealed file that differs from its manifest
    │   └── MissingExtraError            an optional package is not installed
    ├── TrainingError           exit 1   the run cannot go on: NaN, a full disk
    └── InterruptedRun          exit 130 Ctrl-C, and what is saved

Every message is one or two sentences: what is wrong, where (file:line or key), what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar


class RegardError(Exception):
    """Base of all of Regard's own errors; ``exit_code`` is what the command line ends with."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle takes to another process: the words, past an ``__init__`` that wants others."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[RegardError], words: tuple[Any, ...]) -> RegardError:
    return kind.__new__(kind, *words)


class InputError(RegardError):
    """What the caller gave cannot be used."""

    exit_code = 2


class RecipeError(InputError, ValueError):
    """Recipe keys or values cannot be used.

    Attributes:
        mistakes: a sentence for each.
    """

    def __init__(self, *mistakes: str) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class DataError(InputError):
    """A text file, a line or a pair cannot be used."""


class ShapeError(InputError, ValueError):
    """A tensor does not fit: mask, ids, width or length."""


class FolderError(InputError):
    """A model or run folder is missing, locked, or belongs to something else."""


class DamagedError(FolderError):
    """A sealed file is missing or differs from its manifest."""


class MissingExtraError(InputError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs the package {package!r}; install it with: pip install 'regard[{extra}]'")


class TrainingError(RegardError):
    """The run cannot go on."""


class InterruptedRun(RegardError):  # noqa: N818 - it is what was asked for, not an error
    """The user stopped the run; the message tells what is saved."""

    exit_code = 130


def refuse(*mistakes: str) -> None:
    """Raise one `RecipeError` with all ``mistakes``, if there are any."""
    if mistakes:
        raise RecipeError(*mistakes)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Within the block, what the caller gave and cannot be used is told with ``where`` it stands, as ``in.jsonl:3``."""
    try:
        yield
    except InputError as error:
        raise (InputError(f"{where}: {error}") if where else error) from None


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the valid name closest to ``name``, or all of them when none is close."""
    names = sorted(valid)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; valid: {', '.join(names)}"


ItemT = TypeVar("ItemT")


def listed(given: Iterable[ItemT], name: str, one: str) -> list[ItemT]:
    """Return, as a list, what a caller gives several of.

    Args:
        given: anything that can be gone through once, but not one text: Python takes it for a list of its letters.
        name: of the argument, for the message.
        one: what each is: a text, a phrase.

    Raises:
        InputError: it is one text, or not several of anything.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        found = f"one string; write [{one}]" if isinstance(given, str | bytes) else repr(given)
        raise InputError(f"`{name}` must be a list of {one}s, but is {found}")
    return list(given)
