"""What can a run be told? The one schema: a recipe is a TOML file of tables, each the options of one room.

::

    [data]        which files, filters, noise      [training]    batches, optimiser, schedule, when to stop
    [tokenizer]   how text becomes ids             [generation]  the search
    [model]       a preset and what differs        [evaluation]  what is measured, and how

Relative paths are looked up in the data folder if one is given, else in the folder of the recipe file, else where the
command runs. Whatever is left out has a default; some defaults depend on the size of the corpus
(`regard.runs.recipes.defaults`). Every mistake of a recipe is found before anything is read: unknown names and
values of a wrong type first, then what is out of range, then what contradicts another table; each kind at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from regard.data import CorpusFiles, FilterOptions, NoiseOptions, TokenizerOptions
from regard.errors import RecipeError, refuse
from regard.evaluation import EvaluationOptions
from regard.generation import SearchOptions
from regard.models import TransformerSpec, preset, spec_from_dict, spec_to_dict
from regard.plural import plural
from regard.runs.recipes.mistakes import validated
from regard.runs.recipes.tables import Tables, in_folder, is_of_signals, unmeasured, with_changes, with_limits
from regard.runs.recipes.toml import without_none, write_toml
from regard.training import TrainingOptions

Paths = str | tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """One of several corpora: a table ``[[data.corpora]]``.

    Attributes:
        source: the file of source lines, or several, one after the other.
        target: the file, or as many files, of target lines.
        pairs: instead of the two: files of pairs, TSV, or JSONL when the name says so.
        columns: for TSV, which columns hold source and target, from 1; left out, there must be exactly two.
        nbest: instead of the target: outputs of another model to learn from, as ``regard translate --nbest`` writes
            them, or ``--jsonl`` does, which needs no source.
        nbest_keep: outputs taken of each source; together they count as one.
        weight: how many times an epoch sees each pair, on average.
        tag: put before each source as one token that text cannot spell, such as ``de``.
    """

    source: Paths | None = None
    target: Paths | None = None
    pairs: Paths | None = None
    columns: tuple[int, int] | None = None
    nbest: str | None = None
    nbest_keep: int = 1
    weight: float = 1.0
    tag: str = ""

    def __post_init__(self) -> None:
        if self.nbest_keep < 1:
            raise RecipeError(f"`nbest_keep` must be at least 1, but is {self.nbest_keep}")
        if self.nbest is not None:
            if (self.target, self.pairs, self.columns) != (None, None, None) or not isinstance(self.source, str | None):
                raise RecipeError("`nbest` stands instead of `target` and `pairs`, with one file as `source`")
            if self.source is None and not self.nbest.removesuffix(".gz").endswith(".jsonl"):
                raise RecipeError("`nbest` needs the `source` that was translated, unless it is a .jsonl file")
            self.files(Path())
            return
        if self.pairs is not None and (self.source or self.target):
            raise RecipeError(
                "`pairs` holds both sides and stands instead of `source` and `target`; give one or the other"
            )
        if (self.source is None) != (self.target is None):
            have, lack = ("source", "target") if self.target is None else ("target", "source")
            raise RecipeError(f"`{have}` needs its `{lack}`; a file that holds both sides is given as `pairs`")
        if self.source is self.pairs is None:
            raise RecipeError("either `source` and `target` or `pairs` must say where the text is")
        sides = listed(self.source), listed(self.target)
        if len(sides[0]) != len(sides[1]):
            raise RecipeError(
                f"`source` names {plural(len(sides[0]), 'file')} but `target` {len(sides[1])}; they go in pairs"
            )
        self.files(Path())  # weight and columns are checked where they are used

    def files(self, folder: Path) -> list[CorpusFiles]:
        """Return where the pairs are, relative paths taken from ``folder``."""
        if self.nbest is not None:
            outputs, weight = in_folder(folder, self.nbest), self.weight / self.nbest_keep
            sources = [in_folder(folder, path) for path in listed(self.source)]
            first, second = (sources[0], outputs) if sources else (outputs, None)
            return [CorpusFiles(first, second, weight=weight, tag=self.tag, nbest=self.nbest_keep)]
        sources, targets = (listed(self.pairs), [None]) if self.pairs else (listed(self.source), listed(self.target))
        return [
            CorpusFiles(
                in_folder(folder, source),
                None if target is None else in_folder(folder, target),
                self.columns,
                weight=self.weight,
                tag=self.tag,
            )
            for source, target in zip(sources, targets * len(sources) if self.pairs else targets, strict=True)
        ]


@dataclass(frozen=True)
class DataOptions:
    """The table ``[data]``: the files, and what of them is used.

    Attributes:
        source: the file of source lines, or several, one after the other.
        target: the file, or as many files, of target lines.
        pairs: instead of the two: files of pairs, TSV, or JSONL when the name says so.
        columns: for TSV, which columns hold source and target, from 1; left out, there must be exactly two.
        corpora: further corpora, or all of them, each with a weight and a tag.
        temperature: above 1 brings small corpora forward: shares of an epoch are sizes to the power 1/temperature.
        valid_source: source lines to validate with; without validation files a share of the corpus is set aside.
        valid_target: their references; several files are several references of each line.
        valid_pairs: instead of the two: one file of pairs.
        test_source: source lines of the final evaluation, if there is to be one.
        test_target: their references; several files are several references of each line.
        test_pairs: instead of the two: one file of pairs.
        several_answers: validation and test files repeat a source to list a further right answer.
        valid_lines: validation lines that are translated, at most; the loss is taken over all.
        filters: which pairs are left out of training.
        noise: what is changed in a pair each time that it is seen.
        workers: processes that make batches ahead of time; the batches are the same for any number.
    """

    source: Paths | None = None
    target: Paths | None = None
    pairs: Paths | None = None
    columns: tuple[int, int] | None = None
    corpora: tuple[Corpus, ...] = ()
    temperature: float = 1.0
    valid_source: str | None = None
    valid_target: Paths | None = None
    valid_pairs: str | None = None
    test_source: str | None = None
    test_target: Paths | None = None
    test_pairs: str | None = None
    several_answers: bool = False
    valid_lines: int = 500
    filters: FilterOptions = field(default_factory=FilterOptions)
    noise: NoiseOptions = field(default_factory=NoiseOptions)
    workers: int = 0

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        try:
            self.all_corpora()
        except RecipeError as error:
            yield from error.mistakes
        for name in ("valid", "test"):
            source, target, pairs = (getattr(self, f"{name}_{side}") for side in ("source", "target", "pairs"))
            if pairs and (source or target):
                yield f"`{name}_pairs` stands instead of `{name}_source` and `{name}_target`"
            elif (source is None) != (target is None):
                yield f"`{name}_source` and `{name}_target` go together, or `{name}_pairs` instead"
        if not 0 < self.temperature < math.inf:
            yield f"`temperature` must be above 0, but is {self.temperature}"
        for name, least in (("valid_lines", 1), ("workers", 0)):
            if getattr(self, name) < least:
                yield f"`{name}` must be at least {least}, but is {getattr(self, name)}"

    def all_corpora(self) -> tuple[Corpus, ...]:
        """Return the corpora to train on, the unnamed one first."""
        own = (
            (Corpus(self.source, self.target, self.pairs, self.columns),)
            if self.source or self.target or self.pairs
            else ()
        )
        return (*own, *self.corpora)


@dataclass(frozen=True)
class ModelChoice:
    """The table ``[model]``: a preset, and fields of `TransformerSpec` that differ from it, by their names.

    ``positions = "rotary"`` stands for ``positions = {kind = "rotary"}``, and ``dropout = 0.3`` for that share in the
    two places of the paper: embeddings and residuals.

    Attributes:
        preset: ``tiny``, ``small``, ``base`` or ``big``; chosen from the size of the corpus when left out.
        changes: the other keys of the table.
    """

    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Any vocabulary size will do to see whether the rest is a model; one, so that all tables may be tied.
        self.spec(source_vocab=8, target_vocab=8)

    def spec(self, source_vocab: int, target_vocab: int) -> TransformerSpec:
        """Return the model for these vocabularies.

        Raises:
            RecipeError: a key or value that no model has.
        """
        for vocabulary in ("source_vocab", "target_vocab"):
            if vocabulary in self.changes:
                raise RecipeError(f"model.{vocabulary} is that of the tokenizer: set tokenizer.vocab_size")
        base = preset(self.preset or "base", source_vocab=source_vocab, target_vocab=target_vocab)
        return spec_from_dict(with_changes(spec_to_dict(base), self.changes))


@dataclass(frozen=True)
class Recipe:
    """A whole run."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}  # reaches every table below

    data: DataOptions = field(default_factory=DataOptions)
    tokenizer: TokenizerOptions = field(default_factory=TokenizerOptions)
    model: ModelChoice = field(default_factory=ModelChoice)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    generation: SearchOptions = field(default_factory=SearchOptions)
    evaluation: EvaluationOptions = field(default_factory=EvaluationOptions)

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        spec = self.model.spec(source_vocab=8, target_vocab=8)
        if spec.tie == "all" and not self.tokenizer.joint:
            yield "model.tie = all shares one table between both sides: set tokenizer.joint = true as well"
        for side in ("source", "target"):
            longest = getattr(self.data.filters, f"max_{side}_length")
            if longest > spec.max_len:
                yield (
                    f"data.filters.max_{side}_length = {longest} lets in more than the model can read: "
                    f"model.max_len = {spec.max_len}"
                )
        yield from unmeasured(self.training.metric, ("loss", "perplexity", *self.evaluation.metrics))


