"""The command under torch's launcher: two processes train what one would, and end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.runs.training.train import train
from regard.training import Checkpoints
from unit.runs.toys import RECIPE, write_corpus

LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "regard"]
PATIENCE = 240.0
"""Seconds: three processes load torch, which takes a starved core more than a minute."""
pytestmark = pytest.mark.timeout(600)
ENDLESS = (
    RECIPE.replace("updates = 3", "updates = 1000000")
    .replace("validate_every = 2", "validate_every = 10000")
    .replace("save_every = 2", "save_every = 10000")
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path, lines=211)
    (tmp_path / "endless.toml").write_text(ENDLESS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def launched(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*LAUNCHER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def started(folder: str) -> subprocess.Popen[str]:
    """Start a training without end, and wait until it is under way."""
    running = launched("train", "endless.toml", "--out", folder)
    for _ in range(int(10 * PATIENCE)):
        if Path(folder, "log.jsonl").exists() and '"update": 3' in Path(folder, "log.jsonl").read_text():
            return running
        time.sleep(0.1)
    running.kill()
    raise AssertionError(running.communicate()[1])


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().split("\n")[:-1]]
    return [line["loss"] for line in lines if line["event"] == "update"]


def workers(launcher: int) -> list[int]:
    tasks = Path(f"/proc/{launcher}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def test_two_processes_train_what_one_goes_on_with(place: Path) -> None:
    (place / "recipe.toml").write_text(
        RECIPE.replace("dropout = 0.1", "dropout = 0.0").replace("updates = 3", "updates = 5\naccumulate = 3")
    )
    train(place / "recipe.toml", out=place / "one", updates=7, quiet=True)
    done = launched("train", "recipe.toml", "--out", "two")
    results, told = done.communicate()
    assert (done.returncode, results) == (0, ""), told
    assert told.count("2 processes share every update") == told.count("done after update 5") == 1
    made = [sorted(path.name for path in (place / run / "cache").iterdir() if path.is_dir()) for run in ("one", "two")]
    assert made[0] == made[1], "the text is encoded once, and the same"
    train(place / "recipe.toml", out=place / "two", updates=7, quiet=True)
    # float32, sums in another order
    assert losses(place / "two") == pytest.approx(losses(place / "one"), rel=1e-6)


@pytest.mark.slow
def test_a_polite_stop_of_the_launcher_saves(place: Path) -> None:
    running = started("out")
    running.send_signal(signal.SIGTERM)
    _, told = running.communicate(timeout=PATIENCE)
    assert told.count("asked to stop after update") == 1
    assert Checkpoints(place / "out" / "checkpoints").newest()
    assert (place / "out" / "model" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found under /proc")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_all(place: Path, victim: int) -> None:
    running = started("out")
    pids = workers(running.pid)
    assert len(pids) == 2
    os.kill(pids[victim], signal.SIGKILL)
    _, told = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "lost touch with another process of the run" in told or "asked to stop" in told
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_a_mistake_is_told_and_ends_all(place: Path) -> None:
    (place / "train.tgt").write_text("only one\n")
    done = launched("train", "recipe.toml", "--out", "out")
    _, told = done.communicate(timeout=PATIENCE)
    assert done.returncode == 1
    assert "has 211 lines but" in told
    assert "src/regard/" not in told  # the launcher tells its own traceback, in which nothing of ours stands
