"""Forced phrases: in every output as whole words, where tokens are words or parts of them."""

from __future__ import annotations

import pytest

from regard.data.tokenizers.base import TextTokenizer
from regard.generation import ForcedPhrases, SearchOptions, generate
from regard.protocols import EOS
from regard.translation.whole_phrases import WholePhrases
from regard.translation.words import occurrences
from unit.generation.toys import TableDecoder, padded, random_sources
from unit.translation.tokenizers import WORDS, characters, subwords


def outputs(tokenizer: TextTokenizer, phrase: str, seed: int, *, whole: bool) -> list[str]:
    """Return what a random model answers that likes letters best, so that words go on and on."""
    decoder = TableDecoder(vocab=len(tokenizer), seed=seed, spread=2.5)
    decoder.table[:, [1]] = -99.0
    decoder.table[:, [*tokenizer.encode(WORDS), EOS]] += 6.0
    decoder.table[:, [i for i, spelled in enumerate(tokenizer.spellings) if spelled in (b"a", b"b", b"c")]] += 4.0
    forced = {sentence: [tuple(tokenizer.encode(phrase))] for sentence in range(13)}
    source, lengths = padded(random_sources(13, seed=seed))
    found = generate(
        decoder,
        source,
        lengths,
        SearchOptions(beam=5, max_length=11, max_length_margin=11),
        controls=[WholePhrases(tokenizer.spellings, forced)] if whole else [],
        phrases=ForcedPhrases(forced),
    )
    return [tokenizer.decode(best.ids) for best, *_ in found if not best.missing]


@pytest.mark.parametrize("phrase", ["ab", "é", "ba b"])
def test_a_forced_phrase_is_whole_words(phrase: str) -> None:
    for seed in range(3):
        texts = outputs(subwords(), phrase, seed, whole=True)
        assert len(texts) >= 12  # the model's own end may come first now and then
        assert all([*occurrences(phrase, text)] for text in texts), texts


def test_without_the_control_it_may_be_a_part_of_one() -> None:
    texts = [text for seed in range(3) for text in outputs(subwords(), "ab", seed, whole=False)]
    assert not all([*occurrences("ab", text)] for text in texts)


def test_where_letters_are_the_tokens_a_phrase_may_stand_anywhere() -> None:
    free, bound = (outputs(characters(), "ab", 0, whole=whole) for whole in (False, True))
    assert free == bound and not all([*occurrences("ab", text)] for text in free)


def test_a_script_without_spaces_has_no_parts_of_words() -> None:
    free, bound = (outputs(subwords(), "水", 0, whole=whole) for whole in (False, True))
    assert free == bound
