"""From a recipe to what training needs: text, tokenizers, batches, and something to validate with."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from regard.bundle import describe_bundle
from regard.data import (
    EncodedCorpus,
    FilterOptions,
    RawCorpus,
    TextTokenizer,
    TokenBatches,
    build_tokenizers,
    encode_corpus,
    hold_out,
    open_raw,
)
from regard.runs.recipes.plan import Plan
from regard.runs.recipes.recipe import Recipe
from regard.runs.recipes.tables import in_folder
from regard.runs.saying import Say
from regard.runs.text_set import TextSet, read_set, set_files
from regard.runs.training.folder import RunFolder
from regard.training.distributed import ALONE, Ranks


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


def read_text(asked: Plan, folder: RunFolder, say: Say) -> RawCorpus:
    """Read the training text of a run, unless its cache has it, and tell what is of which corpus."""
    say(f"reading {asked.files_in_words()} …")
    raw = open_raw(asked.corpora(), folder.cache, temperature=asked.given.data.temperature)
    for sentence in asked.corpora_in_words(raw):
        say(sentence)
    return raw


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
        source_tokenizer=source,
        target_tokenizer=target,
        batches=_batches(recipe, corpus, ranks, shuffle=True),
        valid_batches=_batches(recipe, valid, ranks, shuffle=False),
        valid_text=text.first(options.valid_lines),
        corpus=corpus,
        valid_corpus=valid,
    )


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
