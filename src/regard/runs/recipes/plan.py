"""Which recipe is in effect? The file, what the caller changes, and what fits the corpus where both are silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data import CorpusFiles
from regard.errors import RecipeError
from regard.plural import plural
from regard.runs.recipes.changes import Changes, changed, with_own
from regard.runs.recipes.defaults import Extent, complete
from regard.runs.recipes.recipe import Recipe, check
from regard.runs.recipes.tables import Tables, data_folder, read_tables
from regard.training.options import LENGTHS

if TYPE_CHECKING:
    from regard.data import RawCorpus

_REPLACED: Mapping[str, tuple[str, ...]] = {
    "data.source": ("pairs", "columns", "corpora"),
    "data.target": ("pairs", "columns", "corpora"),
    "data.pairs": ("source", "target", "corpora"),
    "data.valid_source": ("valid_pairs",),
    "data.valid_target": ("valid_pairs",),
    "data.valid_pairs": ("valid_source", "valid_target"),
    "data.test_source": ("test_pairs",),
    "data.test_target": ("test_pairs",),
    "data.test_pairs": ("test_source", "test_target"),
}
"""What no longer holds of a recipe once a key is said beside it: other text takes its place, and is not added to it."""


@dataclass(frozen=True)
class Plan:
    """What was asked for.

    Attributes:
        tables: the keys that somebody gave.
        given: the same as a recipe, without regard to the corpus.
        data: where relative paths start.
        out: the folder of the run.
        where: the name of the recipe, for messages.
    """

    tables: Tables
    given: Recipe
    data: Path
    out: Path
    where: str

    @property
    def length_chosen(self) -> bool:
        """Whether somebody said how long the training should be."""
        return not LENGTHS.isdisjoint(self.tables.get("training", {}))

    def corpora(self) -> list[CorpusFiles]:
        """Return where the training text is.

        Raises:
            RecipeError: nothing says so.
        """
        corpora = self.given.data.all_corpora()
        if not corpora:
            raise RecipeError("nothing to train on: give a source and a target file, or pairs, or a recipe with [data]")
        return [files for corpus in corpora for files in corpus.files(self.data)]

    def files_in_words(self) -> str:
        """Return the names of the files of training text."""
        return ", ".join("standard input" if path == "-" else path for files in self.corpora() for path in files.paths)

    def corpora_in_words(self, raw: RawCorpus) -> list[str]:
        """Return what was read from each of several corpora, or from an n-best list."""
        corpora = self.corpora()
        if len(corpora) == 1 and corpora[0].nbest is None:
            return []
        sizes = raw.sizes()
        return [
            f"{' + '.join(files.paths)}: {plural(size, 'pair')}"
            + _outputs_in_words(files.nbest)
            + (f", each seen {weight:.3g} times an epoch" if weight != 1 else "")
            for files, size, weight in zip(corpora, sizes, raw.weights, strict=True)
        ]

    def recipe(self, targets: Iterable[str] | Extent, *, warmup: int | None = None) -> tuple[Recipe, str]:
        """Return the recipe in effect for these target lines, and a sentence that says what was chosen.

        ``warmup`` is that of the run that is gone on with.
        """
        extent = targets if isinstance(targets, Extent) else Extent.of(targets)
        tables, sentence = complete(self.tables, extent, warmup=warmup)
        return check(tables, self.where), sentence

    def dry(self) -> tuple[Recipe, str]:
        """Return the recipe in effect, after a look at the text that leaves nothing behind."""
        return self.recipe(pair.target for files in self.corpora() for pair in files.read())


def plan(
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
) -> Plan:
    """Put together a recipe file and what is said beside it, which wins.

    Args:
        recipe: a TOML file.
        source: file of source lines; it takes the place of the recipe's, and of its pairs and corpora.
        target: file of target lines; as ``source``.
        pairs: instead of the two: a file of pairs.
        valid: validation files: source and target, or one of pairs.
        out: the folder of the run; left out, one named after the recipe or the files, in ``runs``.
        data: the folder where relative paths start; left out, that of the recipe file, else the current one.
        preset: of the model.
        updates: when to stop.
        epochs: when to stop.
        minutes: when to stop.
        seed: of everything random.
        init: a model folder to start from; not needed by a run that has begun, which has all of it.
        changes: further keys of a recipe, as ``{"training.label_smoothing": 0.2}``.

    Raises:
        RecipeError: the file, or a key or value, cannot be used.
    """
    said: dict[str, Any] = {
        "data.source": source,
        "data.target": target,
        "data.pairs": pairs,
        "model.preset": preset,
        "training.updates": updates,
        "training.epochs": epochs,
        "training.minutes": minutes,
        "training.seed": seed,
        "training.init": init,
    }
    match list(valid):
        case []:
            pass
        case [both]:
            said["data.valid_pairs"] = both
        case [valid_source, valid_target]:
            said |= {"data.valid_source": valid_source, "data.valid_target": valid_target}
        case more:
            raise RecipeError(f"validation takes a file of pairs, or a source and a target file, not {len(more)} files")
    said = with_own(changes or {}, said)
    where = "the command line" if recipe is None else f"{recipe} and the command line" if said else str(recipe)
    tables = changed(_without_replaced({} if recipe is None else read_tables(recipe), said), said)
    given = check(tables, where)
    out = Path(out or Path("runs") / _name(recipe, source, target, pairs))
    if given.training.init is not None:  # what follows needs torch, which a recipe otherwise does not
        from regard.runs.training.folder import RunFolder
        from regard.runs.training.inherit import inherit_tables

        tables = inherit_tables(tables, given, RunFolder(out))
        given = check(tables, where)
    return Plan(tables, given, data_folder(data, recipe), out, where)


def _without_replaced(tables: Tables, said: Mapping[str, Any]) -> Tables:
    """Return the tables of a recipe without those files of ``[data]`` that others, which are ``said``, stand for."""
    replaced = {key for name in said.keys() & _REPLACED.keys() for key in _REPLACED[name]}
    data = tables.get("data")
    if not replaced or not isinstance(data, dict):
        return tables
    return {**tables, "data": {key: value for key, value in data.items() if key not in replaced}}


def _outputs_in_words(nbest: int | None) -> str:
    if nbest is None:
        return ""
    return ", the best output of each source" if nbest == 1 else f", at most {nbest} outputs of each source"


def _name(*paths: str | Path | None) -> str:
    """Name a run after its recipe or files: ``train.en`` and ``train.de`` make ``en-de``."""
    names = [Path(path).name.removesuffix(".gz") for path in paths if path is not None]
    stems, suffixes = {Path(name).stem for name in names}, [Path(name).suffix[1:] for name in names]
    if len(names) == 2 and len(stems) == 1 and all(suffixes):
        return "-".join(suffixes)
    return (Path(names[0]).stem if names else "") or "run"
