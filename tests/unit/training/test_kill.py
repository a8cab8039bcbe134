"""Kill -9 at random moments, many of them inside a slowed checkpoint write: the run always goes on exactly."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback

import pytest

from regard import storage
from regard.training import Checkpoints, TrainingOptions, checkpoints, train
from regard.training.observers import JsonLog

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the storm needs fork")

OPTIONS = TrainingOptions(
    updates=None, epochs=3, accumulate=2, validate_every=2, save_every=2, warmup=3, learning_rate=0.01, keep_last=2
)


def work(folder, make_objective, Corpus) -> None:
    folder.mkdir(exist_ok=True)
    validate = lambda objective: {"loss": float(sum(p.abs().sum() for p in objective.parameters()))}  # noqa: E731
    log = JsonLog(folder / "log.jsonl")
    train(make_objective(dropout=0.3), Corpus(), OPTIONS, folder=folder, validate=validate, observers=[log])


def slow_down(mark) -> None:
    """Make writing slow, and let the file ``mark`` exist while a checkpoint is written."""
    for name in ("write", "replace", "unlink"):
        call = getattr(os, name)
        setattr(os, name, lambda *args, call=call, **kwargs: (time.sleep(0.002), call(*args, **kwargs))[1])

    def seal(*args, **kwargs):
        mark.touch()
        storage.seal(*args, **kwargs)
        mark.unlink()

    checkpoints.seal = seal


def child(mark, *args) -> int:
    """Train in another process, which began as a copy of this one."""
    pid = os.fork()
    if pid:
        return pid
    try:
        slow_down(mark)
        work(*args)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def kill_somewhere(pid: int, mark, generator: random.Random) -> tuple[bool, bool]:
    """Kill the process at a random moment; return whether it was killed, and inside a write."""
    if generator.random() < 0.6:
        while not mark.exists() and not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.0005)
        time.sleep(generator.random() * 0.02)
    else:
        time.sleep(generator.random() * 0.3)
    inside = mark.exists()
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    mark.unlink(missing_ok=True)
    return os.WIFSIGNALED(status), inside and os.WIFSIGNALED(status)


def storm(tmp_path, make_objective, Corpus, kills: int, inside: int) -> None:
    work(tmp_path / "unbroken", make_objective, Corpus)
    expected = Checkpoints(tmp_path / "unbroken/checkpoints").newest()
    generator, mark = random.Random(7), tmp_path / "writing"
    killed = killed_inside = rounds = 0
    while killed < kills or killed_inside < inside:
        rounds += 1
        folder = tmp_path / f"run{rounds}"
        for _ in range(5):
            was_killed, was_inside = kill_somewhere(child(mark, folder, make_objective, Corpus), mark, generator)
            killed, killed_inside = killed + was_killed, killed_inside + was_inside
            if not was_killed:
                break
        work(folder, make_objective, Corpus)
        final = Checkpoints(folder / "checkpoints").newest()
        for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
            assert final.read(name) == expected.read(name), name
        assert not [path for path in folder.rglob("*") if ".tmp-" in path.name]
    print(f"{killed} kills, {killed_inside} inside a write, {rounds} runs, all resumed to the same bytes")


def test_a_few_kills(tmp_path, make_objective, Corpus):
    storm(tmp_path, make_objective, Corpus, kills=8, inside=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_kills(tmp_path, make_objective, Corpus):
    storm(tmp_path, make_objective, Corpus, kills=200, inside=60)
