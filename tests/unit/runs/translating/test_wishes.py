"""Wishes over the search of a model."""

from __future__ import annotations

import pytest

from regard.errors import InputError, RecipeError
from regard.generation import SamplingOptions, SearchOptions
from regard.runs.translating.wishes import Wishes

DRAWN = SearchOptions(beam=6, groups=3, sampling=SamplingOptions(samples=2, top_k=7))


def test_what_is_not_wished_for_stays() -> None:
    assert Wishes().over(DRAWN) == DRAWN
    assert Wishes({"length_penalty": 1.0}).over(DRAWN).groups == 3


def test_a_beam_is_a_plain_one_unless_more_is_wished_for() -> None:
    plain = Wishes({"beam": 4}).over(DRAWN)
    assert (plain.beam, plain.groups, plain.sampling) == (4, 1, None)
    grouped = Wishes({"beam": 4, "groups": 2, "samples": 5}).over(DRAWN)
    assert (grouped.beam, grouped.groups, grouped.sampling) == (4, 2, SamplingOptions(samples=5))


def test_a_list_or_groups_widen_the_beam() -> None:
    assert Wishes({"nbest": 9}).over(SearchOptions(beam=2)).beam == 9
    assert Wishes({"nbest": 2}).over(SearchOptions(beam=5)).beam == 5
    assert Wishes({"groups": 3, "nbest": 5}).over(SearchOptions(beam=4)).beam == 6
    with pytest.raises(RecipeError, match=r"`generation\.nbest` must be at most"):
        Wishes({"nbest": 3, "beam": 2}).over(SearchOptions())


def test_a_wish_about_drawing_draws() -> None:
    assert Wishes({"top_p": 0.5}).over(SearchOptions()).sampling == SamplingOptions(top_p=0.5)
    changed = Wishes({"seed": 9}).over(DRAWN).sampling
    assert changed == SamplingOptions(samples=2, top_k=7, seed=9)


def test_unknown_wishes_are_refused() -> None:
    with pytest.raises(InputError, match="no option 'beems'"):
        Wishes({"beems": 3})
