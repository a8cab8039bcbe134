"""What ids add to a text: joined, spellings are what ``decode`` gives; unknown tokens can be filled in."""

from __future__ import annotations

import pytest

from regard.data import HuggingFaceTokenizer, train_exact, train_sentencepiece
from regard.data.tokenizers.base import TextTokenizer
from regard.errors import InputError
from regard.protocols import UNK
from unit.data.nasty import NASTY
from unit.data.tokenizers.test_huggingface import byte_level, word_level

TEXT = ["the dog  runs", "a cat é sees 水"]


def tokenizers() -> list[TextTokenizer]:
    pieces = [*TEXT * 5, "".join(TEXT)]
    return [
        train_exact("char", TEXT, tags=["de"]),
        train_exact("word", TEXT),
        train_exact("byte", []),
        train_sentencepiece(pieces, vocab_size=290, exact_size=False).tokenizer,
        train_sentencepiece(pieces, vocab_size=40, exact_size=False, byte_fallback=False, tags=["de"]).tokenizer,
        train_sentencepiece(pieces, vocab_size=290, exact_size=False, model_type="bpe").tokenizer,
        HuggingFaceTokenizer(byte_level()),
        HuggingFaceTokenizer(word_level([])),
    ]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda one: one.kind)
def test_spellings_joined_are_the_text(tokenizer: TextTokenizer) -> None:
    assert len(tokenizer.spellings) == len(tokenizer)
    for text in ["the dog", " runs  the", *TEXT, *(line for line in NASTY if len(line) < 100)]:
        ids = [i for i in tokenizer.encode(text) if i != UNK]
        assert tokenizer.fill(ids, []) == tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=lambda one: one.kind)
def test_what_is_settled_begins_whatever_follows(tokenizer: TextTokenizer) -> None:
    for text in [*TEXT, *(line for line in NASTY if len(line) < 100)]:
        ids = tokenizer.encode(text)
        for length in range(len(ids) + 1):
            assert tokenizer.decode(ids).startswith(tokenizer.settled(ids[:length]))


@pytest.mark.parametrize(
    ("place", "text"), [(0, "the ONETWO dog"), (1, "the ONE dog"), (4, "the ONE dog"), (7, "the ONE dog")]
)
def test_unknown_tokens_are_filled_in(place: int, text: str) -> None:
    tokenizer = tokenizers()[place]
    ids = tokenizer.encode("the qq dog")
    assert ids.count(UNK) and tokenizer.fill(ids, ["ONE", "TWO"]) == text
    assert tokenizer.fill([UNK], ["ONE"]) == "ONE"


def test_ids_of_no_vocabulary_are_refused() -> None:
    tokenizer = tokenizers()[0]
    with pytest.raises(InputError, match="ids must be from 0 to"):
        tokenizer.pieces([len(tokenizer)])
    with pytest.raises(InputError, match="one is -1"):
        tokenizer.pieces([5, -1])
