"""What does a model read and write of a sentence and its translation? Ids, with their names and their words.

Axes: S source, T target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError
from regard.inspection.alignment import word_spans
from regard.protocols import BOS, EOS, SPECIALS
from regard.translation import Source
from regard.translation.unknown import spelled_source, spelled_target
from regard.translator import Translator

Spans = Sequence[Sequence[int]]
"""Which places are each word, see `regard.inspection.word_spans`."""


@dataclass
class TextPair:
    """A text, and what the decoder reads and writes for it.

    Attributes:
        translator: Whose ids they are.
        text: The source.
        source_ids: Ended by EOS.
        target_ids: What is written: ended by EOS, unless it was cut.
        given: The target is the text of somebody and not an output, which has nothing for what is unknown.
    """

    translator: Translator
    text: str
    source_ids: list[int]
    target_ids: list[int] = field(default_factory=list)
    given: bool = False

    @classmethod
    def of(cls, translator: Translator, text: str, tag: str = "") -> TextPair:
        """Return a text, after its tag, that nothing is read for yet.

        Raises:
            InputError: It has no token, or more than the model can read.
        """
        ids = translator.source_tokenizer.encode(text)
        if not ids:
            raise InputError("the sentence is empty: give the model something to read")
        pair = cls(translator, text, [*([translator.source_tokenizer.tag_id(tag)] if tag else []), *ids, EOS])
        pair._fits("the sentence", len(pair.source_ids) - 1)
        return pair

    def reads(self, ids: Sequence[int]) -> None:
        """Take an output for the target. Raises InputError when it is empty."""
        if not ids:
            raise InputError("the model writes nothing for this sentence; give --translation to look at one")
        self.target_ids, self.given = list(ids), False

    def reads_text(self, translation: str) -> None:
        """Take a translation for the target. Raises InputError when it has no token, or more than the model writes."""
        ids = self.translator.target_tokenizer.encode(translation)
        if not ids:
            raise InputError("the translation is empty: give the model something to read")
        self._fits("the translation", len(ids))
        self.target_ids, self.given = [*ids, EOS], True

    def _fits(self, what: str, length: int) -> None:
        longest = self.translator.model.spec.max_len - 1  # a mark takes a place on either side
        if length > longest:
            raise InputError(f"{what} has {length:,} tokens, and the model reads at most {longest:,}; shorten it")

    @property
    def source(self) -> Int[Tensor, "1 S"]:
        """What the encoder reads."""
        return torch.tensor([self.source_ids], device=next(self.translator.model.parameters()).device)

    @property
    def target(self) -> Int[Tensor, "1 T"]:
        """What the decoder reads."""
        return torch.tensor([[BOS, *self.target_ids[:-1]]], device=self.source.device)

    def tokens(self) -> dict[str, list[str]]:
        """Return the names of the tokens of ``source`` and ``target``, and of those ``read`` by the decoder."""
        names = self.translator.target_tokenizer.pieces(self.target_ids)
        return {
            "source": self.translator.source_tokenizer.pieces(self.source_ids),
            "target": names,
            "read": [SPECIALS[BOS], *names[:-1]],
        }

    def words(self) -> dict[str, Spans]:
        """Return which tokens are each word of ``source`` and ``target``, as `regard translate --alignments` does."""
        source = Source(self.text, self.source_ids, cut=False)
        spelled = spelled_target(self.translator.target_tokenizer, self.target_ids, filled=self.given)
        return {
            "source": word_spans(spelled_source(self.translator.source_tokenizer, source)),
            "target": word_spans(spelled),
        }
