"""Unknown tokens of an output become what the model looked at."""

from __future__ import annotations

import torch

from regard.data import train_exact, train_sentencepiece
from regard.protocols import EOS, UNK
from regard.translation.unknown import known_by

WORDS = train_exact("word", ["the dog runs fast"])
LETTERS = train_exact("char", ["the dog"])


def looks(*places: int, width: int) -> torch.Tensor:
    return torch.eye(width)[list(places)]


def test_a_word_becomes_what_the_dictionary_has_or_a_copy() -> None:
    text = "the  Mississippi runs"  # two spaces: an empty word, which is no word of an alignment
    source = [*WORDS.encode(text), EOS]
    assert source.count(UNK) == 2 if "" not in WORDS.encode("") else True
    target = [UNK, 7, UNK]
    attention = looks(2, 0, 0, width=len(source))
    found = known_by(attention, target, source, text, WORDS, {"the": "der"}, whole_words=True)
    assert found == ["Mississippi", "der"]
    assert WORDS.fill([UNK, 5, UNK], found).startswith("Mississippi ")


def test_letters_come_from_the_unknown_letter_looked_at_most() -> None:
    text = "thé dög"
    source = [*LETTERS.encode(text), EOS]
    attention = torch.tensor([[0.5, 0.0, 0.1, 0.0, 0.0, 0.2, 0.0, 0.2], [0.5, 0.0, 0.2, 0.0, 0.0, 0.1, 0.0, 0.2]])
    assert known_by(attention, [UNK, UNK], source, text, LETTERS, {}, whole_words=False) == ["ö", "é"]
    known = [*LETTERS.encode("the"), EOS]
    assert known_by(attention[:1, :4], [UNK], known, "the", LETTERS, {"t": "T"}, whole_words=False) == ["T"]


def test_runs_of_unknown_letters_in_subwords() -> None:
    subwords = train_sentencepiece(["the dog runs"] * 9, vocab_size=30, exact_size=False, byte_fallback=False).tokenizer
    text = "the 水火 dog"
    source = [*subwords.encode(text), EOS]
    place = source.index(UNK)
    found = known_by(looks(place, width=len(source)), [UNK], source, text, subwords, {}, whole_words=False)
    assert found == ["水火"]
    assert subwords.fill(source, found) == text


def test_nothing_to_look_at_gives_nothing() -> None:
    assert known_by(torch.zeros(1, 1), [UNK], [EOS], "", WORDS, {}, whole_words=True) == [""]
    assert known_by(torch.zeros(1, 1), [UNK], [EOS], "", LETTERS, {}, whole_words=False) == [""]