def check(tables: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Return the recipe that ``tables`` describe.

    Args:
        tables: section -> key -> value.
        where: the name of the file, for messages.

    Raises:
        RecipeError: every mistake, each with its key and the nearest valid name.
    """
    if is_of_signals(tables):
        raise RecipeError(f"{where}: this recipe is of signals and not of text; the command `regard train` runs it")
    data = tables.get("data")
    if isinstance(data, Mapping) and str(kind := data.get("kind")).casefold().startswith("sig"):
        raise RecipeError(f"{where}: data.kind = {kind!r} is unknown; did you mean 'signals'?")
    tables = with_limits(tables)
    if isinstance(model := tables.get("model"), dict):
        choice = {"changes": {key: value for key, value in model.items() if key != "preset"}}
        tables["model"] = choice | ({"preset": model["preset"]} if "preset" in model else {})
    return validated(
        Recipe, tables, where, keys={"model": ("preset", *(item.name for item in fields(TransformerSpec)))}
    )


def to_tables(recipe: Recipe) -> Tables:
    """Return a recipe as the tables of its TOML; values that are None are left out."""
    tables: Tables = without_none({**asdict(recipe), "model": {"preset": recipe.model.preset, **recipe.model.changes}})
    return tables


def dump(recipe: Recipe) -> str:
    """Return a recipe as TOML, every key written out."""
    return write_toml(to_tables(recipe))


def listed(paths: Paths | None) -> list[str]:
    """Return one path or several as a list."""
    return [] if paths is None else [paths] if isinstance(paths, str) else list(paths)
