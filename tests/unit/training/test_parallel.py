"""Two processes are one: the same weights after ten updates, however the rows are shared, and one place to stop."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch
from torch import nn

from regard.training import Checkpoints, TrainingOptions, held_out_loss, train
from regard.training.distributed import ALONE
from regard.training.observers import JsonLog
from regard.training.step import Updater
from regard.training.weights import from_bytes, to_bytes
from unit.training.together import together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def options(**changes) -> TrainingOptions:
    chosen = {"updates": None, "epochs": 2, "accumulate": 2, "validate_every": 3, "save_every": 3, "warmup": 3}
    return TrainingOptions(**chosen | {"learning_rate": 0.01, "seed": 5} | changes)


def rows_of(batch, rows, make_pairs):
    """Some rows of a batch, trimmed to their own longest target; perhaps none."""
    part = make_pairs([])
    lengths = (batch.target_out[rows] != 0).sum(1)
    longest = max([1, *lengths.tolist()])
    part.source, part.target_lengths, part.num_target_tokens = batch.source[rows], lengths, int(lengths.sum())
    part.target_in, part.target_out = batch.target_in[rows, :longest], batch.target_out[rows, :longest]
    part.example_ids = batch.example_ids[rows]
    return part


def updates(make_objective, make_pairs, ranks, share, *, shard=False, dropout=0.0, number=10):
    """Ten updates of three batches; ``share(ranks, index)`` are the rows of a batch that fall to a process."""
    objective = make_objective(dropout=dropout).double()
    updater = Updater(objective, options(shard=shard, clip_norm=0.5), ranks)
    for step in range(1, number + 1):
        whole = [make_pairs([1 + (5 * row + step) % 13 for row in range(7)], seed=3 * step + i) for i in range(3)]
        done = updater(
            [rows_of(batch, share(ranks, i), make_pairs) for i, batch in enumerate(whole)], number=step, rate=1e-2
        )
        assert done.batches == 3
        assert done.tokens == sum(batch.num_target_tokens for batch in whole)
    with updater.spread.gathered():
        weights = {name: p.detach().flatten().tolist() for name, p in objective.named_parameters()}
    memory = {name: tensor.flatten().tolist() for name, tensor in from_bytes(to_bytes(updater.memory())).items()}
    return {"weights": weights, "norm": done.gradient_norm, "loss": done.loss, "memory": memory}


SHARES = {
    "every other row": lambda ranks, index: slice(ranks.rank, None, ranks.world),
    "whole batches, unequally many": lambda ranks, index: slice(None) if (index > 0) == ranks.rank else slice(0),
    "one has nothing at all": lambda ranks, index: slice(None) if ranks.is_first else slice(0),
}


def close(found, expected) -> None:
    for kind in ("weights", "memory"):
        for name, numbers in expected[kind].items():
            # float64, sums in another order; Adam divides by its own small roots
            torch.testing.assert_close(torch.tensor(found[kind][name]), torch.tensor(numbers), rtol=1e-9, atol=1e-12)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-12)
    assert found["norm"] == pytest.approx(expected["norm"], rel=1e-12)


@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("share", SHARES)
def test_two_are_one_after_ten_updates(tmp_path, make_objective, make_pairs, share, shard):
    expected = updates(make_objective, make_pairs, ALONE, lambda ranks, index: slice(None))
    work = lambda ranks: updates(make_objective, make_pairs, ranks, SHARES[share], shard=shard)  # noqa: E731
    found = together(tmp_path, 2, work)
    assert found[0] == found[1]
    close(found[0], expected)


def test_dropout_of_whole_batches_is_that_of_one_process(tmp_path, make_objective, make_pairs):
    whole = lambda ranks, index: slice(None) if index % ranks.world == ranks.rank else slice(0)  # noqa: E731
    expected = updates(make_objective, make_pairs, ALONE, whole, dropout=0.3)
    found = together(tmp_path, 2, lambda ranks: updates(make_objective, make_pairs, ranks, whole, dropout=0.3))
    close(found[1], expected)


def test_what_is_not_finite_in_one_process_is_named_by_all(tmp_path, make_objective, make_pairs):
    def work(ranks):
        objective = make_objective()
        with torch.no_grad():
            objective.model.source.weight[16] = 3e38
        batch = make_pairs([3, 2], first_id=40)
        batch.source[:] = 16 if ranks.rank == 1 else 5
        Updater(objective, options(), ranks)([batch], number=7, rate=0.1)

    for found in together(tmp_path, 2, work):
        assert "update 7 was not made: the output of model.mix is not finite, in a batch of the examples 40" in found


class Shares:
    """Some rows of each batch of a corpus; an epoch of the last process may end earlier."""

    def __init__(self, corpus, ranks, make_pairs, missing: int = 0) -> None:
        self.corpus, self.ranks, self.make_pairs, self.missing = corpus, ranks, make_pairs, missing

    def epoch(self, epoch, *, skip=0):
        batches = list(self.corpus.epoch(epoch, skip=skip))
        for batch in batches[: len(batches) - self.missing * self.ranks.rank]:
            yield rows_of(batch, slice(self.ranks.rank, None, self.ranks.world), self.make_pairs)


def trained(folder, make_objective, make_pairs, Corpus, ranks, *, stop=None, shard=False, missing=0):
    """Train, and tell how it ended and what was logged; ``stop`` is (rank, update, signal)."""
    objective = make_objective(dropout=0.0)
    if stop and stop[0] == ranks.rank:
        step = Updater.__call__

        def watched(self, batches, *, number, rate):
            if number == stop[1]:
                for _ in range(2 if stop[2] == signal.SIGINT else 1):  # as by the terminal and by the launcher
                    os.kill(os.getpid(), stop[2])
            return step(self, batches, number=number, rate=rate)

        Updater.__call__ = watched
    held_out = [make_pairs([3, 5], seed=99)] if ranks.is_first else []
    outcome = train(
        objective,
        Shares(Corpus(), ranks, make_pairs, missing),
        options(shard=shard, ema=0.9 if shard else 0.0),
        folder=folder,
        validate=lambda objective: held_out_loss(objective, held_out, ranks),
        observers=[JsonLog(folder / "log.jsonl")],
        ranks=ranks,
    )
    return [outcome.reason, outcome.update]


def losses(folder) -> dict[int, float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().split("\n")[:-1]]
    return {line["update"]: line["loss"] for line in lines if line["event"] == "update"}


@pytest.fixture
def one(tmp_path, make_objective, make_pairs, Corpus):
    folder = tmp_path / "one"
    folder.mkdir()
    assert trained(folder, make_objective, make_pairs, Corpus, ALONE) == ["epochs", 8]
    return losses(folder)


@pytest.mark.parametrize(("before", "after", "shard"), [(2, 1, False), (1, 2, False), (2, 3, False), (2, 2, True)])
def test_stopped_by_a_signal_to_one_and_resumed_by_another_number(
    tmp_path, make_objective, make_pairs, Corpus, one, before, after, shard
):
    folder = tmp_path / "run"
    folder.mkdir()

    def work(ranks, stop=(before - 1, 4, signal.SIGTERM)):
        return trained(folder, make_objective, make_pairs, Corpus, ranks, stop=stop, shard=shard)

    assert together(tmp_path, before, work) == [["terminated", 4]] * before, "all at the same update"
    assert Checkpoints(folder / "checkpoints").updates()[-1] == 4
    assert together(tmp_path, after, lambda ranks: work(ranks, None)) == [["epochs", 8]] * after
    found = losses(folder)
    assert found.keys() == one.keys()
    for update, loss in one.items():
        assert found[update] == pytest.approx(loss, rel=1e-6), update


def test_interrupted_twice_by_a_launcher_that_passes_it_on(tmp_path, make_objective, make_pairs, Corpus):
    folder = tmp_path / "run"
    folder.mkdir()

    def work(ranks):
        return trained(folder, make_objective, make_pairs, Corpus, ranks, stop=(ranks.rank, 3, signal.SIGINT))

    for found in together(tmp_path, 2, work):
        assert found.startswith("InterruptedRun: stopped after update 3, which is saved")


def test_a_process_whose_epoch_ends_earlier_keeps_nobody_waiting(tmp_path, make_objective, make_pairs, Corpus):
    folder = tmp_path / "run"
    folder.mkdir()
    work = lambda ranks: trained(folder, make_objective, make_pairs, Corpus, ranks, missing=3)  # noqa: E731
    assert together(tmp_path, 2, work) == [["epochs", 8]] * 2


def test_only_the_first_writes(tmp_path, make_objective, make_pairs, Corpus, monkeypatch):
    from regard.training import checkpoints

    folder = tmp_path / "run"
    folder.mkdir()

    def work(ranks):
        if ranks.rank == 1:
            monkeypatch.setattr(checkpoints, "seal", lambda *_, **__: pytest.fail("wrote"))
        return trained(folder, make_objective, make_pairs, Corpus, ranks)

    assert together(tmp_path, 2, work) == [["epochs", 8]] * 2


def test_a_model_that_is_called_in_two_ways_is_whole_in_each(tmp_path, make_pairs):
    """A stack that asks its layers for something else before it calls them, as a decoder does for keys and values."""
    from regard.training.sharding import Parts

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.early, self.late = nn.Linear(5, 5), nn.Linear(5, 5)

        def prepare(self, x):
            return self.early(x)

        def forward(self, x, prepared):
            return self.late(x) * prepared

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, x):
            prepared = [layer.prepare(x) for layer in self.layers]
            for layer, early in zip(self.layers, prepared, strict=True):
                x = layer(x, early)
            return x.sum(), x.numel()

    def gradients(ranks, parts):
        torch.manual_seed(1)
        stack, x = Stack(), torch.linspace(-1, 1, 35).view(7, 5)
        if parts:
            spread = Parts(stack, ranks)
            spread.backward(spread.module(x[ranks.rank :: 2])[0])
            return {name: p.grad.full_tensor().tolist() for name, p in stack.named_parameters()}
        stack(x)[0].backward()
        return {name: p.grad.tolist() for name, p in stack.named_parameters()}

    expected = gradients(None, False)
    found = together(tmp_path, 2, lambda ranks: gradients(ranks, True))[1]
    assert isinstance(found, dict), found
    for name, gradient in expected.items():
        # float32, sums of seven rows in another order
        torch.testing.assert_close(torch.tensor(found[name]), torch.tensor(gradient), rtol=1e-5, atol=1e-6)
