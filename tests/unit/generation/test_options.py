from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import RecipeError
from regard.generation import SamplingOptions, SearchOptions
from regard.generation.lengths import by_length
from regard.generation.scores import Average, LengthPenalty, Score, Sum, WordReward, best_possible


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"beam": 0}, "beam"),
        ({"nbest": 0}, "nbest"),
        ({"beam": 3, "nbest": 4}, "nbest"),
        ({"length_penalty": math.nan}, "length_penalty"),
        ({"word_reward": math.inf}, "word_reward"),
        ({"max_length": 0}, "max_length"),
        ({"max_length_ratio": -1.0}, "max_length_ratio"),
        ({"max_length_margin": -1}, "max_length_margin"),
        ({"min_length": -1}, "min_length"),
        ({"min_length_ratio": math.nan}, "min_length_ratio"),
        ({"min_length": 8, "max_length": 7}, "min_length"),
        ({"beam": 10**30}, "beam"),
        ({"max_length": 10**400}, "max_length"),
        ({"max_length_ratio": math.inf}, "max_length_ratio"),
        ({"length_penalty": 31.0}, "length_penalty"),
        ({"no_repeat": -1}, "no_repeat"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": 1e-320}, "repetition_penalty"),
        ({"repetition_penalty": math.nan}, "repetition_penalty"),
    ],
)
def test_values_out_of_range_are_refused_by_name(values: dict[str, float | str], key: str) -> None:
    with pytest.raises(RecipeError, match=rf"`generation\.{key}` must be"):
        SearchOptions(**values)  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
def test_half_a_hypothesis_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"`generation\.beam` must be a whole number, but is 2\.5"):
        SearchOptions(beam=2.5)  # type: ignore[arg-type]


def test_an_unknown_score_is_refused() -> None:
    options = SearchOptions()
    object.__setattr__(options, "score", "best")  # past the type check that tests put on constructors
    with pytest.raises(RecipeError, match=r"`generation\.score` must be .* but is 'best'"):
        options.__post_init__()


def test_greedy_keeps_limits_and_score() -> None:
    options = SearchOptions(
        beam=6, nbest=2, groups=2, score="sum", max_length=7, coverage_penalty=0.1, sampling=SamplingOptions()
    )
    assert options.greedy() == SearchOptions(beam=1, score="sum", max_length=7)


def test_limits_by_hand() -> None:
    options = SearchOptions(
        max_length=17, max_length_ratio=1.5, max_length_margin=2, min_length=3, min_length_ratio=0.5
    )
    fewest, most = options.limits(np.array([0, 1, 5, 7, 40]))
    assert most.tolist() == [2, 3, 9, 12, 17]
    assert fewest.tolist() == [2, 3, 3, 3, 17]  # the first and the last: what the maximum leaves
    assert SearchOptions(max_length_ratio=0.0, max_length_margin=0).limits(np.array([5]))[1].tolist() == [1]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_scores_by_hand(length: int) -> None:
    log_prob = -3.0
    divisor = [1.0, 7 / 6, 8 / 6, 9 / 6, 10 / 6, 11 / 6][length - 1]
    assert Sum()(log_prob, length) == -3.0
    assert LengthPenalty(0.6)(log_prob, length) == pytest.approx(-3.0 / divisor**0.6, abs=1e-9)
    assert LengthPenalty(-1.0)(log_prob, length) == pytest.approx(-3.0 * divisor, abs=1e-9)
    assert Average(1.0)(log_prob, length) == pytest.approx(-3.0 / length, abs=1e-9)
    assert WordReward(0.5)(log_prob, length) == -3.0 + 0.5 * length


def test_the_options_name_the_scores() -> None:
    assert SearchOptions(score="google", length_penalty=0.3).scorer() == LengthPenalty(0.3)
    assert SearchOptions(score="average", length_penalty=0.7).scorer() == Average(0.7)
    assert SearchOptions(score="sum").scorer() == Sum()
    assert SearchOptions(score="reward", word_reward=0.2).scorer() == WordReward(0.2)


@pytest.mark.parametrize(
    "score",
    [Sum(), LengthPenalty(-1.0), LengthPenalty(0.0), LengthPenalty(2.0), Average(), WordReward(-1.0), WordReward(1.0)],
)
def test_nothing_beats_the_bound(score: Score) -> None:
    for total in (0.0, -0.1, -7.0):
        bound = best_possible(score, total, 3, 11)
        reachable = [score(total - lost, length) for length in range(3, 12) for lost in (0.0, 0.1, 5.0)]
        assert max(reachable) <= bound
        assert bound in reachable


def test_batches_hold_each_index_once_and_fit() -> None:
    lengths = [5, 1, 9, 2, 2, 31, 5]
    batches = [*by_length(lengths, 12)]
    assert sorted(index for batch in batches for index in batch) == [*range(7)]
    assert batches[0] == [5]  # alone, though it does not fit
    assert all(len(batch) * max(lengths[index] for index in batch) <= 12 for batch in batches[1:])


def test_options_are_read_without_torch() -> None:
    code = "import sys; from regard.generation import SearchOptions; SearchOptions(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
