"""What a person and a program are told, and that nothing of it goes to stdout."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from regard.errors import RegardError
from regard.training.observers import JsonLog, Progress

LIMITS = {"updates": None, "epochs": None, "minutes": None, "patience": None}


def update(number: int, seconds: float, *, epoch: int = 1, loss: float = 2.0, tokens: int = 100) -> dict:
    facts = {"update": number, "epoch": epoch, "loss": loss, "tokens": tokens, "rate": 5e-4, "gradient_norm": 0.5}
    return facts | {"seconds": seconds}


def shown(*events, terminal: bool = False, every: float | None = None) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=200, highlight=False, color_system=None)
    progress = Progress(console, every=every)
    for event, facts in events:
        progress(event, facts)
    return stream.getvalue()


def test_a_plain_line():
    started = ("started", {"update": 0, "seconds": 0.0, **LIMITS, "updates": 1200})
    text = shown(
        started,
        ("update", update(1, 2.0, loss=1.0, tokens=100)),
        ("update", update(1000, 10.0, loss=2.0, tokens=300)),
    )
    # (1.0 * 100 + 2.0 * 300) / 400 = 1.75; 400 tokens in 10 s; 200 updates left at 100 a second
    expected = "update 1,000 · epoch 1 · loss 1.750 nats/token · rate 5.00e-04 · 40 target tokens/s · "
    assert text == expected + "gradient 0.50 · 0:02 left\n"


def test_one_line_in_ten_seconds():
    started = ("started", {"update": 0, "seconds": 0.0, **LIMITS, "updates": 100})
    text = shown(started, *(("update", update(i, i * 1.0)) for i in range(1, 36)))
    assert [line.split(" ·")[0] for line in text.splitlines()] == ["update 10", "update 20", "update 30"]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"updates": 30}, "0:40 left"),
        ({"minutes": 1.0}, "0:40 left"),
        ({"epochs": 4}, "0:44 left"),  # 32 updates in all
        ({"updates": 7000, "minutes": 1.0}, "0:40 left"),
        ({}, "0:20 so far"),
    ],
)
def test_time_left(limits, left):
    """After ten updates of two seconds; an epoch has eight."""
    events = [("update", update(i, 2.0 * i, epoch=(i - 1) // 8 + 1)) for i in range(1, 11)]
    text = shown(("started", {"update": 0, "seconds": 0.0, **LIMITS, **limits}), *events, every=20.0)
    assert text.endswith(f"{left}\n")


def test_time_left_of_epochs_after_resuming_in_the_middle_of_one():
    resumed = ("resumed", {"update": 5, "validated": 0, "seconds": 10.0, **LIMITS, "epochs": 4})
    events = [("update", update(i, 2.0 * i, epoch=(i - 1) // 8 + 1)) for i in range(6, 18)]
    lines = shown(resumed, *events, every=2.0).splitlines()
    assert lines[5].endswith("0:20 so far"), "no whole epoch was seen yet"
    assert lines[-1].endswith("0:30 left"), "32 updates less 17, of 2 s"


def test_resumed_pace_is_of_this_session():
    resumed = ("resumed", {"update": 100, "validated": 100, "seconds": 9000.0, **LIMITS, "updates": 120})
    text = shown(resumed, ("update", update(110, 9010.0)))
    assert text.startswith("going on after update 100\n")
    assert text.endswith("0:10 left\n")


def test_validation():
    facts = {"update": 1500, "figures": {"loss": 1.5, "bleu": 12.34567}, "best": True, "seconds": 3.0}
    assert shown(("validation", facts)) == "validation after update 1,500: loss 1.5, bleu 12.35 (best)\n"


def test_the_last_validation_is_announced():
    facts = {"update": 1500, "seconds": 3.0}
    assert shown(("validating", facts | {"last": False})) == ""
    assert shown(("validating", facts | {"last": True})) == "last update done: validating after update 1,500 …\n"


def test_time_spent_in_validation_does_not_slow_the_rate():
    text = shown(
        ("started", {"update": 0, "seconds": 0.0, **LIMITS}),
        ("update", update(1, 5.0)),
        ("validation", {"update": 1, "figures": {}, "best": False, "seconds": 105.0}),
        ("update", update(2, 110.0)),
    )
    assert " · 20 target tokens/s · " in text  # 200 tokens in 5 + 5 seconds


def test_on_a_terminal_the_line_is_alive(capsys):
    started = ("started", {"update": 0, "seconds": 0.0, **LIMITS, "updates": 9})
    facts = {"update": 2, "figures": {"loss": 1.5}, "best": False, "seconds": 2.0}
    text = shown(
        started, ("update", update(1, 1.0)), ("validation", facts), ("update", update(3, 3.0)),
        ("ended", {"update": 3, "reason": "updates", "seconds": 3.0}), terminal=True,
    )  # fmt: skip
    assert "\x1b[" in text, "the line is drawn over"
    assert "validation after update 2: loss 1.5" in text
    assert "update 3" in text
    assert capsys.readouterr().out == ""


def test_the_default_goes_to_stderr(capsys):
    Progress()("validation", {"update": 1, "figures": {"loss": 1.5}, "best": False, "seconds": 3.0})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "validation after update 1: loss 1.5\n"


def test_log(tmp_path):
    log = JsonLog(tmp_path / "log.jsonl")
    log("started", {"update": 0, "seconds": 0.0})
    log("update", update(1, 1.0, loss=math.nan))
    log("validating", {"update": 1, "last": False, "seconds": 1.0})
    log("saved", {"update": 1, "checkpoint": "update-00000001", "seconds": 1.0})
    log("validation", {"update": 1, "figures": {"loss": math.inf, "name": "Größe"}, "seconds": 1.0})
    log("ended", {"update": 1, "reason": "updates", "seconds": 1.0})
    lines = [
        json.loads(line, parse_constant=pytest.fail) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()
    ]
    assert [line["event"] for line in lines] == ["started", "update", "validation", "ended"]
    assert lines[1]["loss"] is None
    assert lines[2]["figures"] == {"loss": None, "name": "Größe"}


def test_a_resumed_log_forgets_what_came_after(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLog(path)
    log("started", {"update": 0, "seconds": 0.0})
    for number in (1, 2, 3):
        log("update", update(number, 1.0))
        log("validation", {"update": number, "figures": {}, "seconds": 1.0})
    with path.open("ab") as file:
        file.write(b"null\n[]\n{}\n" + b'{"event": "upda')
    log = JsonLog(path)
    log("resumed", {"update": 2, "validated": 1, "seconds": 1.0})
    log("update", update(3, 1.0))
    events = [(line["event"], line["update"]) for line in map(json.loads, path.read_bytes().splitlines())]
    assert events == [
        ("started", 0), ("update", 1), ("validation", 1), ("update", 2), ("resumed", 2), ("update", 3),
    ]  # fmt: skip


def test_a_log_of_a_run_begun_again_is_new(tmp_path):
    for _ in range(2):
        log = JsonLog(tmp_path / "log.jsonl")
        log("started", {"update": 0, "seconds": 0.0})
        log("ended", {"update": 0, "seconds": 0.0})
    assert len((tmp_path / "log.jsonl").read_bytes().splitlines()) == 2


def test_a_log_that_cannot_be_written(tmp_path):
    with pytest.raises(RegardError, match=r"cannot write .*log\.jsonl: No such file or directory"):
        JsonLog(tmp_path / "nowhere/log.jsonl")("update", update(1, 1.0))
