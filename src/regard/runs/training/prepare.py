"""From a recipe to what training needs: text, tokenizers, batches, and something to validate with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.bundle import describe_bundle
from regard.data import (
    CorpusFiles,
    EncodedCorpus,
    FilterOptions,
    Pair,
    RawCorpus,
    TextTokenizer,
    TokenBatches,
    build_tokenizers,
    encode_corpus,
    hold_out,
    open_raw,
    read_lines,
)
from regard.errors import DataError
from regard.runs.recipes.recipe import DataOptions, Recipe, in_folder, listed
from regard.runs.training.folder import RunFolder
from regard.training.distributed import ALONE, Ranks

Say = Callable[[str], None]
"""Tells the user something, outside of the results."""


def say_on_stderr(sentence: str) -> None:
    """Print a sentence where results do not go."""
    print(sentence, file=sys.stderr, flush=True)


def say_nothing(sentence: str) -> None:
    """Keep quiet."""


@dataclass(frozen=True)
class TextSet:
    """Lines to translate, and what each may become.

    Attributes:
        sources: one line each.
        references: the right answers to each, one or several.
        tags: what stands before each source, or ``""``.
    """

    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    tags: Sequence[str]

    def first(self, limit: int) -> TextSet:
        """Return the first ``limit`` lines."""
        return TextSet(self.sources[:limit], self.references[:limit], self.tags[:limit])

    @classmethod
    def of(cls, pairs: Iterator[Pair], *, several_answers: bool) -> TextSet:
        """Collect pairs; with ``several_answers`` those of one source (and tag) are answers to one line."""
        answers: dict[tuple[str, str, int], dict[str, None]] = {}
        for row, pair in enumerate(pairs):
            answers.setdefault((pair.source, pair.tag, 0 if several_answers else row), {})[pair.target] = None
        return cls(
            [source for source, _, _ in answers],
            [tuple(targets) for targets in answers.values()],
            [tag for _, tag, _ in answers],
        )


@dataclass(frozen=True)
class Prepared:
    """What training needs.

    Attributes:
        source_tokenizer: of the source side.
        target_tokenizer: of the target side.
        batches: to learn from.
        valid_batches: to take the validation loss over.
        valid_text: to translate for validation.
        corpus: the examples that ``batches`` are made of.
        valid_corpus: those of ``valid_batches``.
    """

    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer
    batches: TokenBatches
    valid_batches: TokenBatches
    valid_text: TextSet
    corpus: EncodedCorpus
    valid_corpus: EncodedCorpus


def prepare(recipe: Recipe, raw: RawCorpus, folder: RunFolder, data: Path, say: Say, ranks: Ranks = ALONE) -> Prepared:
    """Divide, tokenize, filter and batch the text of a run; what an earlier run has made of it is used again.

    Args:
        recipe: with every key in effect.
        raw: the training text.
        folder: of the run.
        data: where relative paths start.
        say: told what was done.
        ranks: the processes of the run, of which the first must have been here before the others come.

    Raises:
        DataError: the text cannot be used.
    """
    options = recipe.data
    rows = None
    valid_files = set_files(options, "valid", data)
    if valid_files is None:
        split = hold_out(raw)
        say(f"no validation files: {split.sentence()}")
        rows, valid_raw, valid_rows = split.train, raw, split.held_out
        text = TextSet.of(raw.pairs(valid_rows), several_answers=options.several_answers)
    else:
        valid_raw, valid_rows = open_raw([valid_files], folder.cache), None
        text = read_set(options, "valid", data)

    init = recipe.training.init
    if folder.started or not ranks.is_first:
        source, target = folder.read_tokenizers()
    elif init is not None and recipe.training.init_vocabulary == "keep":
        about = describe_bundle(init)
        source, target = about.source_tokenizer, about.target_tokenizer
        folder.keep_tokenizers(source, target)
    else:
        made = build_tokenizers(
            replace(
                recipe.tokenizer,
                source_model=_own(data, recipe.tokenizer.source_model),
                target_model=_own(data, recipe.tokenizer.target_model),
            ),
            lambda: raw.source_lines(rows),
            lambda: raw.target_lines(rows),
            tags=raw.tags,
        )
        source, target = made.source, made.target
        for sentence in made.sentences:
            say(sentence)
        folder.keep_tokenizers(source, target)

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    corpus = encode_corpus(raw, source, target, folder.cache, filters=options.filters, rows=rows, workers=cores)
    say(corpus.report.sentence())
    lenient = FilterOptions(options.filters.max_source_length, options.filters.max_target_length, keep_empty=True)
    valid = encode_corpus(valid_raw, source, target, folder.cache, filters=lenient, rows=valid_rows)
    return Prepared(
        source,
        target,
        _batches(recipe, corpus, ranks, shuffle=True),
        _batches(recipe, valid, ranks, shuffle=False),
        text.first(options.valid_lines),
        corpus,
        valid,
    )


def set_files(options: DataOptions, name: Literal["valid", "test"], data: Path) -> CorpusFiles | None:
    """Return where the pairs of the validation or test set are, with the first reference; None if not given."""
    source, targets, pairs = (getattr(options, f"{name}_{side}") for side in ("source", "target", "pairs"))
    if pairs is not None:
        files = CorpusFiles(in_folder(data, pairs))
        return replace(files, columns=options.columns) if files.format == "tsv" else files
    if source is not None:
        return CorpusFiles(in_folder(data, source), in_folder(data, listed(targets)[0]))
    return None


def read_set(options: DataOptions, name: Literal["valid", "test"], data: Path) -> TextSet:
    """Read the validation or test set.

    Raises:
        DataError: a file cannot be used, or files have unequal lengths.
    """
    files = set_files(options, name, data)
    if files is None:
        raise DataError(
            f"the recipe names no {name} files: {name}_source and {name}_target, or {name}_pairs, in [data]"
        )
    if files.target is None or options.several_answers:
        return TextSet.of(files.read(), several_answers=options.several_answers)
    return read_aligned(files.source, [in_folder(data, path) for path in listed(getattr(options, f"{name}_target"))])


def read_aligned(source: str, references: Sequence[str]) -> TextSet:
    """Read source lines and one or more files of references, all aligned line by line.

    Raises:
        DataError: a file cannot be used, or their numbers of lines differ.
    """
    paths = [source, *references]
    columns = [list(read_lines(path)) for path in paths]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path} has {len(column):,}" for path, column in zip(paths, columns, strict=True))
        raise DataError(f"the files have unequal numbers of lines: {counts}; line i of each must belong together")
    sources, *answers = columns
    return TextSet(sources, list(zip(*answers, strict=True)), [""] * len(sources))


def _own(data: Path, vocabulary: str | None) -> str | None:
    return None if vocabulary is None else in_folder(data, vocabulary)


def _batches(recipe: Recipe, corpus: EncodedCorpus, ranks: Ranks, *, shuffle: bool) -> TokenBatches:
    training = recipe.training
    return TokenBatches(
        corpus,
        max_tokens=training.max_tokens,
        max_sentences=training.max_sentences,
        seed=training.seed,
        shuffle=shuffle,
        noise=recipe.data.noise if shuffle else None,
        workers=recipe.data.workers if shuffle else 0,
        share=(ranks.rank, ranks.world),
        together=training.accumulate if shuffle else ranks.world,
    )
