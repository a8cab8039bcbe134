"""A run that is stopped anywhere and resumed gives the same bytes as one that was not."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import torch

from regard import storage
from regard.errors import FolderError, InterruptedRun, RecipeError, TrainingError
from regard.training import Better, Checkpoints, TrainingOptions, held_out_loss, step, tensor_bytes, train
from regard.training.failure import read_failure
from regard.training.freeze import freeze
from regard.training.observers import JsonLog
from regard.training.weights import from_bytes, load_tensors


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """What is tested here is not the disk, and syncing it is slow."""
    monkeypatch.setattr(storage.os, "fsync", lambda handle: None)


def options(**changes) -> TrainingOptions:
    """Two epochs of seven batches, two to an update: four updates in each epoch, the last of one batch."""
    chosen = {"updates": None, "epochs": 2, "accumulate": 2, "validate_every": 2, "save_every": 3, "keep_last": 2}
    return TrainingOptions(**chosen | {"warmup": 3, "learning_rate": 0.01, "seed": 5} | changes)


class Stopper:
    """An observer that sends a signal to its own process at one event of one update."""

    def __init__(self, update: int, number: int = signal.SIGTERM, event: str = "update") -> None:
        self.update, self.number, self.event = update, number, event

    def __call__(self, event, facts):
        if event == self.event and facts["update"] == self.update:
            os.kill(os.getpid(), self.number)


class Run:
    """Everything that one run of the stand-ins needs, each time from new objects, as a new process would."""

    def __init__(self, folder, make_objective, Corpus) -> None:
        self.folder, self.make_objective, self.Corpus = folder, make_objective, Corpus
        self.given, self.events = [], []

    def __call__(self, *observers, chosen=None, **more):
        self.objective = self.make_objective(dropout=0.3)
        corpus = self.Corpus()
        self.batches = list(self.Corpus().epoch(9))
        watch = [lambda event, facts: self.events.append((event, dict(facts))), JsonLog(self.folder / "log.jsonl")]
        self.folder.mkdir(exist_ok=True)
        more = {"validate": self.validate, "observers": [*watch, *observers]} | more
        try:
            return train(self.objective, corpus, chosen or options(), folder=self.folder, **more)
        finally:
            self.given += corpus.given

    def validate(self, objective):
        torch.rand(3), random.random(), np.random.rand()  # validation may draw, and training must not notice
        return held_out_loss(objective, self.batches)

    def named(self, name):
        return [facts for event, facts in self.events if event == name]

    def files(self) -> dict[str, object]:
        """What an unbroken run has too, but for Python's generator, which beartype uses to look at random items."""
        sealed = Checkpoints(self.folder / "checkpoints").newest()
        numbers = from_bytes(sealed.read("random.safetensors"))
        del numbers["python.words"]
        files = ("model.safetensors", "optimizer.safetensors", "state.json")
        return {name: sealed.read(name) for name in files} | {name: t.tolist() for name, t in numbers.items()}

    def log(self) -> list[dict]:
        """The lines of the log that an unbroken run has too, without times."""
        lines = [json.loads(line) for line in (self.folder / "log.jsonl").read_bytes().split(b"\n")[:-1]]
        return [
            {key: value for key, value in line.items() if key != "seconds"}
            for line in lines
            if line["event"] in ("update", "validation")
        ]


@pytest.fixture
def make_run(tmp_path, make_objective, Corpus):
    return lambda name: Run(tmp_path / name, make_objective, Corpus)


@pytest.fixture
def unbroken(make_run):
    run = make_run("unbroken")
    outcome = run()
    assert (outcome.reason, outcome.update, outcome.finished) == ("epochs", 8, True)
    return run


def assert_same(run: Run, unbroken: Run) -> None:
    assert run.files() == unbroken.files()
    assert tensor_bytes(run.objective) == tensor_bytes(unbroken.objective)
    assert run.log() == unbroken.log()


