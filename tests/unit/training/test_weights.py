"""Shared tensors are stored once and stay shared; what does not fit is refused whole; means are exact."""

from __future__ import annotations

import copy
import json
import struct

import pytest
import torch
from torch import nn

from regard.errors import DamagedError, FolderError
from regard.training import load_tensors, tensor_bytes
from regard.training.weights import average, from_bytes, to_bytes

TIED = ("model.output.weight", "model.target.weight")


def header(data: bytes) -> dict:
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length])


def is_tied(objective) -> bool:
    return objective.model.output.weight is objective.model.target.weight


def test_shared_tensors_are_stored_once(make_objective):
    data = tensor_bytes(make_objective())
    assert TIED[1] in from_bytes(data)
    assert TIED[0] not in from_bytes(data)
    assert json.loads(header(data)["__metadata__"]["aliases"]) == {TIED[0]: TIED[1]}


def test_the_same_weights_give_the_same_bytes(make_objective):
    assert tensor_bytes(make_objective()) == tensor_bytes(make_objective())
    assert tensor_bytes(make_objective()) != tensor_bytes(make_objective(seed=1))


def test_ties_hold_on_every_path(make_objective):
    saved, fresh = make_objective(seed=3), make_objective(seed=4)
    load_tensors(fresh, tensor_bytes(saved))
    assert is_tied(fresh)
    assert tensor_bytes(fresh) == tensor_bytes(saved)
    for changed in (fresh.double(), copy.deepcopy(fresh), fresh.to(torch.bfloat16)):
        assert is_tied(changed)
        load_tensors(changed, tensor_bytes(saved))
        assert is_tied(changed)
        with torch.no_grad():
            changed.model.target.weight[5] = 7
        assert (changed.model.output.weight[5] == 7).all()


def test_copies_that_agree_or_not(make_objective):
    objective = make_objective(seed=3)
    tensors = from_bytes(tensor_bytes(objective))
    both = tensors | {TIED[0]: tensors[TIED[1]].clone()}
    load_tensors(make_objective(seed=4), to_bytes(both))
    both[TIED[0]][5, 5] += 1
    fresh = make_objective(seed=4)
    before = tensor_bytes(fresh)
    with pytest.raises(FolderError, match=r"model\.target\.weight and model\.output\.weight are one tensor"):
        load_tensors(fresh, to_bytes(both))
    assert tensor_bytes(fresh) == before


def test_what_does_not_fit_is_listed_and_nothing_loaded(make_objective):
    fresh = make_objective(seed=4)
    before = tensor_bytes(fresh)
    tensors = from_bytes(tensor_bytes(make_objective(seed=3)))
    tensors["extra"] = torch.zeros(2)
    tensors["model.mix.bias"] = torch.zeros(3)
    del tensors["model.norm.weight"], tensors[TIED[1]]
    with pytest.raises(FolderError) as caught:
        load_tensors(fresh, to_bytes(tensors))
    for words in (
        "unexpected extra",
        "missing model.norm.weight",
        "missing model.target.weight = model.output.weight",
        "model.mix.bias has shape [3] instead of [11]",
    ):
        assert words in str(caught.value)
    assert tensor_bytes(fresh) == before


def test_a_tied_file_does_not_fill_an_untied_model(make_objective):
    untied = make_objective()
    untied.model.output.weight = nn.Parameter(untied.model.output.weight.detach().clone())
    with pytest.raises(FolderError, match=r"missing model\.output\.weight"):
        load_tensors(untied, tensor_bytes(make_objective()))


def test_what_is_not_safetensors_is_refused():
    for data in (b"", b"\x80\x04\x95", b"\xff" * 64, struct.pack("<Q", 10**15) + b"{}"):
        with pytest.raises(DamagedError, match="safetensors"):
            from_bytes(data)


def test_average_is_the_float64_mean(make_objective):
    """Five float16 files of a tied model with an integer counter."""
    files, values = [], []
    for seed in range(5):
        objective = make_objective(seed=seed).half()
        objective.model.calls += seed
        files.append(tensor_bytes(objective))
        values.append(objective.model.output.weight.detach().double())
    mean = average(files)
    assert torch.equal(mean[TIED[1]], torch.stack(values).mean(0).half())
    assert mean["model.calls"].item() == 4
    fresh = make_objective().half()
    load_tensors(fresh, mean)
    assert is_tied(fresh)
    assert torch.equal(fresh.model.output.weight, mean[TIED[1]])


def test_average_of_one_is_itself(make_objective):
    data = tensor_bytes(make_objective())
    assert to_bytes(average([data])) == to_bytes(from_bytes(data))


def test_average_refuses_different_models():
    a = to_bytes({"x": torch.zeros(2), "y": torch.zeros(3)})
    with pytest.raises(FolderError, match="differ in y, z"):
        average([a, to_bytes({"x": torch.zeros(2), "z": torch.zeros(3)})])
    with pytest.raises(FolderError, match="differ in y"):
        average([a, to_bytes({"x": torch.zeros(2), "y": torch.zeros(1)})])
    with pytest.raises(FolderError, match="nothing to average"):
        average([])
