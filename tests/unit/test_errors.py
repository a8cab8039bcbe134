"""Every error crosses to another process and back: words, attributes, and what it is."""

from __future__ import annotations

import pickle
import re
from importlib import import_module
from pathlib import Path

import pytest

import regard
from regard.errors import RegardError
from regard.training.diagnosis import NotFiniteError

SOURCE = Path(regard.__file__).parent
NAMED = re.compile(r"^class (\w+)\((?:\w*Error|InputError, ValueError)\):", re.MULTILINE)


def classes() -> list[type[RegardError]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            module = ".".join(["regard", *path.relative_to(SOURCE).with_suffix("").parts])
            found.append(getattr(import_module(module), name))
    return [kind for kind in found if issubclass(kind, RegardError)]


@pytest.mark.parametrize("kind", [RegardError, *classes()])
def test_every_error_crosses_to_another_process(kind: type[RegardError]) -> None:
    given = {"MissingExtraError": ("numpy", "all"), "NotFiniteError": ("broken", 7, "the loss", [3, 5])}
    error = kind(*given.get(kind.__name__, ("broken",)))
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_all_are_found() -> None:
    assert len(classes()) >= 13
    assert NotFiniteError in classes()