def test_what_an_unbroken_run_does(unbroken):
    assert [facts["update"] for facts in unbroken.named("update")] == list(range(1, 9))
    assert [facts["update"] for facts in unbroken.named("validation")] == [2, 4, 6, 8]
    assert [facts["epoch"] for facts in unbroken.named("update")] == [1] * 4 + [2] * 4
    assert unbroken.given == [1000 * epoch + 10 * i + row for epoch in (0, 1) for i in range(7) for row in range(3)]
    schedule = options().rates()
    assert [facts["rate"] for facts in unbroken.named("update")] == [schedule(step) for step in range(1, 9)]
    assert [facts["update"] for facts in unbroken.named("update") if "update_norm" in facts] == [1]
    kept = {path.name for path in (unbroken.folder / "checkpoints").iterdir()}
    best = min(unbroken.named("validation"), key=lambda facts: facts["figures"]["loss"])["update"]
    assert kept == {"latest", "lock", "update-00000006", "update-00000008", f"update-{best:08d}"}
    assert (unbroken.folder / "checkpoints/latest").read_text() == "update-00000008\n"
    assert [event for event, _ in unbroken.events[:1]] == ["started"]
    assert unbroken.events[-1][0] == "ended"
    assert unbroken.objective.training


def test_the_same_seed_gives_the_same_bytes(unbroken, make_run):
    again = make_run("again")
    again()
    assert_same(again, unbroken)
    other = make_run("other")
    other(chosen=options(seed=6))
    assert other.files()["model.safetensors"] != unbroken.files()["model.safetensors"]


@pytest.mark.parametrize("event", ["update", "validation", "saved"])
def test_stopped_at_every_update(unbroken, make_run, event):
    for update in {facts["update"] for facts in unbroken.named(event)} - {8}:
        run = make_run(f"{event}{update}")
        outcome = run(Stopper(update, event=event))
        assert (outcome.reason, outcome.finished) == ("terminated", False)
        assert outcome.update == (update if event == "update" else update + 1)
        outcome = run()
        assert (outcome.reason, outcome.update) == ("epochs", 8)
        assert_same(run, unbroken)
        assert run.given == unbroken.given, "each sample once, in the same order"


@pytest.mark.parametrize("update", [3, 4])  # in the middle and at the end of an epoch
def test_interrupted(unbroken, make_run, update):
    run = make_run("interrupted")
    with pytest.raises(InterruptedRun, match=f"stopped after update {update}, which is saved"):
        run(Stopper(update, signal.SIGINT))
    run()
    assert_same(run, unbroken)


def test_stopped_after_every_single_update(unbroken, make_run):
    run = make_run("often")
    for update in range(1, 8):
        assert run(Stopper(update)).reason == "terminated"
    run()
    assert_same(run, unbroken)
    assert run.given == unbroken.given


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_resuming_in_low_precision(make_run, precision):
    chosen = options(precision=precision)
    whole, run = make_run("whole"), make_run("broken")
    whole(chosen=chosen)
    run(Stopper(3), chosen=chosen)
    run(chosen=chosen)
    assert run.files() == whole.files()


def test_updates_that_overflowed_count_nowhere(make_run, monkeypatch):
    """The scale begins so high that a whole epoch is lost: its batches, but no number of an update and no rate."""
    monkeypatch.setattr(step, "_FIRST_SCALE", 2.0**16)
    chosen = options(precision="fp16")
    whole, run = make_run("whole"), make_run("broken")
    whole(chosen=chosen)
    updates = whole.named("update")
    assert {facts["epoch"] for facts in updates} == {2}, "or less overflowed"
    assert [facts["update"] for facts in updates] == list(range(1, len(updates) + 1))
    assert [facts["rate"] for facts in updates] == [chosen.rates()(facts["update"]) for facts in updates]
    run(Stopper(1), chosen=chosen)
    state = json.loads(Checkpoints(run.folder / "checkpoints").newest().read("state.json"))["state"]
    assert state["update"] == 1 and state["batch"] > 2 and state["scale"] < 2.0**16
    run(chosen=chosen)
    assert_same(run, whole)
    assert run.given == whole.given


