"""What a caller names of a search, over the options of a model."""

from __future__ import annotations

import pytest

from regard.errors import InputError, RecipeError
from regard.generation import SamplingOptions, SearchOptions
from regard.runs.translating.overrides import SearchOverrides

DRAWN = SearchOptions(beam=6, groups=3, sampling=SamplingOptions(samples=2, top_k=7))


def test_what_is_not_named_stays() -> None:
    assert SearchOverrides().over(DRAWN) == DRAWN
    assert SearchOverrides({"length_penalty": 1.0}).over(DRAWN).groups == 3


def test_a_beam_is_a_plain_one_unless_more_is_named() -> None:
    plain = SearchOverrides({"beam": 4}).over(DRAWN)
    assert (plain.beam, plain.groups, plain.sampling) == (4, 1, None)
    grouped = SearchOverrides({"beam": 4, "groups": 2, "samples": 5}).over(DRAWN)
    assert (grouped.beam, grouped.groups, grouped.sampling) == (4, 2, SamplingOptions(samples=5))


def test_a_list_or_groups_widen_the_beam() -> None:
    assert SearchOverrides({"nbest": 9}).over(SearchOptions(beam=2)).beam == 9
    assert SearchOverrides({"nbest": 2}).over(SearchOptions(beam=5)).beam == 5
    assert SearchOverrides({"groups": 3, "nbest": 5}).over(SearchOptions(beam=4)).beam == 6
    with pytest.raises(RecipeError, match=r"`generation\.nbest` must be at most"):
        SearchOverrides({"nbest": 3, "beam": 2}).over(SearchOptions())


def test_an_option_of_drawing_draws() -> None:
    assert SearchOverrides({"top_p": 0.5}).over(SearchOptions()).sampling == SamplingOptions(top_p=0.5)
    changed = SearchOverrides({"seed": 9}).over(DRAWN).sampling
    assert changed == SamplingOptions(samples=2, top_k=7, seed=9)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(InputError, match="no option 'beems'"):
        SearchOverrides({"beems": 3})
