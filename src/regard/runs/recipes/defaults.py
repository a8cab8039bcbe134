"""What is chosen where nobody has chosen? A preset, batches and steps that fit the size of the corpus.

With n pairs and t target tokens (estimated from the text):

===================  ==================================================================================
model.preset         ``tiny`` below 100,000 pairs, ``small`` below 1,000,000, else ``base``
model.residual       ``pre`` and a final norm on both stacks, if no preset was named either: it learns sooner
model.dropout        0.3 below 100,000 pairs, else 0.1
tokenizer.joint      true, with ``model.tie = "all"``, if the tokenizer is sentencepiece on both sides
max_tokens           t / 50, from 1,024 to 4,096 (of 256 the multiple below): small corpora need many updates
updates              as many as 40 passes need below 100,000 pairs, 20 below 1,000,000, else 10; 500 to 100,000
warmup               a tenth of the updates, from 50 to 4,000 and at most a third of them; with ``minutes``, at most 25
                     a minute, and at least 20
validate_every       a twentieth of the updates, at least 50; save_every the same
learning_rate        2e-3 for ``tiny``, 1e-3 for ``small``, 7e-4 for ``base``, 5e-4 for ``big``
===================  ==================================================================================

``updates`` is chosen only when ``epochs``, ``minutes`` and ``patience`` are left out as well; warm-up and validation
follow those that were asked for, if any were. How many fit in a minute nobody knows beforehand; 25 is what a slow
machine makes. A run that goes on for longer keeps the warm-up that it began with. The vocabulary size is chosen by
`regard.data.vocabulary_size`, when the tokenizer is trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.plural import plural
from regard.runs.recipes.tables import Tables
from regard.runs.recipes.toml import toml_value
from regard.training.options import LENGTHS

_CHARACTERS_PER_TOKEN = {"sentencepiece": 4.5, "char": 1.0, "byte": 1.0}
_RATES = {"tiny": 2e-3, "small": 1e-3, "base": 7e-4, "big": 5e-4}
_UPDATES_OF_WARMUP = 25  # for each minute that a run may last


@dataclass(frozen=True)
class Extent:
    """How much text there is to train on.

    Attributes:
        pairs: of lines.
        target_words: words of the target side, parted by spaces.
        target_characters: characters of the target side.
    """

    pairs: int
    target_words: int
    target_characters: int

    @classmethod
    def of(cls, targets: Iterable[str]) -> Extent:
        """Measure the target lines."""
        pairs = words = characters = 0
        for line in targets:
            pairs, words, characters = pairs + 1, words + line.count(" ") + 1, characters + len(line)
        return cls(pairs, words, characters)

    def target_tokens(self, kind: str) -> int:
        """Estimate the target tokens, end marks included, for a kind of tokenizer."""
        per_token = _CHARACTERS_PER_TOKEN.get(kind)
        return self.pairs + (self.target_words if per_token is None else round(self.target_characters / per_token))


def complete(tables: Tables, extent: Extent, *, warmup: int | None = None) -> tuple[Tables, str]:
    """Return ``tables`` with a value for each key above that was left out, and a sentence that says which.

    Args:
        tables: the keys that somebody gave.
        extent: of the training text.
        warmup: of the run that is gone on with, which is kept however long it is to be now.
    """
    tables = {name: dict(table) for name, table in tables.items()}
    chosen: dict[str, Any] = {}

    def choose(section: str, key: str, value: Any) -> None:
        if key not in tables[section]:
            tables[section][key] = chosen[f"{section}.{key}"] = value

    model, tokenizer, training = (tables.setdefault(name, {}) for name in ("model", "tokenizer", "training"))
    size = "tiny" if extent.pairs < 100_000 else "small" if extent.pairs < 1_000_000 else "base"
    norms_are_open = not model.keys() & {"preset", "residual", "encoder_final_norm", "decoder_final_norm"}
    choose("model", "preset", size)
    if norms_are_open:
        choose("model", "residual", "pre")
        choose("model", "encoder_final_norm", True)
        choose("model", "decoder_final_norm", True)
    choose("model", "dropout", 0.3 if size == "tiny" else 0.1)
    kind = tokenizer.get("kind", "sentencepiece")
    one_vocabulary = kind == "sentencepiece" and not tokenizer.keys() & {"target_kind", "source_model", "target_model"}
    if one_vocabulary and "tie" not in model:
        choose("tokenizer", "joint", True)
        if tokenizer["joint"]:
            choose("model", "tie", "all")

    tokens = extent.target_tokens(tokenizer.get("target_kind") or kind)
    choose("training", "max_tokens", min(max(tokens // 50 // 256 * 256, 1024), 4096))
    passes = {"tiny": 40, "small": 20, "base": 10}[size]
    a_pass = tokens / (training["max_tokens"] * training.get("accumulate", 1))
    usual = min(max(round(passes * a_pass / 100) * 100, 500), 100_000)
    if LENGTHS.isdisjoint(training):
        choose("training", "updates", usual)
    asked = [training.get("updates"), training.get("epochs") and math.ceil(training["epochs"] * a_pass)]
    updates = min((number for number in asked if number), default=usual)
    choose("training", "warmup", warmup if warmup is not None else _warmup(updates, training.get("minutes")))
    choose("training", "validate_every", max(updates // 20, 50))
    choose("training", "save_every", training["validate_every"])
    choose("training", "learning_rate", _RATES[model["preset"]])
    measured = f"{plural(extent.pairs, 'pair')}, about {plural(tokens, 'target token')}"
    said = ", ".join(f"{key} = {toml_value(value)}" for key, value in chosen.items())
    return tables, f"{measured}; chosen to fit: {said}" if said else measured


def _warmup(updates: int, minutes: float | None) -> int:
    usual = min(max(updates // 10, 50), 4000, max(updates // 3, 1))
    return usual if minutes is None else min(usual, max(round(_UPDATES_OF_WARMUP * minutes), 20))