@pytest.mark.parametrize("event", ["update", "validation", "saved"])
def test_killed_at_every_update(unbroken, make_run, event):
    """Nothing is saved at the end; the run goes on from the last checkpoint, and the log loses what came after."""

    class Killed(BaseException):
        pass

    for update in {facts["update"] for facts in unbroken.named(event)} - {8}:

        def kill(what, facts, update=update):
            if what == event and facts["update"] == update:
                raise Killed

        run = make_run(f"{event}{update}")
        with pytest.raises(Killed):
            run(kill)
        with (run.folder / "log.jsonl").open("ab") as log:
            log.write(b'{"event": "update", "upd')  # a line that was being written
        run()
        assert_same(run, unbroken)


def test_the_moving_average_is_validated_kept_and_resumed(make_run):
    chosen = options(ema=0.9)
    whole, plain = make_run("whole"), make_run("plain")
    whole(chosen=chosen)
    plain()
    assert tensor_bytes(whole.objective) == tensor_bytes(plain.objective), "training itself does not notice"
    losses = [[facts["figures"]["loss"] for facts in run.named("validation")] for run in (whole, plain)]
    assert losses[0] != losses[1]
    sealed = Checkpoints(whole.folder / "checkpoints").newest()
    assert sealed.read("ema.safetensors") != sealed.read("model.safetensors")
    averaged = make_run("x").make_objective()
    load_tensors(averaged, Checkpoints(whole.folder / "checkpoints").average([8]))
    assert held_out_loss(averaged, whole.batches)["loss"] == losses[0][-1], "what is exported is what was validated"
    for update in range(1, 8):
        run = make_run(f"stop{update}")
        run(Stopper(update), chosen=chosen)
        run(chosen=chosen)
        assert_same(run, whole)
        assert Checkpoints(run.folder / "checkpoints").newest().read("ema.safetensors") == sealed.read(
            "ema.safetensors"
        )


def test_frozen_weights_stay_and_resume(make_run):
    whole, run = make_run("whole"), make_run("broken")
    for each in (whole, run):
        make = each.make_objective

        def frozen(make=make, **how):
            objective = make(**how)
            freeze(objective.model, ["mix"])
            return objective

        each.make_objective = frozen
    whole()
    run(Stopper(3))
    run()
    assert_same(run, whole)
    assert torch.equal(whole.objective.model.mix.weight, make_run("x").make_objective().model.mix.weight)


def test_a_finished_run_does_nothing_more_until_a_limit_is_raised(unbroken, make_run):
    run = make_run("once")
    run(chosen=options(epochs=1))
    before = run.files()
    assert run(chosen=options(epochs=1)).reason == "epochs"
    assert run.files() == before
    assert len(run.named("update")) == 4
    run()
    assert run.files()["model.safetensors"] == unbroken.files()["model.safetensors"]


def test_validation_does_not_disturb_training(unbroken, make_run):
    blind = make_run("blind")
    blind(validate=None)
    assert blind.files()["model.safetensors"] == unbroken.files()["model.safetensors"]


def test_a_signal_during_validation_does_not_wait(unbroken, make_run):
    run = make_run("impatient")

    def slow(objective):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except Exception:  # a careless validation does not swallow it
            pytest.fail("the request was caught")
        return {"loss": 1.0}

    began = time.monotonic()
    assert run(validate=slow).reason == "terminated"
    assert time.monotonic() - began < 30
    assert run.named("validation") == []
    run()
    assert_same(run, unbroken)


def test_a_second_interrupt_stops_at_once(make_run):
    run = make_run("impatient")

    def twice(event, facts):
        if event == "update" and facts["update"] == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(twice)
    assert run.named("ended")[0]["reason"] == "failed"
    assert Checkpoints(run.folder / "checkpoints").updates() == []


def test_handlers_are_put_back(unbroken, make_run):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    make_run("a")()
    with pytest.raises(InterruptedRun):
        make_run("b")(Stopper(2, signal.SIGINT))
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_in_another_thread_no_handler_is_touched(unbroken, make_run):
    run, handlers = make_run("thread"), []

    def look(event, facts):
        handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run, args=(look,))
    thread.start()
    thread.join()
    assert set(handlers) == {before}
    assert_same(run, unbroken)


