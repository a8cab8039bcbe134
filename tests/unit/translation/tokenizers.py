"""Small tokenizers of several kinds over the same few words, for controls that look at spellings."""

from __future__ import annotations

from regard.data import train_exact, train_sentencepiece
from regard.data.tokenizers.base import TextTokenizer

WORDS = "ab abc ba é éa b. a,b 水 水a"


def subwords() -> TextTokenizer:
    return train_sentencepiece([WORDS, "abc ab a b ."] * 7, vocab_size=300, exact_size=False).tokenizer


def characters() -> TextTokenizer:
    return train_exact("char", ["ab .,é水"])
