"""Which module a name stands for, and that its checks are run; what they find is tested where they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from regard.cli import run
from regard.errors import InputError
from regard.runs.looking.verify import verify
from unit.runs.toys import write_bundle

CODE = """
import torch

class Mine(torch.nn.Transformer):
    def __init__(self):
        super().__init__(16, 2, 1, 1, 32, batch_first=True)

made = Mine()
number = 3

def three():
    return 3

def boom():
    raise ValueError("no weights here")

def leave():
    raise SystemExit("usage: me")

class Leaving(torch.nn.Linear):
    def forward(self, x):
        raise SystemExit(3)

def leaving():
    return Leaving(3, 5)

class Inner:
    model = made

class Leaky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(13, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(16, 13)
    def forward(self, x):
        return self.out(self.layer(self.table(x)))
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "standing_here.py").write_text(CODE)
    (tmp_path / "leaving_at_once.py").write_text("raise SystemExit(5)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "standing_here", raising=False)


@pytest.mark.parametrize("name", ["Mine", "made", "Inner.model"])
def test_a_name_in_somebodys_code(code: None, name: str) -> None:
    before = list(sys.path)
    report = verify(f"standing_here:{name}", checks=["runs", "future_leak"])
    assert [finding.name for finding in report.passed] == ["runs", "future_leak"]
    assert sys.path == before


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        ("standing_here:number", "neither a torch.nn.Module nor a function that makes one, but 3"),
        ("standing_here:three", "makes a int and not"),
        ("standing_here:boom", "cannot be called without arguments: ValueError: no weights here"),
        ("standing_here:leave", "cannot be called without arguments: SystemExit: usage: me"),
        ("standing_here:leaving", "ends the program when it is called: SystemExit: 3"),
        ("leaving_at_once:x", "leaving_at_once cannot be imported: SystemExit: 5"),
        ("standing_here:nothing", "has no 'nothing'"),
        ("no_such_code:x", "no_such_code cannot be imported: ModuleNotFoundError"),
        (":x", "cannot be imported"),
        ("nowhere", "there is no model folder nowhere"),
    ],
)
def test_what_is_no_module(code: None, subject: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        verify(subject, checks=["runs"])


def test_a_model_folder_with_the_loss_it_was_trained_by(tmp_path: Path) -> None:
    report = verify(str(write_bundle(tmp_path / "m")), checks=["loss_ignores_padding", "save_load"])
    assert len(report.passed) == 2


def test_the_exit_code_says_whether_a_check_failed(code: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "standing_here:Mine", "--check", "runs", "--check", "future_leak", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] == 2
    assert run(["verify", "standing_here:Mine", "--check", "future_lek"]) == 2
    assert "did you mean 'future_leak'" in capsys.readouterr().err
    assert run(["verify", "standing_here:Leaky", "--check", "future_leak", "--check", "source_padding"]) in (0, 1)