def test_limits(make_run, monkeypatch):
    assert make_run("updates")(chosen=options(updates=3)).update == 3
    outcome = make_run("patience")(chosen=options(patience=2, epochs=9), validate=lambda _: {"loss": 1.0})
    assert (outcome.reason, outcome.update) == ("patience", 6), "the first is the best, then two bring nothing"


def test_no_time_for_a_single_update(make_run):
    run = make_run("hasty")
    assert run(chosen=options(minutes=1e-9)).reason == "minutes"
    assert Checkpoints(run.folder / "checkpoints").updates() == [0]
    run()
    assert len(run.named("update")) == 8


def test_patience_needs_validation(make_run):
    with pytest.raises(RecipeError, match="`patience` counts validations"):
        make_run("deaf")(chosen=options(patience=2), validate=None)


def test_minutes_count_over_resumed_runs(make_run, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def tick(event, facts):
        clock[0] += 20 if event == "update" else 0

    run, chosen = make_run("clock"), options(minutes=2, epochs=None, validate_every=100, save_every=100)
    outcome = run(tick, Stopper(2), chosen=chosen)
    assert (outcome.reason, outcome.seconds) == ("terminated", 40)
    clock[0] += 1000  # nobody works
    outcome = run(tick, chosen=chosen)
    assert (outcome.reason, outcome.update, outcome.seconds) == ("minutes", 6, 120)
    assert [facts["update"] for facts in run.named("validation")] == [6], "the end is always validated"


def test_time_is_left_for_the_last_validation(make_run, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def tick(event, facts):
        clock[0] += 10 if event == "update" else 0

    run, chosen = make_run("clock"), options(minutes=2, epochs=None, validate_every=4, save_every=100)
    outcome = run(tick, chosen=chosen, validate=slow_clock(clock, 15))
    # 40 s, a validation of 15 s, 40 s, another; at 110 s one more would not fit, and this update is validated
    assert (outcome.reason, outcome.update, outcome.seconds) == ("minutes", 8, 110)
    chosen = options(minutes=2, epochs=None, validate_every=5, save_every=100)
    outcome = make_run("odd")(tick, chosen=chosen, validate=slow_clock(clock, 15))
    assert (outcome.update, outcome.seconds) == (9, 120), "50 + 15 + 40 + 15"


def slow_clock(clock, seconds):
    def validate(objective):
        clock[0] += seconds
        return {"loss": 1.0}

    return validate


def test_what_is_best(make_run):
    values = {2: 0.1, 4: math.nan, 6: 0.3, 8: 0.3}

    def validate(objective):
        return {"loss": 1.0, "bleu": values[len(run.named("update"))]}

    run = make_run("bleu")
    outcome = run(validate=validate, better=Better("bleu", higher=True), chosen=options(keep_best=2))
    assert outcome.best == ((0.3, 6), (0.3, 8))
    assert [facts["best"] for facts in run.named("validation")] == [True, False, True, False]
    checkpoints = Checkpoints(run.folder / "checkpoints")
    assert checkpoints.chosen("best", 1) == [6]
    assert checkpoints.chosen("best", 5) == [6, 8]
    with pytest.raises(RecipeError, match="`metric` must be one of loss, bleu, but is 'ter'"):
        make_run("ter")(validate=lambda _: {"loss": 1.0, "bleu": 1.0}, better=Better("ter"))


def test_last_checkpoints_for_averaging_are_the_scheduled_ones(make_run):
    chosen = options(save_every=2, keep_last=3, validate_every=100)
    whole, run = make_run("whole"), make_run("broken")
    whole(chosen=chosen)
    for update in (3, 5):
        run(Stopper(update), chosen=chosen)
    run(chosen=chosen)
    for each in (whole, run):
        assert Checkpoints(each.folder / "checkpoints").chosen("last", 3) == [4, 6, 8]
        assert Checkpoints(each.folder / "checkpoints").updates() == [4, 6, 8]


def test_modes_are_as_they_were_after_validation(make_run):
    modes = []

    def validate(objective):
        modes.append([part.training for part in objective.modules()])
        return {"loss": 1.0}

    run = make_run("modes")
    freeze = lambda event, _: run.objective.model.mix.eval() if event == "started" else None  # noqa: E731
    run(freeze, validate=validate)
    assert not any(modes[0])
    assert run.objective.training
    assert run.objective.model.dropout.training


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"learning_rate": 0.02}, "training.learning_rate was 0.01 and is 0.02"),
        ({"max_tokens": 53}, "training.max_tokens was 4096 and is 53"),
        ({"seed": 6, "accumulate": 1}, "training.accumulate was 2 and is 1; training.seed was 5 and is 6"),
    ],
)
def test_another_recipe_is_refused_key_by_key(make_run, change, told):
    run = make_run("recipe")
    run(Stopper(2))
    before = run.files()
    with pytest.raises(RecipeError) as caught:
        run(chosen=options(**change))
    assert told in str(caught.value)
    with pytest.raises(RecipeError, match=r'data.hash was not set and is "abc"'):
        run(fingerprint={"data": {"hash": "abc"}})
    assert run.files() == before
    changed = {"epochs": 1, "updates": 50, "minutes": 5.0, "patience": 9, "validate_every": 3, "keep_best": 2}
    assert run(chosen=options(**changed)).reason == "epochs"


