"""Which module is to be verified? That of a model folder, or whatever a name in somebody's code stands for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.bundle import is_classifier, load_bundle
from regard.errors import InputError
from regard.models import build, build_classifier
from regard.signals.classifier import load_classifier
from regard.training import Seq2SeqObjective
from regard.verification import Report
from regard.verification import verify as verify_module


def verify(subject: str, *, checks: Sequence[str] = (), seed: int = 0) -> Report:
    """Run the checks of `regard.verify` on what ``subject`` names.

    Args:
        subject: a model or run folder; or ``package.module:name``, where the name is a module, its class, or a function
            that makes one without arguments, such as ``functools.partial(MyTransformer, vocab=100)``.
        checks: names of checks to run alone.
        seed: of the inputs.

    Raises:
        InputError: nothing of that name, or it is no ``torch.nn.Module``.
    """
    if Path(subject).exists() or ":" not in subject:
        if is_classifier(subject):
            classifier = load_classifier(subject).model
            return verify_module(
                classifier, rebuild=lambda: build_classifier(classifier.spec), checks=checks or None, seed=seed
            )
        model = load_bundle(subject).model
        return verify_module(
            model, rebuild=lambda: build(model.spec), loss=_training_loss, checks=checks or None, seed=seed
        )
    module, rebuild = _made(subject)
    return verify_module(module, rebuild=rebuild, checks=checks or None, seed=seed)


def _training_loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
    return Seq2SeqObjective(model, smoothing=0.1)(batch)  # type: ignore[no-any-return]


def _made(subject: str) -> tuple[nn.Module, Callable[[], nn.Module] | None]:
    """Return the module that a name in somebody's code stands for, and how to make another."""
    found = _named(subject)
    if isinstance(found, nn.Module):
        return found, None
    if not callable(found):
        raise InputError(f"{subject} is neither a torch.nn.Module nor a function that makes one, but {found!r}")

    def make() -> nn.Module:
        try:
            made = found()
        except Exception as error:
            raise InputError(
                f"{subject} cannot be called without arguments: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, nn.Module):
            raise InputError(f"{subject} makes a {type(made).__name__} and not a torch.nn.Module")
        return made

    return make(), make


def _named(subject: str) -> object:
    path, _, name = subject.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # as `python -m` does: one's own files are found where one stands
    try:
        found: object = import_module(path)
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{path} has no {name!r}")
        found = getattr(found, part)
    return found
