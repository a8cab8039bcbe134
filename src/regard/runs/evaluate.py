"""How good is a model on a test set? Its translations against references, by the protocol of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.errors import InputError, RecipeError
from regard.evaluation import EvaluationOptions, Report
from regard.evaluation import evaluate as measure
from regard.runs.device import best_device
from regard.runs.prepare import TextSet, read_aligned, read_set
from regard.runs.recipe import DataOptions, check
from regard.storage import write_bytes
from regard.translator import Translator, load


def evaluate(
    model: str | Path | Translator,
    *,
    source: str | Path | None = None,
    references: Sequence[str | Path] = (),
    pairs: str | Path | None = None,
    several_answers: bool | None = None,
    data: str | Path | None = None,
    metrics: Sequence[str] = (),
    bleu_tokenize: str | None = None,
    lowercase: bool | None = None,
    beam: int | None = None,
    intervals: bool = False,
    output: str | Path | None = None,
    device: str = "auto",
) -> Report:
    """Translate a test set and measure the result.

    Args:
        model: a model folder, a run folder, or a translator.
        source: file of source lines.
        references: one or more files of references, aligned with it.
        pairs: instead of the two: a file of pairs. With none of the three, the test set that the recipe names.
        several_answers: the file of pairs repeats a source to list a further right answer; as in the recipe if None.
        data: the folder where relative paths of the recipe start; left out, the current one.
        metrics: what to measure; left out, what the recipe says.
        bleu_tokenize: sacrebleu's tokenizer; left out, the recipe's.
        lowercase: compare without case; left out, the recipe's.
        beam: of the search; left out, the recipe's.
        intervals: add 95 % bootstrap intervals.
        output: file to write the translations to.
        device: where to compute.

    Raises:
        InputError: a file, option or the model cannot be used.
    """
    translator = model if isinstance(model, Translator) else load(model, best_device(device))
    recipe = check(translator.recipe, "the recipe of the model")
    options = recipe.data if several_answers is None else replace(recipe.data, several_answers=several_answers)
    wishes = {"metrics": list(metrics), "bleu_tokenize": bleu_tokenize, "lowercase": lowercase}
    given = {key: value for key, value in wishes.items() if value not in (None, [])}
    tables = {"evaluation": {**dict(translator.recipe.get("evaluation", {})), **given}}
    protocol: EvaluationOptions = check(tables, "the evaluation").evaluation

    text = _text(options, source, [str(path) for path in references], pairs, Path(data or ""))
    if output is not None:
        _refuse_output(Path(output), [source, *references, pairs])
    outputs = translator(text.sources, beam=beam, tag=text.tags)
    if output is not None:
        write_bytes(output, "".join(f"{line}\n" for line in outputs).encode())
    return measure(protocol.build(), outputs, text.references, intervals=intervals)


def _refuse_output(output: Path, inputs: Sequence[str | Path | None]) -> None:
    """Refuse, before anything is translated, a file that cannot be written or that is read as well."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(f"{output}: cannot be written; name a file in a folder that exists")
    for path in inputs:
        if path is not None and output.exists() and Path(path).exists() and output.samefile(path):
            raise InputError(f"{output} is read as well; write the translations to another file")


def _text(
    options: DataOptions, source: str | Path | None, references: Sequence[str], pairs: str | Path | None, data: Path
) -> TextSet:
    if pairs is not None:
        if source is not None or references:
            raise RecipeError("a file of pairs holds source and references: give it alone")
        return read_set(replace(options, test_source=None, test_target=None, test_pairs=str(pairs)), "test", Path())
    if (source is None) != (not references):
        raise RecipeError("the source needs its reference, and a reference its source")
    if source is not None:
        return read_aligned(str(source), references)
    return read_set(options, "test", data)
