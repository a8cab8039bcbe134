"""Forbidden phrases: absent from the text as whole words, however tokens spell them; everything else is allowed."""

from __future__ import annotations

import re

import pytest

from regard.data import train_exact
from regard.data.tokenizers.base import TextTokenizer
from regard.errors import InputError
from regard.generation import SearchOptions, generate
from regard.protocols import EOS
from regard.translation.forbidden import ForbiddenText
from unit.generation.toys import TableDecoder, padded, random_sources
from unit.translation.tokenizers import WORDS, characters, subwords

TOKENIZERS = [subwords(), characters(), train_exact("word", [f"{WORDS} a b"]), train_exact("byte", [])]
PHRASES = ["ab", "é", "a b", "b.", "水"]


def stands_in(phrase: str, text: str) -> bool:
    """An oracle of another make: a regular expression with edges where a letter of a spaced script would join."""
    before = r"(?<![^\W水])" if re.match(r"\w", phrase[0]) and phrase[0] != "水" else ""
    after = r"(?![^\W水])" if re.match(r"\w", phrase[-1]) and phrase[-1] != "水" else ""
    return re.search(before + re.escape(phrase) + after, text) is not None


def outputs(tokenizer: TextTokenizer, phrases: dict[int, list[str]], seed: int, beam: int) -> list[str]:
    decoder = TableDecoder(vocab=len(tokenizer), seed=seed, spread=2.5)
    decoder.table[:, [1]] = -99.0
    if len(tokenizer) > 200:  # the few words of the phrases are likelier than bytes that nobody wants
        likely = [*tokenizer.encode(WORDS), EOS]
        decoder.table[:, likely] += 6.0
    options = SearchOptions(beam=beam, nbest=beam, max_length=9, max_length_margin=9)
    source, lengths = padded(random_sources(23, seed=seed))
    control = ForbiddenText(tokenizer.spellings, phrases)
    found = generate(decoder, source, lengths, options, controls=[control])
    return [tokenizer.decode(h.ids) for hypotheses in found for h in hypotheses]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.kind)
def test_no_output_holds_a_phrase_and_without_the_control_some_do(tokenizer: TextTokenizer) -> None:
    met = 0
    for phrase in PHRASES:
        for beam in (1, 4) if len(tokenizer) < 200 else (4,):
            everywhere = {sentence: [phrase] for sentence in range(23)}
            assert not any(stands_in(phrase, text) for text in outputs(tokenizer, everywhere, seed=3, beam=beam))
            met += sum(stands_in(phrase, text) for text in outputs(tokenizer, {}, seed=3, beam=beam))
    assert met > 0  # few of the texts that random bytes make are words


def test_a_longer_word_is_another_word() -> None:
    texts = [text for seed in range(5) for text in outputs(characters(), {s: ["ab"] for s in range(23)}, seed, beam=4)]
    assert any("ab" in text for text in texts) and not any(stands_in("ab", text) for text in texts)


def test_what_follows_an_ending_is_banned_by_hand() -> None:
    tokenizer = characters()
    control = ForbiddenText(tokenizer.spellings, {0: ["ab"]})
    (phrase,) = control._phrases[0]
    spell = lambda text: {tokenizer.pieces([i])[0] if i != EOS else "end" for i in phrase.banned(phrase.ending(text))}  # noqa: E731
    assert (
        spell(b"") == spell(b"a") == spell(b"bab") == spell("éab".encode()) == set()
    )  # the last two began inside a word
    assert spell(b"ab") == spell(b"b ab") == spell("水ab".encode()) == {"end", "␣", ".", ",", "水"}
    assert spell(b"b.a") == set()


def test_sentences_have_their_own_phrases() -> None:
    tokenizer = characters()
    free = outputs(tokenizer, {}, seed=7, beam=1)
    some = outputs(tokenizer, {99: ["a"]}, seed=7, beam=1)
    assert free == some


def test_an_empty_phrase_is_refused() -> None:
    with pytest.raises(InputError, match="at least one letter"):
        ForbiddenText([b"a"], {0: [" "]})


def test_half_a_character_decides_nothing_yet() -> None:
    """After ``ab`` a byte-spelled ``é`` goes on with the word and ``…`` ends it; both begin with a byte above 127."""
    tokenizer = train_exact("byte", [])
    control = ForbiddenText(tokenizer.spellings, {0: ["ab"]})
    (phrase,) = control._phrases[0]
    e_acute, ellipsis = "é".encode(), "…".encode()
    first = tokenizer.encode("é")[0]
    assert first not in phrase.banned(phrase.ending(b"ab"))
    assert tokenizer.spellings.index(e_acute[1:]) not in phrase.banned(phrase.ending(b"ab" + e_acute[:1]))
    assert tokenizer.spellings.index(ellipsis[2:]) in phrase.banned(phrase.ending(b"ab" + ellipsis[:2]))
    assert EOS in phrase.banned(phrase.ending(b"ab" + ellipsis[:2]))
