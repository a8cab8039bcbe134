"""Stopped at any step of 60 and gone on with: the same weights, optimiser, sample ids and losses as never stopped.

With all that is random: dropout, subword sampling, word dropout; accumulation, a moving average, loader processes.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import storage
from regard.data import FilterOptions, NoiseOptions, TokenBatches, encode_corpus, open_raw, train_sentencepiece
from regard.data.pair_batch import PairBatch
from regard.data.readers import CorpusFiles
from regard.models import TransformerSpec, build
from regard.training import Checkpoints, Seq2SeqObjective, TrainingOptions, held_out_loss, train
from regard.training.observers import JsonLog

UPDATES = 60
LINES = 39 * 3
"""39 batches of 3, two to an update: 20 updates an epoch, the last from one batch alone."""

OPTIONS = TrainingOptions(
    updates=UPDATES, epochs=3, accumulate=2, validate_every=7, save_every=11, keep_last=2, warmup=5, ema=0.9, seed=5
)
NOISE = NoiseOptions(0.1, 0.1, 0.2, 0.2)


class Noted:
    """The batches of a corpus; remembers the examples that it gave, and a print of what they looked like."""

    def __init__(self, batches: TokenBatches) -> None:
        self.batches, self.given = batches, []

    def epoch(self, epoch: int, *, skip: int = 0):  # type: ignore[no-untyped-def]
        for batch in self.batches.epoch(epoch, skip=skip):
            self.given.append(_print(batch))
            yield batch


def _print(batch: PairBatch) -> tuple[tuple[int, ...], int, int]:
    return batch.example_ids, int((batch.source * 31 % 1009).sum()), int((batch.target_in * 31 % 1009).sum())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(3)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(1, 6))) for _ in range(50)]
    lines = [" ".join(draw.choice(words) for _ in range(draw.randint(1, 5))) for _ in range(LINES)]
    for side in ("src", "tgt"):
        (folder / f"x.{side}").write_text("".join(f"{line}\n" for line in lines))
    tokenizer = train_sentencepiece(lines, vocab_size=61, byte_fallback=False).tokenizer
    raw = open_raw([CorpusFiles(str(folder / "x.src"), str(folder / "x.tgt"))], folder / "cache")
    return encode_corpus(raw, tokenizer, tokenizer, folder / "cache", filters=FilterOptions())


def run(corpus, folder: Path, *, workers: int, stop: int = 0) -> tuple[str, list[Any]]:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    size = len(corpus.source_tokenizer)
    model = build(TransformerSpec(size, size, d_model=8, num_heads=2, d_ff=11, encoder_layers=1, decoder_layers=1))
    batches = Noted(TokenBatches(corpus, max_tokens=997, max_sentences=3, noise=NOISE, seed=5, workers=workers))
    held_out = list(TokenBatches(corpus, max_tokens=997, shuffle=False).epoch(0))[:1]

    def watch(event: str, facts: Mapping[str, Any]) -> None:
        if event == "update" and facts["update"] == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    folder.mkdir(exist_ok=True)
    outcome = train(
        Seq2SeqObjective(model, 0.1),
        batches,
        OPTIONS,
        folder=folder,
        validate=lambda objective: held_out_loss(objective, held_out),  # type: ignore[arg-type]
        observers=[JsonLog(folder / "log.jsonl"), watch],
    )
    return outcome.reason, batches.given


def state(folder: Path) -> dict[str, Any]:
    """All that must be bit-identical."""
    sealed = Checkpoints(folder / "checkpoints").newest()
    assert sealed is not None
    files = {name: sealed.read(name) for name in sealed.names if name not in ("clock.json", "random.safetensors")}
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().split("\n")[:-1]]
    told = ("update", "validation")
    return files | {"log": [{k: v for k, v in e.items() if k != "seconds"} for e in lines if e["event"] in told]}


def stop_and_go_on(corpus, folder: Path, workers: int, steps: list[int], monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(storage.os, "fsync", lambda handle: None)  # what is tested here is not the disk
    reason, given = run(corpus, folder / "whole", workers=workers)
    expected = state(folder / "whole")
    last = [entry["update"] for entry in expected["log"] if entry["event"] == "update"][-1]
    assert (reason, last) == ("updates", UPDATES)
    epochs = {entry["epoch"] for entry in expected["log"] if entry["event"] == "update"}
    assert epochs == {1, 2, 3}
    for step in steps:
        broken = folder / f"stopped{step}"
        reason, first = run(corpus, broken, workers=workers, stop=step)
        assert reason == "terminated"
        _, rest = run(corpus, broken, workers=workers)  # even after the last update: its validation is still to come
        assert [*first, *rest] == given, step
        assert state(broken) == expected, step


@pytest.mark.parametrize("steps", [[21]])
def test_stopped_in_the_second_epoch(corpus, tmp_path, steps, monkeypatch):  # type: ignore[no-untyped-def]
    stop_and_go_on(corpus, tmp_path, 0, steps, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more than there are cores
@pytest.mark.parametrize("workers", [0, 2])
def test_stopped_at_every_step(corpus, tmp_path, workers, monkeypatch):  # type: ignore[no-untyped-def]
    stop_and_go_on(corpus, tmp_path, workers, list(range(1, UPDATES + 1)), monkeypatch)
