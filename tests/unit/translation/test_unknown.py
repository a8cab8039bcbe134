"""Unknown tokens of an output become what the model looked at."""

from __future__ import annotations

import torch

from regard.data import train_exact, train_sentencepiece
from regard.data.tokenizers.base import TextTokenizer
from regard.inspection import word_spans
from regard.protocols import UNK
from regard.translation import Request, Source, read
from regard.translation.unknown import known_by, spelled_source, surfaces

WORDS = train_exact("word", ["the dog runs fast"])
LETTERS = train_exact("char", ["the dog"])


def looks(*places: int, width: int) -> torch.Tensor:
    return torch.eye(width)[list(places)]


def read_by(tokenizer: TextTokenizer, text: str) -> Source:
    return read(Request(text), tokenizer, 99)


def test_a_word_becomes_what_the_dictionary_has_or_a_copy() -> None:
    source = read_by(WORDS, "the  Mississippi runs")  # two spaces: an empty word to the tokenizer, none to a reader
    assert source.unknown == 2 and len(source.ids) == 5
    target = [UNK, 7, UNK]
    found = known_by(looks(2, 0, 0, width=5), target, source, WORDS, {"the": "der"}, whole_words=True)
    assert found == ["Mississippi", "der"]
    assert WORDS.fill([UNK, 4, UNK], found) == "Mississippi dog der"
    assert word_spans(spelled_source(WORDS, source)) == [[0], [2], [3]]


def test_letters_come_from_the_unknown_letter_looked_at_most() -> None:
    source = read_by(LETTERS, "thé dög")
    attention = torch.tensor([[0.5, 0.0, 0.1, 0.0, 0.0, 0.2, 0.0, 0.2], [0.5, 0.0, 0.2, 0.0, 0.0, 0.1, 0.0, 0.2]])
    assert known_by(attention, [UNK, UNK], source, LETTERS, {}, whole_words=False) == ["ö", "é"]
    known = read_by(LETTERS, "the")
    assert known_by(attention[:1, :4], [UNK], known, LETTERS, {"t": "T"}, whole_words=False) == ["T"]


def test_runs_of_unknown_letters_in_subwords() -> None:
    subwords = train_sentencepiece(["the dog runs"] * 9, vocab_size=30, exact_size=False, byte_fallback=False).tokenizer
    source = read_by(subwords, "the 水火 dog 土")
    places = [place for place, token in enumerate(source.ids) if token == UNK]
    attention = looks(*places, width=len(source.ids))
    found = known_by(attention, [UNK, UNK], source, subwords, {}, whole_words=False)
    assert found == ["水火", "土"]
    assert subwords.fill(source.ids, found) == source.text
    assert len(word_spans(spelled_source(subwords, source))) == 4


def test_a_text_that_was_cut_is_read_as_far_as_it_goes() -> None:
    source = read(Request("thé dög"), LETTERS, 3)
    assert surfaces(LETTERS, source)[:3] == ["t", "h", "é"]


def test_nothing_to_look_at_gives_nothing() -> None:
    for tokenizer, whole in ((WORDS, True), (LETTERS, False)):
        assert known_by(torch.zeros(1, 1), [UNK], read_by(tokenizer, ""), tokenizer, {}, whole_words=whole) == [""]
