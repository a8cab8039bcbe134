"""What does a trained model lose without a part? The same test file is read with it and without.

Axes: B batch, S source, T target, V vocabulary, N sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.data import collate
from regard.errors import DataError, InputError
from regard.evaluation import measure
from regard.generation.lengths import by_length
from regard.inspection import draw_table
from regard.models import Transformer, ablate, ablation_names
from regard.modes import evaluation_mode
from regard.plural import plural
from regard.protocols import PAD
from regard.runs.looking.parts import fitting
from regard.runs.recipes.recipe import check
from regard.runs.saying import Say
from regard.runs.text_set import TextSet, read_aligned
from regard.translator import Translator

_BATCH_TOKENS = 4096

Ids = tuple[list[int], list[int]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """How a model does on a test file, whole or without a part.

    Attributes:
        name: What is missing, as `regard.models.ablate` calls it; empty for the whole model.
        sentence: The same in words.
        parameters: Those that are left and have a say.
        loss: Mean negative log-likelihood of a target token, in nats.
        right: Share of target tokens that were the most probable.
        change: Loss minus that of the whole model.
        margin: Half of the 95 % interval of the change, over sentences.
        figures: Metrics of translations, by name, if they were asked for.
    """

    name: str
    sentence: str
    parameters: int
    loss: float
    right: float
    change: float
    margin: float
    figures: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return asdict(self)


def compare_without(
    translator: Translator,
    patterns: Sequence[str],
    source: str | Path,
    target: str | Path,
    *,
    metrics: Sequence[str] = (),
    say: Say,
) -> Iterator[Compared]:
    """Yield how the model does whole, then without each part that the patterns fit.

    Args:
        translator: A trained model.
        patterns: As `regard.runs.looking.parts.fitting` reads them, over the names of `regard.models.ablation_names`.
        source: File of source lines.
        target: File of right answers.
        metrics: What to measure on translations besides; each part then costs a translation of the file.
        say: Told which pairs and parts are left out.

    Raises:
        InputError: A part or file cannot be used.
    """
    model = translator.model
    names = list(dict.fromkeys(name for pattern in patterns for name in fitting(pattern, ablation_names(model))))
    text = read_aligned(str(source), [str(target)])
    pairs = _pairs(translator, text, say)
    protocol = check({"evaluation": {"metrics": list(metrics)}}, "the command line").evaluation if metrics else None

    def figures(lacking: Transformer) -> dict[str, float]:
        if protocol is None:
            return {}
        own = Translator(lacking, translator.source_tokenizer, translator.target_tokenizer, translator.search)
        outputs = own(text.sources)
        built = zip(protocol.metrics, protocol.build(), strict=True)
        return {name: measure(metric, outputs, text.references) for name, metric in built}

    whole, right, counts = _losses(model, pairs)
    tokens = counts.sum()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    yield Compared("", "The whole model.", parameters, whole.sum() / tokens, right / tokens, 0.0, 0.0, figures(model))
    for name in names:
        try:
            lacking = ablate(model, name)
        except InputError as error:
            if len(names) == 1:
                raise
            say(str(error))
            continue
        losses, right, _ = _losses(lacking.model, pairs)
        change = (losses - whole).sum() / tokens
        # sentences are what was drawn: the variance of a ratio of sums, by its linear part
        spread = math.sqrt(((losses - whole - change * counts) ** 2).sum()) / tokens
        left = sum(parameter.numel() for parameter in lacking.model.parameters()) - lacking.idle
        yield Compared(
            name,
            lacking.sentence,
            left,
            losses.sum() / tokens,
            right / tokens,
            change,
            1.96 * spread,
            figures(lacking.model),
        )


def comparison_lines(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield the comparison for a terminal: the whole model, then what hurts most first."""
    whole, *others = compared
    figures = list(whole.figures)
    table = [["without", "parameters", "loss", "change", "", "tokens right", *figures]]
    for row in [whole, *sorted(others, key=lambda one: -one.change)]:
        change = ["", ""] if row is whole else [f"{row.change:+.4f}", f"± {row.margin:.4f}"]
        table.append(
            [
                row.name or "nothing",
                f"{row.parameters:,}",
                f"{row.loss:.4f}",
                *change,
                f"{100 * row.right:.1f} %",
                *(f"{row.figures[name]:.2f}" for name in figures),
            ]
        )
    yield draw_table(table, left=(0,))
    yield ""
    yield "loss in nats per target token; ± is the 95 % interval of the change over sentences"


def _pairs(translator: Translator, text: TextSet, say: Say) -> list[Ids]:
    """Return the ids of what the model can read, and tell of what it cannot."""
    longest = translator.model.spec.max_len - 1
    pairs = [
        (translator.source_tokenizer.encode(source), translator.target_tokenizer.encode(target))
        for source, (target, *_) in zip(text.sources, text.references, strict=True)
    ]
    kept = [pair for pair in pairs if max(map(len, pair)) <= longest]
    if len(kept) < len(pairs):
        told = plural(len(pairs) - len(kept), "pair is", "pairs are")
        say(f"{told} longer than the model reads ({longest:,} tokens), and left out")
    if not kept:
        raise DataError("the test files hold no pair that the model can read")
    return kept


@torch.inference_mode()
def _losses(model: Transformer, pairs: Sequence[Ids]) -> tuple[Floats, float, Floats]:
    """Return the summed loss of each pair, how many tokens were the most probable, and the tokens of each pair."""
    losses, counts, right = np.zeros(len(pairs)), np.zeros(len(pairs)), 0.0
    device = next(model.parameters()).device
    with evaluation_mode(model):
        for rows in by_length([max(map(len, pair)) + 1 for pair in pairs], _BATCH_TOKENS):
            batch = collate([(np.array(pairs[i][0]), np.array(pairs[i][1]), i) for i in rows]).to(device)
            logits = model(batch.source, batch.target_in, source_lengths=batch.source_lengths).float()
            wanted, real = batch.target_out, batch.target_out != PAD
            nll = -logits.log_softmax(dim=-1).gather(-1, wanted[..., None])[..., 0]
            losses[rows] = nll.masked_fill(~real, 0.0).double().sum(dim=1).cpu().numpy()
            counts[rows] = real.sum(dim=1).cpu().numpy()
            right += float(((logits.argmax(dim=-1) == wanted) & real).sum())
    return losses, right, counts
