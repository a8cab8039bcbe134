"""What is dropped is counted, and said."""

from __future__ import annotations

import pytest

from regard.data import FilterOptions, FilterReport
from regard.errors import RecipeError


def test_lengths_and_ratio_by_hand() -> None:
    options = FilterOptions(max_source_length=7, max_target_length=5, max_ratio=2.0)
    judged = {
        pair: options.judge(*pair) for pair in [(7, 5), (8, 5), (7, 6), (8, 6), (4, 2), (5, 2), (2, 4), (2, 5), (6, 3)]
    }
    assert judged == {
        (7, 5): None,
        (8, 5): "long_source",
        (7, 6): "long_target",
        (8, 6): "long_source",
        (4, 2): None,
        (5, 2): "ratio",
        (2, 4): None,
        (2, 5): "ratio",
        (6, 3): None,
    }
    assert FilterOptions(max_source_length=7, overlong="clip").judge(8, 5) is None
    assert FilterOptions().judge(512, 1) is None


def test_the_sentence_tells_what_happened_and_no_more() -> None:
    report = FilterReport(total=1012, kept=1000, empty=3, long_source=7, ratio=2, clipped=5)
    assert report.sentence() == (
        "1,000 of 1,012 pairs kept (dropped: 3 empty, 7 source too long, 2 lengths too unlike); 5 clipped"
    )
    assert FilterReport(total=3, kept=3).sentence() == "3 of 3 pairs kept"
    assert FilterReport(**report.to_dict()) == report


def test_options_out_of_range_are_named() -> None:
    for arguments in ({"max_source_length": 1}, {"max_target_length": 0}, {"max_ratio": 0.5}):
        with pytest.raises(RecipeError, match=f"`{next(iter(arguments))}`"):
            FilterOptions(**arguments)
