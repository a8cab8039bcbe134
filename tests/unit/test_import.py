"""Importing costs nothing: no torch for the package, its help, or a mistake on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_without(code: str, *modules: str) -> subprocess.CompletedProcess[str]:
    """Run it in an interpreter of its own, which must succeed and load none of the modules."""
    check = f"import sys; loaded = {{*{modules}}} & {{*sys.modules}}; assert not loaded, loaded"
    words = [sys.executable, "-c", f"{code}; {check}"]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "code",
    [
        "import regard; regard.__version__",
        "from regard.cli import run; assert run(['--help']) == 0",
        "from regard.cli import run; assert run(['train', '--help']) == 0",
        "from regard.cli import run; assert run(['trainn']) == 2",
        "from regard.cli import run; assert run(['evaluate', 'x', '--test', 'coin']) == 2",
        "from regard.cli import run; assert run(['evaluate', 'x', '--plots', 'y']) == 2",
        "from regard.cli import run; assert run(['translate', 'x', '--format', 'jsonp']) == 2",
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    run_without(code, "torch", "numpy", "rich", "sacrebleu")


@pytest.mark.parametrize(
    "words",
    [
        "evaluate x --metric blue",
        "evaluate x --bleu-tokenize 14a",
        "evaluate x -o nowhere/out",
        "evaluate x --pairs p.tsv --source s",
        "evaluate x y -o out",
        "translate x -o nowhere/out",
        "classify x y --explain nowhere/out",
        "train x --lr-range --plot nowhere/out",
    ],
)
def test_what_cannot_be_is_refused_without_torch(words: str) -> None:
    run_without(f"from regard.cli import run; assert run({words.split()}) == 2", "torch")


def test_a_folder_of_pictures_is_refused_without_torch(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"classes": []}')
    words = ["evaluate", str(tmp_path), "--plots", str(tmp_path / "config.json" / "plots")]
    done = run_without(f"from regard.cli import run; assert run({words}) == 2", "torch")
    assert "config.json is a file; name another one" in done.stderr


def test_a_recipe_is_dumped_without_torch(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("one\ntwo\n")
    words = ["train", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b"), "--dump"]
    done = run_without(f"from regard.cli import run; assert run({words}) == 0", "torch")
    assert "[training]" in done.stdout
    assert done.stderr.startswith(f"reading {words[2]}, {words[4]} …\n2 pairs")
