"""Forced phrases: always there where possible, placed well, and said where impossible."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.generation import ForcedPhrases, SearchOptions, Suppress, beam_search, generate
from regard.protocols import EOS
from unit.generation.toys import TableDecoder, every_sentence, forced, padded, random_sources

DECODER = TableDecoder(vocab=13)
SOURCES = random_sources(23, seed=5)


def random_phrases(seed: int) -> dict[int, list[tuple[int, ...]]]:
    draw = np.random.default_rng(seed)
    return {
        index: [tuple(draw.integers(4, 13, size=draw.integers(1, 4)).tolist()) for _ in range(draw.integers(1, 4))]
        for index in range(0, 23, 2)
    }


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_phrases_are_always_met(beam: int) -> None:
    """At most 3 phrases of 3 words: 9 words suffice, and 9 is the limit."""
    for seed in range(2):
        phrases = ForcedPhrases(random_phrases(seed))
        options = SearchOptions(beam=beam, nbest=beam, max_length=9)
        for index, hypotheses in enumerate(beam_search(DECODER, *padded(SOURCES), options, phrases=phrases)):
            assert len({h.ids for h in hypotheses}) == len(hypotheses)
            assert phrases.missing(index, hypotheses[0].ids) == []
            for h in hypotheses:
                assert [*h.missing] == phrases.missing(index, h.ids)
                assert not (h.finished and h.missing)
                targets = [*h.ids, EOS] if h.finished else [*h.ids]
                assert h.log_prob == pytest.approx(math.fsum(forced(DECODER, SOURCES[index], targets)), abs=1e-5)


def test_sentences_without_phrases_are_searched_as_always() -> None:
    options = SearchOptions(beam=3, nbest=3)
    phrases = ForcedPhrases(random_phrases(7))
    found = beam_search(DECODER, *padded(SOURCES), options, phrases=phrases)
    assert found[1::2] == beam_search(DECODER, *padded(SOURCES), options)[1::2]


def test_a_wide_beam_places_the_phrase_where_it_is_best() -> None:
    decoder, source = TableDecoder(), (5, 9, EOS)
    phrase = (6, 4)
    options = SearchOptions(beam=2000, max_length=4, score="sum")
    phrases = ForcedPhrases({0: [phrase]})
    ((best,),) = beam_search(decoder, torch.tensor([source]), None, options, phrases=phrases)
    sums = {
        ids: math.fsum(parts)
        for ids, parts in every_sentence(decoder, source, 4).items()
        if phrase in {ids[start : start + 2] for start in range(len(ids))}
    }
    assert best.ids == max(sums, key=lambda ids: sums[ids])


def test_what_is_impossible_is_said() -> None:
    phrases = ForcedPhrases({0: [(6, 4, 5), (7, 8)]})
    source = torch.tensor([[5, EOS]])
    ((best,),) = beam_search(DECODER, source, None, SearchOptions(max_length=4), phrases=phrases)
    assert not best.finished
    assert phrases.missing(0, best.ids) == [(6, 4, 5)] or phrases.missing(0, best.ids) == [(7, 8)]
    never = Suppress((8,))
    ((best,),) = beam_search(DECODER, source, None, SearchOptions(max_length=9), controls=[never], phrases=phrases)
    assert phrases.missing(0, best.ids) == [(7, 8)]


def test_overlapping_and_repeating_phrases() -> None:
    """`5 5 6` after `5 5 5` has begun again, and `6 7` shares a word with it."""
    phrases = ForcedPhrases({0: [(5, 5, 6), (6, 7), (5, 5, 6)]})
    assert phrases.missing(0, (5, 5, 5, 6, 7)) == []
    assert phrases.missing(0, (5, 6, 7)) == [(5, 5, 6)]
    assert phrases.missing(9, ()) == []
    options = SearchOptions(beam=2, max_length=5)
    for source in SOURCES:
        ((best,),) = beam_search(DECODER, torch.tensor([source]), None, options, phrases=phrases)
        assert phrases.missing(0, best.ids) == []


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="sentence 4 must be a sequence of words"):
        ForcedPhrases({4: [(5, EOS)]})
    with pytest.raises(InputError, match="sentence 4"):
        ForcedPhrases({4: [()]})
    source = torch.tensor([[5, EOS]])
    with pytest.raises(InputError, match="diverse groups"):
        beam_search(DECODER, source, None, SearchOptions(beam=4, groups=2), phrases=ForcedPhrases({0: [(5,)]}))
    from regard.generation import SamplingOptions

    with pytest.raises(InputError, match="sampling"):
        generate(DECODER, source, None, SearchOptions(sampling=SamplingOptions()), phrases=ForcedPhrases({0: [(5,)]}))
