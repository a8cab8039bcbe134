"""From two files to a translator: what `regard train` does, and `regard.train` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.data import open_raw
from regard.errors import InterruptedRun
from regard.models import build, spec_to_dict
from regard.protocols import Observer
from regard.runs.export import export_as_asked
from regard.runs.folder import RunFolder
from regard.runs.inherit import inherit_weights
from regard.runs.plan import plan
from regard.runs.prepare import prepare, say_nothing, say_on_stderr
from regard.runs.validation import Validation
from regard.training import Outcome, Seq2SeqObjective, TrainingOptions
from regard.training import train as train_module
from regard.training.freeze import freeze
from regard.training.observers import JsonLog, Progress
from regard.translator import Translator, load


def train(
    recipe: str | Path | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    pairs: str | Path | None = None,
    valid: Sequence[str | Path] = (),
    out: str | Path | None = None,
    data: str | Path | None = None,
    preset: str | None = None,
    updates: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    init: str | Path | None = None,
    device: str = "auto",
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> Translator:
    """Train a model from files of text, or go on with a training that was stopped; return it ready to translate.

    Args:
        recipe: a TOML file; see `regard.runs.recipe`. What is given below wins over it.
        source: file of source lines.
        target: file of target lines.
        pairs: instead of the two: a file of pairs, TSV or JSONL.
        valid: validation files: source and target, or one of pairs; left out, a share of the text is set aside.
        out: the folder of the run; left out, one named after the recipe or the files, in ``runs``.
        data: the folder where relative paths start; left out, that of the recipe file, else the current one.
        preset: ``tiny``, ``small``, ``base`` or ``big``; left out, by the size of the text.
        updates: stop after so many changes of the weights.
        epochs: stop after so many passes over the text.
        minutes: stop after so many minutes, summed over all calls that went on with this run.
        seed: of everything random.
        init: a model folder to start from, with its vocabulary; see ``training.init`` of a recipe.
        device: ``cpu``, ``cuda``, ``mps``; ``auto`` takes the first that is there, from the end.
        quiet: say nothing on stderr: neither what is chosen nor how it goes.
        observers: told of updates, validations and checkpoints as they happen, beside the log of the run.

    Raises:
        InputError: a recipe, file or folder cannot be used.
        TrainingError: the run cannot go on; the last good checkpoint is there.
        InterruptedRun: Ctrl-C; everything was saved.
    """
    asked = plan(
        recipe,
        source=source,
        target=target,
        pairs=pairs,
        valid=valid,
        data=data,
        preset=preset,
        updates=updates,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        init=init,
    )
    asked.corpora()  # nothing is written for a recipe without text
    folder = RunFolder(out or Path("runs") / asked.name)
    folder.claim()
    say = say_nothing if quiet else say_on_stderr
    say(f"reading {asked.files_in_words()} …")
    raw = open_raw(asked.corpora(), folder.cache, temperature=asked.given.data.temperature)
    for sentence in asked.corpora_in_words(raw):
        say(sentence)
    effective, sentence = asked.recipe(raw.target_lines(), warmup=folder.warmup())
    say(sentence)
    folder.keep_recipe(effective)
    prepared = prepare(effective, raw, folder, asked.data, say)

    spec = effective.model.spec(len(prepared.source_tokenizer), len(prepared.target_tokenizer))
    torch.manual_seed(effective.training.seed)
    model = build(spec).to(best_device(device))
    say(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters; the run is kept in {folder.path}")
    if effective.training.init is not None and not folder.started:
        tokenizers = prepared.source_tokenizer, prepared.target_tokenizer
        say(inherit_weights(model, *tokenizers, effective.training.init))
    if frozen := freeze(model, effective.training.freeze):
        say(f"frozen: {len(frozen)} tensors, from {frozen[0]} to {frozen[-1]}")
    validation = Validation(prepared, effective.evaluation, effective.generation)
    try:
        outcome = train_module(
            Seq2SeqObjective(model, effective.training.label_smoothing),
            prepared.batches,
            effective.training,
            folder=folder.path,
            schedule=effective.training.rates(spec.d_model),
            validate=validation,
            better=validation.better(effective.training.metric),
            observers=[JsonLog(folder.log), *(() if quiet else (Progress(),)), *observers],
            fingerprint={"training_text": raw.key[:16], "model": spec_to_dict(spec)},
        )
    except InterruptedRun:
        say(f"{folder.model}: {export_as_asked(folder)}")
        raise
    say(_ending(outcome, effective.training))
    say(f"{folder.model}: {export_as_asked(folder)}")
    return load(folder.model, next(model.parameters()).device)


def best_device(name: str) -> torch.device:
    """Return the device that ``name`` means; ``auto`` is a CUDA device, else Apple's, else the processor."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _ending(outcome: Outcome, options: TrainingOptions) -> str:
    after = f"after update {outcome.update:,} and {outcome.seconds / 60:.1f} minutes"
    if outcome.finished and outcome.update == outcome.began_at:
        limit = f"`{outcome.reason}` = {getattr(options, outcome.reason):g}"
        return f"nothing to do: this run reached {limit} before, {after}; raise it to go on, or train in another folder"
    match outcome.reason:
        case "terminated":
            return f"asked to stop {after}; everything is saved: the same command goes on from there"
        case "minutes":
            return f"time is up {after}; everything is saved: the same command with more minutes goes on from there"
        case "patience":
            return f"stopped {after}: the validations brought nothing better any more"
        case _:
            return f"done {after}"
