"""What was not finite is kept, and shown again: the same dropout, the same batch, the first value that breaks."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from regard.errors import FolderError
from regard.training import TrainingOptions
from regard.training.failure import keep_failure, read_failure, replay
from regard.training.step import NotFiniteError, Updater


class Rare(nn.Module):
    """NaN when all of the first five features were dropped: one mask in 32."""

    def forward(self, x):
        return x * math.nan if (x[..., :5] == 0).all() else x * 1.0


def broken(make_objective, part=None):
    objective = make_objective(dropout=0.5)
    objective.model.norm = nn.Sequential(part or Rare(), objective.model.norm)
    return objective


@pytest.fixture
def failed(make_objective, make_pairs, tmp_path):
    """The first update, of two batches, in which the rare mask fell."""
    objective = broken(make_objective)
    updater = Updater(objective, TrainingOptions())
    for number in range(1, 1000):
        group = [make_pairs([2, 1], first_id=10 * number), make_pairs([1], first_id=10 * number + 7)]
        try:
            updater(group, number=number, rate=1e-6)
        except NotFiniteError as error:
            assert number > 1, "or it was not rare"
            weights = [p.clone() for p in objective.parameters()]
            return keep_failure(tmp_path, objective, group, error), number, weights
    raise AssertionError


def test_what_is_kept_breaks_again(failed, make_objective, tmp_path):
    error, number, weights = failed
    path = tmp_path / f"failed-update-{number:08d}.safetensors"
    assert f"regard train --replay {path}" in str(error)
    failure = read_failure(path)
    assert failure.update == number
    assert failure.where == error.where and "the output of model.norm.0" in failure.where
    assert failure.batches[0].example_ids == (10 * number, 10 * number + 1)
    torch.manual_seed(99)
    objective = broken(make_objective)
    readings = replay(objective, failure, nullcontext)
    assert all(torch.equal(a, b) for a, b in zip(weights, objective.parameters(), strict=True))
    assert [reading.not_finite > 0 for reading in readings] == [False] * (len(readings) - 1) + [True]
    assert readings[-1].where == "the output of model.norm.0"
    assert readings[-1].not_finite == readings[-1].size
    assert all(0 < reading.largest < 100 for reading in readings[:-1])


def test_a_gradient_that_breaks(make_objective, make_pairs, tmp_path):
    class BadGradient(nn.Module):
        def forward(self, x):
            x = x * 1.0
            if x.requires_grad:
                x.register_hook(lambda g: g * math.inf)
            return x

    objective = broken(make_objective, BadGradient())
    group = [make_pairs([3, 2])]
    with pytest.raises(NotFiniteError) as caught:
        Updater(objective, TrainingOptions())(group, number=3, rate=0.1)
    keep_failure(tmp_path, objective, group, caught.value)
    failure = read_failure(tmp_path / "failed-update-00000003.safetensors")
    readings = replay(objective, failure, nullcontext)
    assert readings[-1].where == "the gradient at the output of model.norm.0"
    assert [reading.where for reading in readings].index("the loss") > 3, "all outputs were finite"
    # on a machine where nothing breaks, all readings are finite
    assert not any(
        reading.not_finite for reading in replay(broken(make_objective, nn.Identity()), failure, nullcontext)
    )


def test_weights_that_were_broken_before(make_objective, make_pairs, tmp_path):
    objective = make_objective()
    with torch.no_grad():
        objective.model.mix.weight[0, 0] = math.nan
    group = [make_pairs([3, 2])]
    with pytest.raises(NotFiniteError) as caught:
        Updater(objective, TrainingOptions())(group, number=4, rate=0.1)
    keep_failure(tmp_path, objective, group, caught.value)
    readings = replay(objective, read_failure(tmp_path / "failed-update-00000004.safetensors"), nullcontext)
    assert [(reading.where, reading.not_finite) for reading in readings] == [("the weights model.mix.weight", 1)]


def test_a_full_disk_hides_nothing(make_objective, make_pairs, tmp_path):
    error = NotFiniteError("update 3 was not made", 3, "here", ())
    assert keep_failure(tmp_path / "nowhere", make_objective(), [make_pairs([1])], error) is error


@pytest.mark.parametrize("content", [None, b"", b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 64, json.dumps({}).encode()])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FolderError, match="there is no file" if content is None else "is not a failed update"):
        read_failure(path)
