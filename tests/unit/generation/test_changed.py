"""What a caller names of a search, over the options of a model."""

from __future__ import annotations

from typing import Any

import pytest

from regard.errors import InputError, RecipeError
from regard.generation import SamplingOptions, SearchOptions

DRAWN = SearchOptions(beam=6, groups=3, sampling=SamplingOptions(samples=2, top_k=7))


def test_what_is_not_named_stays() -> None:
    assert DRAWN.changed() == DRAWN
    assert DRAWN.changed(length_penalty=1.0).groups == 3


def test_a_beam_is_a_plain_one_unless_more_is_named() -> None:
    plain = DRAWN.changed(beam=4)
    assert (plain.beam, plain.groups, plain.sampling) == (4, 1, None)
    grouped = DRAWN.changed(beam=4, groups=2)
    assert (grouped.beam, grouped.groups, grouped.sampling) == (4, 2, None)
    listing = SearchOptions(beam=5, nbest=3)
    assert [listing.changed(beam=beam).nbest for beam in (2, 7)] == [2, 3]


def test_a_list_or_groups_widen_the_beam() -> None:
    assert SearchOptions(beam=2).changed(nbest=9).beam == 9
    assert SearchOptions(beam=5).changed(nbest=2).beam == 5
    assert SearchOptions(beam=4).changed(groups=3, nbest=5).beam == 6
    with pytest.raises(InputError, match=r"^`nbest` 3 needs a `beam` of at least 3, but it is 2; left out, it is as"):
        SearchOptions().changed(nbest=3, beam=2)


def test_an_option_of_drawing_draws_and_one_of_a_beam_does_not() -> None:
    assert SearchOptions().changed(top_p=0.5).sampling == SamplingOptions(top_p=0.5)
    assert DRAWN.changed(seed=9).sampling == SamplingOptions(samples=2, top_k=7, seed=9)
    for of_beam in ({"nbest": 3}, {"groups": 2}, {"diversity": 0.1}, {"coverage_penalty": 0.1}):
        assert DRAWN.changed(**of_beam).sampling is None
    ranked = SearchOptions(sampling=SamplingOptions(samples=5, least_risk=True))
    assert ranked.changed(nbest=3).sampling == ranked.sampling


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"samples": 2, "nbest": 3}, "`samples` is about outputs drawn at random, `nbest` about a beam search"),
        ({"beam": 4, "seed": 7}, "`seed` is about outputs drawn at random, `beam` about a beam search"),
        ({"temperature": 0.5, "groups": 2}, "`temperature` is about .*`groups` about"),
        ({"top_k": 5, "coverage_penalty": 0.2}, "`top_k` is about .*`coverage_penalty` about"),
        ({"diversity": 0.7}, "`diversity` keeps the groups of a beam apart, but there is one group; name `groups` too"),
        ({"diversity": 0.7, "beam": 6}, "`diversity` keeps the groups"),
        ({"beems": 3}, "a search has no option 'beems'; did you mean 'beam'"),
    ],
)
def test_contradictions_and_unknown_options_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}"):
        SearchOptions().changed(**values)


def test_outputs_ranked_by_risk_can_be_listed() -> None:
    listed = SearchOptions(beam=2).changed(samples=7, least_risk=True, nbest=3)
    assert listed.nbest == 3 and listed.sampling == SamplingOptions(samples=7, least_risk=True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("beam", [0, -3, 2.5, "4"])
def test_a_beam_that_cannot_be_is_told(beam: Any) -> None:
    with pytest.raises(RecipeError, match=r"`generation\.beam` must be"):
        SearchOptions(nbest=3).changed(beam=beam)
