"""How is a run set up without leaving anything behind? In a folder that is deleted when the block ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.data import PairBatch
from regard.device import best_device
from regard.models import build
from regard.runs.recipes.plan import Plan
from regard.runs.recipes.recipe import Recipe
from regard.runs.saying import Say
from regard.runs.training.folder import RunFolder
from regard.runs.training.inherit import inherit_weights
from regard.runs.training.prepare import Prepared, prepare, read_text
from regard.training import Seq2SeqObjective
from regard.training.freeze import freeze


@dataclass(frozen=True)
class Rehearsal:
    """A run before its first update.

    Attributes:
        recipe: with every key in effect.
        prepared: text, tokenizers and batches.
        objective: the model, with the weights that it begins with, and its loss.
    """

    recipe: Recipe
    prepared: Prepared
    objective: Seq2SeqObjective

    def batches(self) -> Iterator[PairBatch]:
        """Yield batches without end, epoch after epoch."""
        epoch = 0
        while True:
            yield from self.prepared.batches.epoch(epoch)
            epoch += 1


@contextmanager
def rehearsal(asked: Plan, device: str, say: Say) -> Iterator[Rehearsal]:
    """Read, tokenize and build as `train` does; everything written is gone after the block."""
    with TemporaryDirectory(prefix="regard-") as place:
        folder = RunFolder(Path(place))
        raw = read_text(asked, folder, say)
        recipe, sentence = asked.recipe(raw.target_lines())
        say(sentence)
        prepared = prepare(recipe, raw, folder, asked.data, say)
        tokenizers = prepared.source_tokenizer, prepared.target_tokenizer
        torch.manual_seed(recipe.training.seed)
        model = build(recipe.model.spec(*map(len, tokenizers))).to(best_device(device))
        if recipe.training.init is not None:
            say(inherit_weights(model, *tokenizers, recipe.training.init))
        freeze(model, recipe.training.freeze)
        yield Rehearsal(recipe, prepared, Seq2SeqObjective(model, recipe.training.label_smoothing))
