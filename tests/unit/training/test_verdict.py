"""Curves made by hand, with and without noise, get the verdict that a person would give."""

from __future__ import annotations

import json
import math
import random

import pytest

from regard.training.verdict import Curve, verdict


def curve(loss, *, updates=400, valid=None, every=20, noise=0.0) -> Curve:
    draw = random.Random(11)
    losses = [(u, loss(u) + draw.gauss(0, noise), 97) for u in range(1, updates + 1)]
    return Curve(losses, [] if valid is None else [(u, valid(u)) for u in range(every, updates + 1, every)])


def falling(u):
    return 8 * u**-0.3


def settled(u):
    return 2 + 6 * math.exp(-u / 25)


def overfitted(u):
    return 2.5 + 5 * math.exp(-u / 40) + 0.002 * u


CURVES = [
    ("falling", curve(falling), "training loss is still falling"),
    ("falling", curve(falling, noise=0.05), "training loss is still falling"),
    ("falling", curve(settled, valid=falling), "validation loss is still falling: 1.33 now, 1.48 up to update 280"),
    ("plateau", curve(settled), "training loss has reached a plateau"),
    ("plateau", curve(settled, noise=0.05), "hardly help"),
    ("plateau", curve(falling, valid=settled), "validation loss has reached a plateau: 2 now, 2 up to update 280"),
    ("falling", curve(falling, valid=settled, every=100), "training loss"),  # four validations are too few
    ("overfitting", curve(falling, valid=overfitted), r"lowest, 2\.91, after update 160, and is 3\.3 now"),
    ("overfitting", curve(falling, valid=overfitted, noise=0.05), "more text, more dropout or a smaller model"),
    ("plateau", curve(settled, valid=lambda u: settled(u) + 0.001 * math.sin(u)), None),
    ("diverged", curve(lambda u: falling(u) if u < 300 else 7.5), r"1\.\d+ at its lowest and 7\.5 at the end"),
    ("diverged", curve(lambda u: 4 + u / 100), "lower learning_rate"),
    ("diverged", curve(lambda u: falling(u) if u < 390 else math.nan), "not finite at the end"),
    ("diverged", curve(lambda u: math.nan), None),
    ("plateau", curve(lambda u: 3.0, noise=0.02), None),  # nothing happens, and noise is no divergence
    ("plateau", curve(lambda u: 2.0 - 0.04 * (u < 200)), None),  # 2 % up after a fine-tuning began low
    ("too short", curve(falling, updates=19), "19 updates are too few"),
    ("too short", Curve([], []), "0 updates"),
]


@pytest.mark.parametrize(("kind", "made", "told"), CURVES)
def test_verdicts(kind, made, told):
    given = verdict(made)
    assert given.kind == kind
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(given.sentence)


def test_stretches_are_means_over_tokens():
    made = Curve([(1, 1.0, 10), (2, 4.0, 30), *((u, 2.0, 1) for u in range(3, 21))], [])
    assert made.stretches()[0] == (2, (1.0 * 10 + 4.0 * 30) / 40)
    assert len(made.stretches()) == 10
    assert made.tokens == 58


def test_from_a_log(tmp_path):
    log = tmp_path / "log.jsonl"
    events = [
        {"event": "started", "update": 0},
        {"event": "update", "update": 1, "loss": 3.5, "tokens": 7},
        {"event": "validation", "update": 1, "figures": {"loss": 3.0, "BLEU": 1.0}},
        {"event": "validation", "update": 1, "figures": {"BLEU": 1.0}},
        {"event": "update", "update": 2, "loss": None, "tokens": 5},
    ]
    log.write_text("".join(json.dumps(event) + "\n" for event in events) + '[]\n{"event": "upd')
    made = Curve.read(log)
    assert made.validations == [(1, 3.0)]
    assert made.updates[0] == (1, 3.5, 7)
    assert math.isnan(made.updates[1][1])
    assert Curve.read(tmp_path / "nowhere") == Curve([], [])
