"""A part of the league at every test run, and all of it among the slow ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from correct import CORRECT

from league import FAULTS, Fault, try_correct, try_fault

QUICK = {
    ("plain", "scale missing"), ("plain", "softmax over the queries"), ("plain", "heads split without transpose"),
    ("plain", "cache not reordered"), ("plain", "positions restart under the cache"), ("plain", "dropout left on"),
    ("torch", "padding mask inverted"), ("torch encoder", "mean over padding"), ("torch encoder", "residual dropped"),
    ("regard classifier", "mask dropped"), ("rotary decoder", "keys not turned"), ("rotary decoder", "no causal mask"),
}  # fmt: skip
"""One fault of each kind that the light hosts can have."""


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if (f.host, f.name) in QUICK], ids=lambda fault: f"{fault.host}-{fault.name}"
)
def test_fault_is_named(fault: Fault) -> None:
    result = try_fault(fault)
    assert result.named, f"{fault.name} should fail {fault.named_by}, but failed {result.failed}"


@pytest.mark.parametrize("name", ["regard one layer, one head", "torch encoder, mean readout", "rotary decoder"])
def test_no_false_alarm(name: str) -> None:
    assert not try_correct(name).failed


def test_the_league_is_large_enough() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.host for fault in FAULTS}) >= 5
    assert len(CORRECT) >= 20
    assert len({(fault.host, fault.name) for fault in FAULTS}) == len(FAULTS)
    assert {(fault.host, fault.name) for fault in FAULTS} >= QUICK


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Hugging Face about its own arguments
def test_the_whole_league() -> None:
    results = [try_fault(fault) for fault in FAULTS]
    missed = [f"{r.fault.host}: {r.fault.name} failed {r.failed}" for r in results if not r.named]
    assert len(missed) <= 0.05 * len(results), "\n".join(missed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Hugging Face about its own arguments
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", list(CORRECT))
def test_no_false_alarm_on_any(name: str, seed: int) -> None:
    report = try_correct(name, seed)
    assert not report.failed, str(report)
