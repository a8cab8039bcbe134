"""Diverse groups, and a search looked at and stopped between its steps."""

from __future__ import annotations

import math

import pytest
import torch

from regard.errors import RecipeError
from regard.generation import BeamSearch, SearchOptions, beam_search
from regard.protocols import EOS
from unit.generation.toys import TableDecoder, forced, padded, random_sources

DECODER = TableDecoder(vocab=17)
SOURCES = random_sources(19, seed=6)


def test_groups_differ_from_the_first_word_on() -> None:
    """A diversity above all gaps: no two of the three groups begin alike."""
    options = SearchOptions(beam=6, nbest=6, groups=3, diversity=100.0, max_length=7)
    for source, hypotheses in zip(SOURCES, beam_search(DECODER, *padded(SOURCES), options), strict=True):
        assert len({h.ids for h in hypotheses}) == len(hypotheses)
        assert len({h.ids[:1] for h in hypotheses}) >= 3
        assert [h.score for h in hypotheses if h.finished] == sorted(h.score for h in hypotheses if h.finished)[::-1]
        for h in hypotheses:
            targets = [*h.ids, EOS] if h.finished else [*h.ids]
            assert h.log_prob == pytest.approx(math.fsum(forced(DECODER, source, targets)), abs=1e-5)


def test_without_diversity_each_group_is_the_same_narrow_beam() -> None:
    grouped = beam_search(DECODER, *padded(SOURCES), SearchOptions(beam=6, nbest=2, groups=3, diversity=0.0))
    assert grouped == beam_search(DECODER, *padded(SOURCES), SearchOptions(beam=2, nbest=2))


def test_groups_do_not_depend_on_the_batch() -> None:
    options = SearchOptions(beam=6, nbest=6, groups=2, diversity=0.7)
    together = beam_search(DECODER, *padded(SOURCES), options)
    assert together == [beam_search(DECODER, torch.tensor([source]), None, options)[0] for source in SOURCES]


def test_groups_must_divide_the_beam() -> None:
    with pytest.raises(RecipeError, match=r"`generation\.groups` must divide `generation\.beam`, 5, but is 2"):
        SearchOptions(beam=5, groups=2)


@pytest.mark.parametrize("beam", [1, 4])
def test_settled_words_grow_into_the_best_hypothesis(beam: int) -> None:
    search = BeamSearch(DECODER, *padded(SOURCES), SearchOptions(beam=beam), sentences=range(100, 119))
    told: dict[int, tuple[int, ...]] = dict.fromkeys(range(100, 119), ())
    early = 0
    while search.running:
        search.step()
        for number in {*search.running.sentence.tolist()}:
            settled = search.settled(number)
            assert settled[: len(told[number])] == told[number]
            told[number] = settled
            early += len(settled)
    assert early > 0
    for number, (best,) in zip(told, search.results(), strict=True):
        assert best.ids[: len(told[number])] == told[number]
        assert beam > 1 or len(best.ids) - len(told[number]) <= 1


def test_a_stopped_sentence_is_cut_and_the_others_go_on() -> None:
    options = SearchOptions(beam=3, nbest=3, min_length=4, max_length=9)
    search = BeamSearch(DECODER, *padded(SOURCES), options)
    while search.running:
        search.step()
        if search.running.num_words == 2:
            search.stop(5)
            search.stop(5)
    found = search.results()
    assert [(len(h.ids), h.finished) for h in found[5]] == [(2, False)] * 3
    free = beam_search(DECODER, *padded(SOURCES), options)
    assert found[:5] + found[6:] == free[:5] + free[6:]


def test_a_search_stopped_before_its_first_step() -> None:
    search = BeamSearch(DECODER, *padded(SOURCES[:2]))
    search.stop(0)
    while search.running:
        search.step()
    (first,), (second,) = search.results()
    assert (first.ids, first.finished) == ((), False)
    assert second == beam_search(DECODER, torch.tensor([SOURCES[1]]))[0][0]
