"""Which tokenizer, and how large? The recipe's table ``[tokenizer]``, and how large if nobody says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from regard.errors import refuse

Kind = Literal["sentencepiece", "char", "word", "byte"]

_LEAST_COVERAGE = 0.98  # below, sentencepiece refuses


@dataclass(frozen=True)
class TokenizerOptions:
    """How text becomes ids.

    Attributes:
        kind: ``sentencepiece`` (subwords, trained on the training text), or exact ``char``, ``word`` (split at single
            spaces) or ``byte``.
        target_kind: the same for the target side when it differs, as for letters to phones; left out, ``kind``.
        joint: one vocabulary for both sides (needed to tie all embeddings), else one a side.
        vocab_size: ids of each vocabulary, specials included; left out, what `vocabulary_size` gives for the amount of
            text with sentencepiece, and all that occur with char and word.
        model_type: ``unigram`` (Kudo 2018) or ``bpe`` (Sennrich et al. 2016); for sentencepiece only.
        normalization: ``identity`` keeps every character; ``nfkc`` unifies composed, wide and compatibility forms.
        character_coverage: share of the characters of the text that get a piece of their own, from 0.98 to 1.
        byte_fallback: spell other characters by their UTF-8 bytes (256 ids), so that nothing is unknown.
        min_frequency: for char and word, rarer ones become unknown.
        max_training_lines: sentencepiece learns from this many lines, drawn evenly from longer text.
        source_model: one's own vocabulary for the source, instead of training one: a sentencepiece ``.model``, a
            Hugging Face ``.json`` (extra ``hf``), or a list, one entry a line, of the words or characters of ``kind``.
        target_model: the same for the target; with ``joint``, ``source_model`` serves both.
    """

    kind: Kind = "sentencepiece"
    target_kind: Kind | None = None
    joint: bool = False
    vocab_size: int | None = None
    model_type: Literal["unigram", "bpe"] = "unigram"
    normalization: Literal["identity", "nfkc"] = "identity"
    character_coverage: float = 0.9995
    byte_fallback: bool = True
    min_frequency: int = 1
    max_training_lines: int = 5_000_000
    source_model: str | None = None
    target_model: str | None = None

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        if self.vocab_size is not None and not 5 <= self.vocab_size <= 1_000_000:
            yield f"`vocab_size` must be from 5 to 1,000,000, but is {self.vocab_size}"
        if not _LEAST_COVERAGE <= self.character_coverage <= 1:
            yield (f"`character_coverage` must be from {_LEAST_COVERAGE} to 1, but is {self.character_coverage}")
        for name in ("min_frequency", "max_training_lines"):
            if getattr(self, name) < 1:
                yield f"`{name}` must be at least 1, but is {getattr(self, name)}"
        if self.joint and self.target_kind not in (None, self.kind):
            yield f"`joint` means one kind for both sides, but `target_kind` is {self.target_kind!r}"
        if self.joint and self.target_model is not None:
            yield "`joint` means one vocabulary for both sides, so give `source_model` only"


def vocabulary_size(characters: int) -> int:
    """Return a subword vocabulary size for this much training text.

    ``40 · w^0.4`` for w words of five characters, to the nearest 500, from 1,000 to 32,000: about 2,500 for a book
    chapter, 6,500 for 29,000 picture captions, 19,000 for 200,000 news sentences. The exponent follows the growth
    of a vocabulary with text (Heaps' law gives 0.4-0.6); the ends are those in common use.
    """
    size: float = 40 * (characters / 5) ** 0.4
    return min(max(round(size / 500) * 500, 1000), 32_000)
