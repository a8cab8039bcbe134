"""What in the text may be a mistake? Sentences for a person, told before time is spent on it; nothing is refused.

==================  =================================================================================================
looks unsplit       ``word`` tokens, and one word in 20 ends in a punctuation mark, or most long lines have no space
looks cut already   one line in 10 holds the marks of subwords (``@@ `` or ``▁``), and sentencepiece cuts it again
copied              more than half of the pairs have the same text on both sides
unknown             more than 1 % of the tokens of a side are ``<unk>``; or, with byte fallback, spelled by bytes
cut                 more than 1 % of the pairs were left out, or clipped, for their length
swapped             the characters of the validation sources are those of training targets, and the other way round
known to training   more than 1 % of the validation sources are sources of training pairs as well
vocabulary          half of a vocabulary occurs fewer than 3 times, so that nothing can be learned about it
==================  =================================================================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from regard.data import EncodedCorpus, TextTokenizer, TokenizerOptions
from regard.plural import plural
from regard.protocols import SPECIALS, UNK
from regard.runs.copies import doubt_of_copies
from regard.runs.recipes.recipe import Recipe
from regard.runs.training.prepare import Prepared

_LOOKED_AT = 1000  # lines whose text is looked at
_LEAST = 3  # occurrences of a piece below which nothing is learned about it
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_GLUED = re.compile(r"\w[.,;:!?]$")

Side = Literal["source", "target"]


def doubts(prepared: Prepared, recipe: Recipe) -> list[str]:
    """Return a sentence for each thing above that holds, with its figure and what to do."""
    corpus = prepared.corpus
    found: list[str] = []
    pairs = _some_pairs(corpus)
    sides: tuple[tuple[Side, TextTokenizer, list[str]], ...] = (
        ("source", prepared.source_tokenizer, [source for source, _ in pairs]),
        ("target", prepared.target_tokenizer, [target for _, target in pairs]),
    )
    copies = doubt_of_copies(sum(source == target for source, target in pairs), len(pairs))
    found += [copies] if copies else []
    found += _about_order(pairs, _some_pairs(prepared.valid_corpus))
    joint = prepared.source_tokenizer is prepared.target_tokenizer
    together = corpus.counts("source") + corpus.counts("target") if joint else None
    for side, tokenizer, lines in sides:
        found += _about_text(side, tokenizer, lines)
        counts = corpus.counts(side)
        elsewhere = _own_instead(recipe, side)
        fewer_unknown = elsewhere or _more_pieces(recipe.tokenizer, tokenizer.kind)
        for text, numbers in (("training", counts), ("validation", prepared.valid_corpus.counts(side))):
            found += _about_unknown(f"the {side} side of the {text} text", tokenizer, numbers, fewer_unknown)
        if together is None or side == "target":
            name = "joint" if joint else side
            found += _about_vocabulary(name, tokenizer, counts if together is None else together, elsewhere)
    return [*found, *_about_lengths(corpus), *_about_validation(corpus, prepared.valid_corpus)]


def _some_pairs(corpus: EncodedCorpus) -> list[tuple[str, str]]:
    return [corpus.pair(example) for example in range(0, len(corpus), max(1, len(corpus) // _LOOKED_AT))]


def _about_text(side: Side, tokenizer: TextTokenizer, lines: Sequence[str]) -> Iterator[str]:
    words = [word for line in lines for word in line.split()]
    if tokenizer.kind == "word" and words:
        glued = sum(bool(_GLUED.search(word)) for word in words) / len(words)
        long = [line for line in lines if len(line) > 20]
        whole = sum(" " not in line for line in long) / max(len(long), 1)
        if glued > 0.05:
            yield (
                f"the {side} side looks unsplit: {glued:.0%} of its words end in a punctuation mark, which makes "
                'another word of each; split them first, or let tokenizer.kind be "sentencepiece"'
            )
        if len(long) > len(lines) / 4 and whole > 0.5:
            yield (
                f"the {side} side looks unsplit: {whole:.0%} of its long lines have no space, so each is one word; "
                'let tokenizer.kind be "sentencepiece" or "char"'
            )
    marked = sum("@@ " in line or "▁" in line for line in lines) / max(len(lines), 1)
    if tokenizer.kind == "sentencepiece" and marked > 0.1:
        yield (
            f'the {side} side looks cut into pieces already: {marked:.0%} of its lines hold "@@ " or "▁"; give the '
            'text as it was, or let tokenizer.kind be "word"'
        )


def _about_order(pairs: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]]) -> Iterator[str]:
    (source, target), (valid_source, valid_target) = _characters(pairs), _characters(valid)
    straight = _distance(source, valid_source) + _distance(target, valid_target)
    crossed = _distance(target, valid_source) + _distance(source, valid_target)
    if crossed < straight / 2:  # where both sides have the same characters, the two are equal
        yield (
            "the validation text looks swapped: its sources are written in the characters of the training targets, and "
            "its targets in those of the sources; look which of its files is which"
        )


def _characters(pairs: Sequence[tuple[str, str]]) -> tuple[Counter[str], Counter[str]]:
    return Counter("".join(source for source, _ in pairs)), Counter("".join(target for _, target in pairs))


def _distance(one: Counter[str], other: Counter[str]) -> float:
    """Return the total variation between two distributions: 0 for equal ones, 1 for those that share nothing."""
    totals = max(one.total(), 1), max(other.total(), 1)
    return sum(abs(one[key] / totals[0] - other[key] / totals[1]) for key in one | other) / 2


def _own_instead(recipe: Recipe, side: Side) -> str | None:
    """Say how a run whose vocabulary is that of another text gets its own; None if it has one."""
    if recipe.training.init is not None and recipe.training.init_vocabulary == "keep":
        return 'set training.init_vocabulary = "map"'
    key = "source_model" if recipe.tokenizer.joint else f"{side}_model"
    return None if getattr(recipe.tokenizer, key) is None else f"leave out tokenizer.{key}"


def _more_pieces(options: TokenizerOptions, kind: str) -> str:
    """Say how fewer characters or words become unknown."""
    if kind == "sentencepiece":
        return "raise tokenizer.character_coverage"
    remedies = ["raise vocab_size"] if options.vocab_size is not None else []
    remedies += ["lower min_frequency"] if options.min_frequency > 1 else []
    return f"{' or '.join(remedies)} in [tokenizer]" if remedies else 'let tokenizer.kind be "sentencepiece"'


def _about_unknown(where: str, tokenizer: TextTokenizer, counts: npt.NDArray[np.int64], remedy: str) -> Iterator[str]:
    total = max(int(counts.sum()), 1)
    if (share := counts[UNK] / total) > 0.01:
        yield f"{share:.1%} of the tokens of {where} are unknown, and cannot be learned; {remedy}"
    spelled = [i for i, piece in enumerate(tokenizer.pieces(range(len(tokenizer)))) if _BYTE.fullmatch(piece)]
    if tokenizer.kind == "sentencepiece" and spelled and (share := counts[spelled].sum() / total) > 0.01:
        yield (
            f"{share:.1%} of the tokens of {where} are single bytes, for characters that the vocabulary lacks; {remedy}"
        )


def _about_vocabulary(
    side: str, tokenizer: TextTokenizer, counts: npt.NDArray[np.int64], elsewhere: str | None
) -> Iterator[str]:
    names = tokenizer.pieces(range(len(tokenizer)))
    text = np.array([not _BYTE.fullmatch(name) for name in names[len(SPECIALS) :]], dtype=np.bool_)
    occur = counts[len(SPECIALS) :][text]
    if tokenizer.kind != "byte" and len(occur) and (share := float((occur < _LEAST).mean())) > 0.5:
        smaller = "min_frequency = 2" if tokenizer.kind in ("word", "char") else "a smaller vocab_size"
        yield (
            f"the {side} vocabulary is larger than the text supports: {share:.0%} of its {len(occur):,} entries occur "
            f"fewer than {_LEAST} times; {elsewhere or f'set {smaller} in [tokenizer]'}"
        )


def _about_lengths(corpus: EncodedCorpus) -> Iterator[str]:
    report = corpus.report
    for number, what in ((report.clipped, "clipped"), (report.long_source + report.long_target, "left out")):
        if number > report.total / 100:
            yield (
                f"{what}, because a side is longer than data.filters allow: {number:,} of "
                f"{plural(report.total, 'pair')}; raise "
                "max_source_length and max_target_length there (and model.max_len), or split these lines"
            )


def _about_validation(corpus: EncodedCorpus, valid: EncodedCorpus) -> Iterator[str]:
    held_out = valid.source_hashes()
    both = int(np.isin(held_out, corpus.source_hashes()).sum())
    if both > len(held_out) / 100:
        yield (
            f"the training text holds {both:,} of {plural(len(held_out), 'validation source')} too, so that validation "
            "looks better than it is; take them out of one"
        )
