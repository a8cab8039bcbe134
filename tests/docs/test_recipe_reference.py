"""docs/guide/recipe.md lists every key of a recipe, as the options' own docstrings describe them."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path

from regard.data import FilterOptions, NoiseOptions, TokenizerOptions
from regard.evaluation import EvaluationOptions
from regard.generation import SamplingOptions, SearchOptions
from regard.models import ClassifierSpec, Dropout, TransformerSpec
from regard.runs.recipes.recipe import Corpus, DataOptions
from regard.runs.recipes.signal_recipe import SignalData
from regard.signals.augmentation import AugmentOptions
from regard.signals.synthetic import Modulations, Tones
from regard.training import TrainingOptions

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "recipe.md"
TABLES = {
    "[data]": DataOptions,
    "[[data.corpora]]": Corpus,
    "[data.filters]": FilterOptions,
    "[data.noise]": NoiseOptions,
    "[tokenizer]": TokenizerOptions,
    "[model]": TransformerSpec,
    "[model.dropout]": Dropout,
    "[training]": TrainingOptions,
    "[generation]": SearchOptions,
    "[generation.sampling]": SamplingOptions,
    "[evaluation]": EvaluationOptions,
}
SIGNAL_TABLES = {
    "[data] of signals": SignalData,
    "[data.augment]": AugmentOptions,
    "[data.tones]": Tones,
    "[data.modulations]": Modulations,
    "[model] of signals": ClassifierSpec,
}
HEAD = """# Every key of a recipe

[Guide](en.md)

A recipe is a TOML file of these tables. Whatever is left out has the default given here, or one that fits the size of
the text; `regard train` says what it chose. `[model]` also takes `preset`: `tiny`, `small`, `base` or `big`; the
defaults below are those of `base`. `positions` may also be a table with options of its kind, such as
`positions = {kind = "rotary", base = 10000.0}`.

"""
SIGNALS = """# Recipes of signals

With `kind = "signals"` in `[data]` a recipe trains a classifier of sequences of numbers. It has the tables below, in
`[model]` also [`[model.dropout]`](#modeldropout), and `[training]`, where `max_tokens`, `max_sentences`, `init`,
`init_vocabulary` and `shard` have no meaning and `metric` is `loss`, `accuracy`, `balanced_accuracy` or `macro_f1`.
What is left out of `[training]` is chosen to fit the number of cases. `max_len`, left out, is twice the longest case,
and at least 64.

"""


def described(options: type) -> dict[str, str]:
    """Return attribute -> description from the ``Attributes:`` section of a docstring."""
    section = (options.__doc__ or "").partition("Attributes:")[2]
    entries = re.split(r"\n {8}(?=\w+: )", section)
    found = {}
    for entry in entries[1:]:
        name, _, text = entry.partition(": ")
        found[name] = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
    return found


def default(item: Field) -> str:
    if item.default is not MISSING:
        return "" if item.default is None else f"`{json.dumps(item.default)}`"  # which is TOML, for what options hold
    kind = None if item.default_factory is MISSING else getattr(item.default_factory(), "kind", None)
    return f"`{json.dumps(kind)}`" if kind else ""


def page() -> str:
    text = HEAD
    for title, options in {**TABLES, **SIGNAL_TABLES}.items():
        text += SIGNALS if options is SignalData else ""
        words = described(options)
        text += f"## `{title}`\n\n| key | default | what |\n|---|---|---|\n"
        for item in fields(options):
            if item.name in ("source_vocab", "target_vocab", "num_classes", "num_features"):
                continue
            assert item.name in words, f"{options.__name__}.{item.name} is not described"
            depends = options is ClassifierSpec and item.name == "max_len"  # on the cases, in a recipe
            text += f"| `{item.name}` | {'' if depends else default(item)} | {words[item.name]} |\n"
        text += "\n"
    return text.rstrip("\n") + "\n"


def test_the_page_lists_every_key() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "out of date; run: python tests/docs/test_recipe_reference.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
