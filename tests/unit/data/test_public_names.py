"""The room's door: every name leads where it says, and reading options loads no torch."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

import regard.data


def test_every_public_name_is_a_thing_of_the_room_whatever_was_imported() -> None:
    for module in walk_packages(regard.data.__path__, "regard.data."):
        import_module(module.name)  # a submodule of the same name would hide a function
    for name in regard.data.__all__:
        thing = getattr(regard.data, name)
        assert not isinstance(thing, ModuleType), name
        assert thing.__module__.startswith("regard.data."), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = regard.data.nothing


def test_reading_lines_and_options_loads_no_torch() -> None:
    script = (
        "import sys\n"
        "from regard.data import CorpusFiles, FilterOptions, NoiseOptions, TokenizerOptions, read_lines\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
