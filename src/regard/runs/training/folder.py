"""What does a run leave on disk, and does what is there belong to this recipe?

::

    en-de/
      recipe.toml      every key in effect
      log.jsonl        what happened, one event a line
      tokenizers/      sealed: made once, at the start
      classifier/      instead, for signals: classes, standardisation and sizes
      checkpoints/     where the run can go on from
      cache/           text and ids ready to be read; may be deleted
      model/           the finished model folder
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from regard.bundle import read_tokenizers, refuse_to_replace, tokenizers_config, tokenizers_files
from regard.data import TextTokenizer
from regard.errors import FolderError
from regard.folders import MODEL
from regard.runs.recipes.recipe import Corpus, Recipe, check, to_tables
from regard.runs.recipes.signal_recipe import check_signals
from regard.runs.recipes.tables import Tables, is_of_signals, read_tables
from regard.runs.recipes.toml import write_toml
from regard.signals.classifier import SignalClassifier, from_config
from regard.storage import open_sealed, seal, write_bytes
from regard.training import Checkpoints, TrainingOptions
from regard.training.fingerprint import changes
from regard.training.options import CHANGEABLE

_FREE = {
    "data": {"source", "target", "pairs", "valid_source", "valid_target", "valid_pairs", "valid_lines", "workers"}
    | {"test_source", "test_target", "test_pairs", "train", "valid", "test", "test_cases"},
    "training": CHANGEABLE,
}
"""Keys that may differ when a run goes on. Files may have moved: their content is compared, by the training itself."""

_HEADER = "# Every key in effect, kept by regard for this run.\n\n"
"""Tells the recipe of a run from one that somebody wrote."""

_FREE_SECTIONS = ("generation", "evaluation")
_PATHS_OF_CORPORA = {"source", "target", "pairs", "nbest"}


class RunFolder:
    """The folder of one run.

    Args:
        path: where; made when first written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.toml"
        self.log = self.path / "log.jsonl"
        self.tokenizers = self.path / "tokenizers"
        self.classifier = self.path / "classifier"
        self.checkpoints = self.path / "checkpoints"
        self.cache = self.path / "cache"
        self.model = self.path / MODEL

    @property
    def started(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return bool(Checkpoints(self.checkpoints).updates())

    def claim(self) -> None:
        """Make the folder, or accept one that is empty or of a run.

        Raises:
            FolderError: it, or its folder of the model, holds something else, or cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            strange = not self._has_recipe() and any(entry.name != "cache" for entry in self.path.iterdir())
        except OSError as error:
            raise FolderError(f"{self.path} cannot be the folder of a run: {error.strerror}") from None
        if strange:
            raise FolderError(f"{self.path} holds other things than a run of regard; choose a new or empty folder")
        refuse_to_replace(self.model)

    def keep_recipe(self, recipe: Recipe) -> None:
        """Write ``recipe.toml``, unless a run was started here with another one.

        Raises:
            FolderError: with every key that differs.
        """
        self.keep_tables(to_tables(recipe), defaults=to_tables(Recipe()))

    def keep_tables(self, tables: Tables, *, defaults: Tables) -> None:
        """Do what `keep_recipe` does, and raise what it raises, for the tables of any recipe.

        Args:
            tables: of the recipe.
            defaults: what keys were before they existed.
        """
        if self.started and (found := self._changes(tables, defaults)):
            raise FolderError(
                f"{self.path} was started with another recipe: {'; '.join(found)}. "
                "Restore these to go on, or train in another folder"
            )
        write_bytes(self.recipe, f"{_HEADER}{write_toml(tables)}".encode())

    def _changes(self, tables: Tables, defaults: Tables) -> list[str]:
        return changes(_compared(read_tables(self.recipe)), _compared(tables), _compared(defaults))

    def read_recipe(self) -> Recipe:
        """Return the recipe of the run that was started here.

        Raises:
            FolderError: there is none.
        """
        return check(self._tables(), str(self.recipe))

    def training(self) -> TrainingOptions:
        """Return how the run that was started here is trained, be it of text or of signals.

        Raises:
            FolderError: there is none.
        """
        tables = self._tables()
        return (check_signals if is_of_signals(tables) else check)(tables, str(self.recipe)).training

    def warmup(self) -> int | None:
        """Return the warm-up of the run that was started here; None if none was."""
        return self.training().warmup if self.started else None

    @property
    def of_signals(self) -> bool:
        """Whether the run is of signals."""
        return is_of_signals(self._tables())

    def _tables(self) -> Tables:
        if not self._has_recipe():
            raise FolderError(f"{self.path} is not the folder of a run: it holds no recipe.toml of one")
        return read_tables(self.recipe)

    def _has_recipe(self) -> bool:
        return self.recipe.is_file() and self.recipe.read_bytes().startswith(_HEADER.encode())

    def keep_tokenizers(self, source: TextTokenizer, target: TextTokenizer) -> None:
        """Seal the tokenizers of the run."""
        config = json.dumps(tokenizers_config(source, target), indent=1).encode()
        seal(self.tokenizers, {"config.json": config, **tokenizers_files(source, target)})

    def read_tokenizers(self) -> tuple[TextTokenizer, TextTokenizer]:
        """Return the source and target tokenizers of the run.

        Raises:
            FolderError: they are missing or damaged.
        """
        sealed = open_sealed(self.tokenizers)
        return read_tokenizers(sealed, json.loads(sealed.read("config.json")))

    def keep_classifier(self, classifier: SignalClassifier) -> None:
        """Seal all of a classifier but its weights, which are those of the checkpoints."""
        seal(self.classifier, {"config.json": classifier.config()})

    def read_classifier(self) -> SignalClassifier:
        """Return the classifier of the run, with weights that are not trained yet.

        Raises:
            FolderError: it is missing or damaged.
        """
        return from_config(open_sealed(self.classifier).read("config.json"), self.classifier / "config.json")


def _compared(tables: Tables) -> dict[str, Any]:
    """Return ``section.key`` -> value of the keys that must not change while a run goes on."""
    keys = {
        f"{section}.{key}": value
        for section, table in tables.items()
        if section not in _FREE_SECTIONS
        for key, value in table.items()
        if key not in _FREE.get(section, ())
    }
    if corpora := keys.get("data.corpora"):
        defaults = {item.name: item.default for item in fields(Corpus) if item.default is not None}
        keys["data.corpora"] = [
            {key: value for key, value in (defaults | corpus).items() if key not in _PATHS_OF_CORPORA}
            for corpus in corpora
        ]
    return keys
