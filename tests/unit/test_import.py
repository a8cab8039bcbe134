"""Importing costs nothing: no torch for the package, its help, or a mistake on the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import regard; regard.__version__",
        "from regard.cli import run; assert run(['--help']) == 0",
        "from regard.cli import run; assert run(['train', '--help']) == 0",
        "from regard.cli import run; assert run(['trainn']) == 2",
    ],
)
def test_torch_is_not_loaded(code: str) -> None:
    heavy = "[m for m in ('torch', 'numpy', 'rich', 'sacrebleu') if m in sys.modules]"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; loaded = {heavy}; assert not loaded, loaded"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