def test_two_trainings_in_one_folder(make_run):
    run = make_run("busy")

    def second(event, facts):
        if event == "started":
            with pytest.raises(FolderError, match="in use"):
                make_run("busy")()

    run(second)
    assert len(run.named("update")) == 8


def test_nan_keeps_the_last_checkpoint(unbroken, make_run):
    run = make_run("nan")

    def poison(event, facts):
        if event == "update" and facts["update"] == 5:
            run.objective.model.mix.weight.data[0, 0] = math.nan

    with pytest.raises(
        TrainingError, match=r"update 6 was not made: the weights model\.mix\.weight are not finite"
    ) as caught:
        run(poison)
    assert Checkpoints(run.folder / "checkpoints").updates()[-1] == 4
    assert read_failure(run.folder / "failed-update-00000006.safetensors").where in str(caught.value)
    run()
    assert_same(run, unbroken)


def test_a_corpus_without_tokens(make_run, make_pairs):
    class Nothing:
        def epoch(self, epoch, *, skip=0):
            yield from [make_pairs([0, 0], width=2)][skip:]

    for batches in (Nothing(), make_run("x").Corpus(0)):
        run = make_run("nothing")
        run.Corpus = lambda batches=batches: batches
        with pytest.raises(TrainingError, match="epoch 1 has no target token"):
            train(run.make_objective(), batches, options(), folder=run.folder)


def test_validation_does_not_depend_on_its_batches(make_objective, make_pairs):
    objective = make_objective()
    batch = make_pairs([1 + 5 * row % 11 for row in range(64)])
    results = []
    shuffled, in_order = torch.randperm(64, generator=torch.Generator().manual_seed(3)), torch.arange(64)
    by_length = (batch.target_out != 0).sum(1).argsort()
    for size, order in ((1, in_order), (7, in_order), (64, in_order), (7, shuffled), (7, by_length)):
        parts = []
        for start in range(0, 64, size):
            rows = order[start : start + size]
            part = make_pairs([1])
            part.source, part.target_in, part.target_out = (
                batch.source[rows],
                batch.target_in[rows],
                batch.target_out[rows],
            )
            part.target_lengths = (part.target_out != 0).sum(1)
            part.num_target_tokens = int(part.target_lengths.sum())
            parts.append(part)
        results.append(held_out_loss(objective, parts))
    for result in results[1:]:
        assert result == pytest.approx(results[0], rel=1e-6)
    assert results[0]["perplexity"] == pytest.approx(math.exp(results[0]["loss"]))
    assert objective.training


def test_optimizer_memory_has_stable_names(unbroken):
    names = from_bytes(unbroken.files()["optimizer.safetensors"]).keys()
    assert {name for name in names if name.startswith("model.mix.weight")} == {
        f"model.mix.weight.{quantity}" for quantity in ("step", "exp_avg", "exp_avg_sq")
    }
