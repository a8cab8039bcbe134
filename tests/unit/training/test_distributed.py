"""Several processes agree on numbers and texts, and one that fails, dies or hangs ends all with its reason."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from regard.errors import InputError, InterruptedRun
from regard.training.distributed import Ranks, joined, launched
from unit.training.together import together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def test_alone_everything_is_as_it_was():
    ranks = Ranks()
    assert (ranks.is_first, ranks.sum(3, 0.5), ranks.most(2), ranks.of_first(7)) == (True, [3, 0.5], [2], [7])
    assert ranks.gather(["a"]) == [["a"]]
    with ranks.first():
        pass
    assert not launched()


def test_numbers_and_texts_are_the_same_for_all(tmp_path):
    def work(ranks):
        texts = ranks.gather(["é\u2028" * ranks.rank, "b"] if ranks.rank else [])
        numbers = ranks.sum(ranks.rank, 0.1), ranks.most(-ranks.rank, ranks.rank), ranks.of_first(5.0 + ranks.rank)
        return [numbers, texts]

    found = together(tmp_path, 3, work)
    assert found[0] == [[[3, 0.1 + 0.1 + 0.1], [0, 2], [5]], [[], ["é\u2028", "b"], ["é\u2028é\u2028", "b"]]]
    assert found[1] == found[2] == found[0]


def test_the_first_goes_first(tmp_path):
    def work(ranks):
        for turn in ("one", "two"):
            with ranks.first():
                if ranks.is_first:
                    time.sleep(0.2)
                    (tmp_path / turn).write_text("made")
                assert (tmp_path / turn).read_text() == "made"
        return "seen"

    assert together(tmp_path, 3, work, limit=5) == ["seen"] * 3


def test_waiting_for_the_first_has_no_limit(tmp_path):
    def work(ranks):
        with ranks.first():
            time.sleep(3.0 if ranks.is_first else 0.0)
        return "done"

    assert together(tmp_path, 2, work, limit=1.0) == ["done"] * 2


@pytest.mark.parametrize("guilty", [0, 1])
def test_the_first_fault_is_told_by_all(tmp_path, guilty):
    def work(ranks):
        if ranks.rank == guilty:
            raise ValueError("the moon is down")
        ranks.sum(1)

    found = together(tmp_path, 3, work)
    assert found.pop(guilty) == "ValueError: the moon is down"
    assert found == [f"TrainingError: process {guilty} of 3 ended the run: the moon is down"] * 2


def test_a_fault_while_the_others_wait_for_the_first(tmp_path):
    def work(ranks):
        with ranks.first():
            if ranks.is_first:
                raise OSError("no such text")

    assert together(tmp_path, 2, work) == [
        "OSError: no such text",
        "TrainingError: process 0 of 2 ended the run: no such text",
    ]


def test_one_that_is_killed_ends_all(tmp_path):
    def work(ranks):
        ranks.sum(1)
        if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ranks.sum(1)

    first, killed = together(tmp_path, 2, work)
    assert killed == "SIGKILL"
    assert first.startswith("TrainingError: lost touch with another process of the run, which was killed or hangs")


def test_one_that_hangs_ends_all_within_the_limit(tmp_path):
    def work(ranks):
        ranks.sum(1)
        if ranks.rank == 1:
            time.sleep(6)
            return "woke up"
        began = time.monotonic()
        try:
            ranks.sum(1)
        finally:
            assert time.monotonic() - began < 4

    first, _ = together(tmp_path, 2, work, limit=1.0)
    assert first.startswith("TrainingError: lost touch")


def test_an_interrupted_run_is_no_fault(tmp_path):
    def work(ranks):
        raise InterruptedRun("stopped")

    assert together(tmp_path, 2, work) == ["InterruptedRun: stopped"] * 2


def test_a_device_that_cannot_be_shared_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="not on 'mps'"), joined(torch.device("mps")):
        pass


def test_one_that_is_killed_in_a_backward_pass_is_told_in_words(tmp_path):
    def work(ranks):
        torch.manual_seed(1)
        model = DistributedDataParallel(torch.nn.Linear(3, 5))
        loss = model(torch.ones(7, 3)).sum()
        if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()

    first, killed = together(tmp_path, 2, work)
    assert killed == "SIGKILL"
    assert first.startswith("TrainingError: lost touch with another process of the run")
