"""From two files to a translator: what `regard train` does, and `regard.train` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.device import best_device
from regard.errors import DataError
from regard.models import build, spec_to_dict
from regard.protocols import Observer
from regard.runs.recipes.changes import Changes
from regard.runs.recipes.defaults import Extent
from regard.runs.recipes.plan import Plan, plan
from regard.runs.saying import say_nothing, say_on_stderr
from regard.runs.training.beginning import begin
from regard.runs.training.doubts import doubts
from regard.runs.training.ending import ending, worth
from regard.runs.training.export import exported
from regard.runs.training.folder import RunFolder
from regard.runs.training.inherit import inherit_weights
from regard.runs.training.prepare import prepare, read_text
from regard.runs.training.validation import Validation
from regard.training import Seq2SeqObjective
from regard.training import train as train_module
from regard.training.distributed import joined
from regard.training.observers import JsonLog, Progress
from regard.training.tensorboard import TensorBoard
from regard.training.verdict import Curve
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
    changes: Changes | None = None,
    device: str = "auto",
    quiet: bool = False,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Translator:
    """Train a model from files of text, or go on with a training that was stopped; return it ready to translate.

    Started by torch's launcher in several processes, these share the work of every update; see
    `regard.training.distributed`. The folder of the run must be the same for all.

    Args:
        recipe: a TOML file; see `regard.runs.recipes.recipe`. What is given below wins over it.
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
        changes: further keys of a recipe, as ``{"training.label_smoothing": 0.2}``.
        device: ``cpu``, ``cuda``, ``mps``; ``auto`` takes the first that is there, from the end.
        quiet: say nothing on stderr: neither what is chosen nor how it goes.
        tensorboard: write curves to the folder ``tensorboard`` of the run.
        observers: told of updates, validations and checkpoints as they happen, beside the log of the run.

    Raises:
        InputError: a recipe, file or folder cannot be used.
        TrainingError: the run cannot go on; the last good checkpoint is there.
        InterruptedRun: Ctrl-C; everything was saved, or, after a second one, what the message tells.
    """
    asked = plan(
        recipe,
        source=source,
        target=target,
        pairs=pairs,
        valid=valid,
        out=out,
        data=data,
        preset=preset,
        updates=updates,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        init=init,
        changes=changes,
    )
    return train_planned(asked, device=device, quiet=quiet, tensorboard=tensorboard, observers=observers)


def train_planned(
    asked: Plan,
    *,
    device: str = "auto",
    quiet: bool = False,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Translator:
    """Do what `train` does, and raise what it raises, for a recipe that is put together already."""
    asked.corpora()  # nothing is written for a recipe without text
    folder = RunFolder(asked.out)
    chosen = best_device(device)
    with joined(chosen) as ranks:
        say = say_nothing if quiet or not ranks.is_first else say_on_stderr
        with ranks.first():  # it makes what the others then find
            if ranks.is_first:
                folder.claim()
            if ranks.world > 1 and any("-" in files.paths for files in asked.corpora()):
                raise DataError("standard input can be read by one process only; give files")
            raw = read_text(asked, folder, say)
            extent = Extent(len(raw), raw.target_words, raw.target_characters)
            effective, sentence = asked.recipe(extent, warmup=folder.warmup())
            say(sentence)
            if ranks.is_first:
                folder.keep_recipe(effective)
            prepared = prepare(effective, raw, folder, asked.data, say, ranks)

        for doubt in () if quiet or folder.started or not ranks.is_first else doubts(prepared, effective):
            say(f"warning: {doubt}")
        spec = effective.model.spec(len(prepared.source_tokenizer), len(prepared.target_tokenizer))
        torch.manual_seed(effective.training.seed)
        model = build(spec).to(chosen)
        if effective.training.init is not None and not folder.started:
            tokenizers = prepared.source_tokenizer, prepared.target_tokenizer
            say(inherit_weights(model, *tokenizers, effective.training.init))
        begin(model, effective.training.freeze, folder, ranks, say)
        watchers = [JsonLog(folder.log), *(() if quiet else (Progress(),)), *observers]
        if tensorboard and ranks.is_first:
            watchers.append(TensorBoard(folder.path / "tensorboard"))
        validation = Validation(prepared, effective.evaluation, effective.generation, ranks)
        with exported(folder, ranks, say):
            outcome = train_module(
                Seq2SeqObjective(model, effective.training.label_smoothing),
                prepared.batches,
                effective.training,
                folder=folder.path,
                schedule=effective.training.rates(spec.d_model),
                validate=validation,
                better=validation.better(effective.training.metric),
                observers=watchers,
                fingerprint={"training_text": raw.key[:16], "model": spec_to_dict(spec)},
                ranks=ranks,
            )
            say(ending(outcome, effective.training))
            if outcome.update > outcome.began_at:
                target_tokens = int(prepared.corpus.target_lengths.sum()) + len(prepared.corpus)
                curve = Curve.read(folder.log)
                for sentence in worth(curve, target_tokens, validation.outputs, length_chosen=asked.length_chosen):
                    say(sentence)
    return load(folder.model, chosen)
