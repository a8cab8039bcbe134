"""How good are systems on a test set? Their outputs against references, by the protocol of the first one's recipe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from regard.data import read_lines
from regard.device import best_device
from regard.errors import DataError, InputError, RecipeError, listed
from regard.evaluation import EvaluationOptions, Line, Report, compare, worst
from regard.plural import plural
from regard.runs.copies import doubt_of_copies
from regard.runs.recipes.recipe import DataOptions, Recipe, check
from regard.runs.saying import Say, say_nothing
from regard.runs.text_set import TextSet, aligned, read_aligned, read_set
from regard.runs.translating.output import refuse_output, write_result
from regard.runs.waiting import telling
from regard.translator import Translator, load_ensemble

System = str | Path | Translator | tuple[str | Path, ...]
"""A model folder, a run folder, a file of outputs, a translator, or folders whose models are searched as one."""


@dataclass(frozen=True)
class Evaluation:
    """What was found of one or several systems.

    Attributes:
        reports: name -> figures; all but the first tell how sure their difference to the first is.
        sources: the lines of the test set; none where outputs were compared with references alone.
        worst: name -> of the lines that are wrong those with the lowest chrF, as many as were asked for.
    """

    reports: Mapping[str, Report]
    sources: Sequence[str]
    worst: Mapping[str, Sequence[Line]]

    @property
    def first(self) -> Report:
        """The figures of the first system."""
        return next(iter(self.reports.values()))

    def lowest(self, metric: str) -> float:
        """Return the lowest value of any system.

        Raises:
            InputError: the metric was not measured.
        """
        values = [
            figure.value for report in self.reports.values() for figure in report.figures if figure.name == metric
        ]
        if not values:
            raise InputError(f"{metric} was not measured; add --metric {metric.lower()}")
        return min(values)

    def lines(self) -> Iterator[str]:
        """Yield what people read; the name of a system stands over its figures if there are several."""
        several = len(self.reports) > 1
        for name, report in self.reports.items():
            if several:
                yield name
            for line in report.lines():
                yield f"  {line}" if several else line
            for bad in self.worst[name]:
                yield f"line {bad.number}: chrF {bad.chrf:.2f}"
                if self.sources:
                    yield f"  source     {self.sources[bad.number - 1]}"
                yield from (f"  reference  {reference}" for reference in bad.references)
                yield f"  output     {bad.output}"

    def to_json(self) -> str:
        """Return the whole as one line of JSON: the report of one system, or a list of them."""
        found: list[dict[str, Any]] = []
        for name, report in self.reports.items():
            source = {bad.number: {"source": self.sources[bad.number - 1]} for bad in self.worst[name] if self.sources}
            lines = [{**asdict(bad), **source.get(bad.number, {})} for bad in self.worst[name]]
            found.append({"name": name, **asdict(report), **({"worst": lines} if lines else {})})
        return json.dumps(found[0] if len(found) == 1 else {"systems": found}, ensure_ascii=False)


def evaluate(
    *systems: System,
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
    test: Literal["bootstrap", "randomisation"] = "bootstrap",
    num_worst: int = 0,
    output: str | Path | None = None,
    device: str = "auto",
    say: Say = say_nothing,
) -> Evaluation:
    """Translate a test set with each system and measure the results.

    Args:
        systems: one or several; the others are compared with the first.
        source: file of source lines; files of outputs alone need none.
        references: one or more files of references, aligned with it.
        pairs: instead of the two: a file of pairs. With none of the three, the test set that the recipe names.
        several_answers: the file of pairs repeats a source to list a further right answer; as in the recipe if None.
        data: the folder where relative paths of the recipe start; left out, the current one.
        metrics: what to measure; left out, what the recipe says.
        bleu_tokenize: sacrebleu's tokenizer; left out, the recipe's.
        lowercase: compare without case; left out, the recipe's.
        beam: of the search; left out, the recipe's.
        intervals: add 95 % bootstrap intervals.
        test: how the difference of two systems is tested.
        num_worst: how many of the worst lines to list, of those that are wrong.
        output: file to write the outputs of the one system to.
        device: where to compute.
        say: told what takes a while.

    Raises:
        InputError: a file, option or system cannot be used.
    """
    names = _names(systems)
    for system in systems:
        if isinstance(system, tuple) and (files := _files(system)):
            raise InputError(f"{files[0]} is a file of outputs; --together is for models, which are searched as one")
    references, metrics = listed(references, "references", "file"), listed(metrics, "metrics", "name")
    if output is not None and len(systems) > 1:
        raise InputError("outputs of several systems do not go into one file; evaluate them one by one to keep them")
    refuse_output(None if output is None else Path(output), [source, *references, pairs, *_files(systems)])
    paths = [str(path) for path in references]
    if pairs is None:
        translating = [name for name, system in zip(names, systems, strict=True) if not _files([system])]
        _refuse_half_a_set(translating, source, paths)
    first = _opened(systems[0], device, say)
    tables = first.recipe if isinstance(first, Translator) else {}
    recipe = check(tables, "the recipe of the model")
    protocol = _protocol(recipe, tables, metrics, bleu_tokenize, lowercase)
    options = recipe.data if several_answers is None else replace(recipe.data, several_answers=several_answers)
    text = _text(options, source, paths, pairs, Path(data or ""))
    # files of outputs alone are compared without sources
    same = sum(source in answers for source, answers in zip(text.sources, text.references, strict=False))
    if doubt := doubt_of_copies(same, len(text.sources)):
        say(doubt)
    outputs: dict[str, Sequence[str]] = {}
    for name, system in zip(names, systems, strict=True):
        opened = first if system is systems[0] else _opened(system, device, say)
        outputs[name] = opened(text.sources, beam=beam, tag=text.tags) if isinstance(opened, Translator) else opened
        if len(outputs[name]) != len(text.references):
            lines = plural(len(outputs[name]), "line")
            raise DataError(f"{name} has {lines} but the test set {len(text.references):,}")
    if output is not None:
        write_result(output, "".join(f"{line}\n" for line in outputs[names[0]]).encode())
    reports = compare(protocol.build(), outputs, text.references, intervals=intervals, test=test)
    bad = {
        name: worst(lines, text.references, num_worst, lowercase=protocol.lowercase) if num_worst else []
        for name, lines in outputs.items()
    }
    return Evaluation(reports, text.sources, bad)


def _names(systems: Sequence[System]) -> list[str]:
    """Return what the systems are called in a report; a second one of the same name gets a number."""
    names: list[str] = []
    for number, system in enumerate(systems, 1):
        name = "translator" if isinstance(system, Translator) else _name(system)
        names.append(name if name not in names else f"{name} ({number})")
    if not names:
        raise InputError("there must be at least one system to evaluate")
    return names


def _name(system: str | Path | tuple[str | Path, ...]) -> str:
    return " + ".join(map(str, system)) if isinstance(system, tuple) else str(system)


def _files(systems: Sequence[System]) -> list[str | Path]:
    return [system for system in systems if isinstance(system, str | Path) and Path(system).is_file()]


def _opened(system: System, device: str, say: Say) -> Translator | list[str]:
    """Return the translator, or the outputs that a file holds."""
    if isinstance(system, Translator):
        return system
    if _files([system]):
        return list(read_lines(cast(str | Path, system)))
    with telling(f"loading {_name(system)}", say):
        return load_ensemble(system if isinstance(system, tuple) else (system,), best_device(device))


def _protocol(
    recipe: Recipe,
    tables: Mapping[str, Any],
    metrics: Sequence[str],
    bleu_tokenize: str | None,
    lowercase: bool | None,
) -> EvaluationOptions:
    wishes = {"metrics": list(metrics), "bleu_tokenize": bleu_tokenize, "lowercase": lowercase}
    given = {key: value for key, value in wishes.items() if value not in (None, [])}
    if not given:
        return recipe.evaluation
    return check({"evaluation": {**tables.get("evaluation", {}), **given}}, "the evaluation").evaluation


def _refuse_half_a_set(translating: Sequence[str], source: str | Path | None, references: Sequence[str]) -> None:
    if source is not None and not references:
        raise RecipeError("the source needs its reference")
    if source is None and references and translating:
        raise RecipeError(f"{translating[0]} translates, so these references need their source")
    if not (source or references or translating):
        raise RecipeError("outputs are measured against references, or against a file of pairs: give one of them")


def _text(
    options: DataOptions, source: str | Path | None, references: Sequence[str], pairs: str | Path | None, data: Path
) -> TextSet:
    if pairs is not None:
        if source is not None or references:
            raise RecipeError("a file of pairs holds source and references: give it alone")
        return read_set(replace(options, test_source=None, test_target=None, test_pairs=str(pairs)), "test", Path())
    if source is None and references:
        return TextSet([], aligned(references), [])
    if source is not None:
        return read_aligned(str(source), references)
    return read_set(options, "test", data)
