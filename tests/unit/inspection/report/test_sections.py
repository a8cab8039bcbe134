"""What the walk, ledger and beam tabs are given to draw."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.inspection import choices, ledger, trace
from regard.inspection.report import Beam, BeamSection, LedgerSection, SignalSection, SignalView, WalkSection

D = 12


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(D, 2, 19, batch_first=True)


def test_the_walk_as_data() -> None:
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    walk = trace(layer(), torch.randn(1, 5, D), causal, loss=lambda y: y.square().mean())
    logits = torch.tensor([[1.0, -torch.inf, 3.0]])
    data = WalkSection(walk, choices(logits, ["<s>"], [1], lambda ids: [f"t{i}" for i in ids])).data()
    json.dumps(data, allow_nan=False)
    assert data["visits"][0]["kind"] == "TransformerEncoderLayer"
    assert data["visits"][0]["inputs"][0]["axes"] == f"B=1, S=5, D={D}"
    mask = data["masks"]["self_attn"]
    bits = np.unpackbits(np.frombuffer(base64.b64decode(mask["data"]), np.uint8))[:25].reshape(5, 5)
    assert bits.tolist() == np.tri(5, dtype=int).tolist()
    assert {g["path"] for g in data["gradients"]} == {name for name, _ in layer().named_parameters()}
    [choice] = data["choices"]
    assert (choice["after"], choice["token"], choice["probability"], choice["rank"]) == ("<s>", "t1", 0.0, 3)
    assert choice["candidates"][2] == {"token": "t1", "logit": None, "probability": 0.0}


def test_the_ledger_as_data() -> None:
    data = LedgerSection(ledger(layer(), torch.randn(1, 5, D)), note="one row").data()
    assert data["legend"].endswith("below what it belongs to.") and data["entries"][0]["shared_with"] == []
    assert "counted from 1" in data["legend"] and data["entries"][0]["name"] == "TransformerEncoderLayer"
    assert data["note"] == "one row"
    assert sum(entry["own"]["flops"] for entry in data["entries"]) == data["entries"][0]["total"]["flops"] > 0


def test_the_beam_as_data_and_its_mistakes_in_words() -> None:
    steps = [[Beam("A", -0.3), Beam("B", -0.9)], [Beam("c", -0.5, 1, finished=True)]]
    data = BeamSection(steps, (1, 0), "how").data()
    assert data["steps"][1] == [{"token": "c", "score": -0.5, "parent": 1, "finished": True, "log_prob": None}]
    assert (data["won"], data["note"]) == ((1, 0), "how")
    with pytest.raises(InputError, match="the winner is at step 1 and rank 1, from 0, where nothing is"):
        BeamSection(steps, (1, 1)).data()
    with pytest.raises(InputError, match="step 2 goes on from rank 2, but the one before has 2"):
        BeamSection([steps[0], [Beam("c", -0.5, 2)]]).data()
    with pytest.raises(InputError, match="at least one step"):
        BeamSection([]).data()
    with pytest.raises(InputError, match="score of 'c' in step 1 must be finite, but is -inf"):
        BeamSection([[Beam("c", -float("inf"))]]).data()


def test_signals_as_data() -> None:
    view = SignalView("case 1", "up", [[1.0, 2 / 3]], {"gradient": [[0.5, -1e-9]], "attention": [[0.25, 0.75]]})
    data = SignalSection([view], "what it means").data()
    json.dumps(data, allow_nan=False)
    assert data["type"] == "signal"
    (case,) = data["cases"]
    assert case["signal"] == [[1.0, 0.6667]]
    assert [(one["name"], one["weights"]) for one in case["views"]] == [
        ("gradient", [[0.5, -1e-9]]),
        ("attention", [[0.25, 0.75]]),
    ]
