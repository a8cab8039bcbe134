"""Compiled training is training: the same losses, few graphs for all lengths, and words where it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.training.compiled import GRAPHS_LATER, WARM_UP, Compiled

TESTS = Path(__file__).parents[2]


class Choosy(nn.Module):
    """Runs other code for every ``how``, so that each wants a graph of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x, how: str):
        return self.linear(x) * len(how), len(x)


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_new_lengths_need_no_new_graph():
    module, said = Choosy(), []
    with Compiled(module, said.append, backend="eager") as compiled:
        for rows in range(2, 40):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(module(x, "a")[0], nn.functional.linear(x, *module.parameters()))
            compiled.count_update()
    assert (compiled.graphs, said) == (1, [])
    assert module(torch.randn(2, 3), "abc")[1] == 2
    assert "forward" not in vars(module)
    assert compiled.graphs == 1, "outside of the block nothing is compiled"


def test_graphs_are_bounded_after_the_warm_up_and_that_is_said():
    module, said = Choosy(), []
    x = torch.randn(7, 3)
    with Compiled(module, said.append, backend="eager") as compiled:
        for update in range(1, WARM_UP + 31):
            how = "a" * (1 if update <= WARM_UP else update)
            expected = nn.functional.linear(x, *module.parameters()) * len(how)
            assert torch.equal(module(x, how)[0], expected)
            compiled.count_update()
        assert compiled.graphs <= 1 + GRAPHS_LATER
    [words] = said
    assert "runs uncompiled from now on" in words


def test_in_a_pause_nothing_is_compiled():
    module = Choosy()
    with Compiled(module, print, backend="eager") as compiled:
        with compiled.paused():
            module(torch.randn(7, 3), "a")
        assert compiled.graphs == 0
        module(torch.randn(7, 3), "a")
        assert compiled.graphs == 1


def test_where_no_code_can_be_made_training_goes_on_and_says_so(monkeypatch):
    module, said = Choosy(), []

    def no_compiler(graph, inputs):
        raise RuntimeError("no g++ here\nand a long story")

    x = torch.randn(7, 3)
    with Compiled(module, said.append, backend="eager") as compiled:
        compiled._lower = no_compiler
        for how in ("a", "aa"):
            assert torch.equal(module(x, how)[0], nn.functional.linear(x, *module.parameters()) * len(how))
    assert said == ["torch.compile cannot make code here, so training goes on uncompiled: no g++ here"]


def train(backend: str, updates: int):
    program = [sys.executable, str(TESTS / "unit" / "training" / "compiling.py"), backend, str(updates)]
    done = subprocess.run(program, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_two_hundred_lengths(backend):
    found = train(backend, 200)
    assert found["graphs"] <= found["warm"] + GRAPHS_LATER
    assert found["largest"] < 1e-5, "float32, sums in another order"
