"""Edit distance against its slow twin, error rates against jiwer and by hand."""

from __future__ import annotations

import random

import jiwer
import pytest

from regard.errors import DataError
from regard.evaluation import LineErrorRate, TokenErrorRate, edit_distance, measure


def slow_distance(ours: str, theirs: str) -> int:
    """The dynamic programme as it is drawn on a blackboard."""
    column = [*range(len(theirs) + 1)]
    for i, a in enumerate(ours, start=1):
        left = [i]
        for j, b in enumerate(theirs, start=1):
            left.append(min(column[j] + 1, left[-1] + 1, column[j - 1] + (a != b)))
        column = left
    return column[-1]


def test_distances_by_hand() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3
    assert edit_distance("abc", "") == 3
    assert edit_distance("", "") == 0
    assert edit_distance(["a", "bc"], ["abc"]) == 2


def test_distance_equals_its_slow_twin() -> None:
    draw = random.Random(7)
    for _ in range(3000):
        ours, theirs = ("".join(draw.choices("abc", k=draw.randint(0, 13))) for _ in range(2))
        assert edit_distance(ours, theirs) == slow_distance(ours, theirs)
    long_ours, long_theirs = ("".join(draw.choices("abcdefg", k=k)) for k in (211, 197))
    assert edit_distance(long_ours, long_theirs) == slow_distance(long_ours, long_theirs)


def random_lines(seed: int, count: int = 100) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(["ay", "b", "k", "Ow"], k=draw.randint(1, 7))) for _ in range(count)]


def test_rates_equal_jiwer() -> None:
    ours, theirs = random_lines(1), random_lines(2)
    references = [[line] for line in theirs]
    assert measure(TokenErrorRate("WER"), ours, references) == pytest.approx(100 * jiwer.wer(theirs, ours))
    assert measure(TokenErrorRate("CER"), ours, references) == pytest.approx(100 * jiwer.cer(theirs, ours))


def test_phone_error_rate_takes_the_nearest_reference_and_its_length() -> None:
    """1 edit to the nearest of 3 phones, 0 edits to one of 2, 2 edits to a single phone: 3 edits over 6."""
    hypotheses = ["k ae t", "d ao", "b ih"]
    references = [["d ao g s", "k aa t"], ["d ao g", "d ao"], ["uw"]]
    assert measure(TokenErrorRate("PER"), hypotheses, references) == pytest.approx(50.0)
    assert measure(LineErrorRate(), hypotheses, references) == pytest.approx(200 / 3)


def test_of_equally_near_references_the_shortest_counts_in_any_order() -> None:
    rate = TokenErrorRate("PER")
    assert measure(rate, ["a b"], [["a", "a b c"]]) == measure(rate, ["a b"], [["a b c", "a"]]) == 100.0


def test_case_counts_unless_told() -> None:
    assert measure(TokenErrorRate("WER"), ["A b"], [["a b"]]) == 50.0
    assert measure(TokenErrorRate("WER", lowercase=True), ["A b"], [["a b"]]) == 0.0
    assert measure(LineErrorRate(), ["A b"], [["a b"]]) == 100.0
    assert measure(LineErrorRate(lowercase=True), ["A b"], [["a b"]]) == 0.0


def test_empty_references_are_refused() -> None:
    with pytest.raises(DataError, match="at least one token"):
        measure(TokenErrorRate("WER"), ["a"], [[""]])
    assert measure(TokenErrorRate("WER"), ["a", "b"], [[""], ["b"]]) == 100.0
