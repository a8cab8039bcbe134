"""Intervals and p-values against sacrebleu's, and where the answer is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from regard.evaluation import Bleu, ExactMatch, bootstrap_interval, paired_bootstrap, paired_randomisation

WORDS = ["ein", "Hund", "und", "eine", "Katze", "laufen", "heute", "schnell", "nach", "Hause"]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < share else w for w in line.split()) for line in lines]


def corpus() -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=9)) for _ in range(101)]


@pytest.mark.parametrize("share", [0.21, 0.26])
def test_randomisation_agrees_with_sacrebleu(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other random numbers, the same procedure: 2,000 samples put p within 4 sigma = 0.045 of each other."""
    monkeypatch.setenv("SACREBLEU_SEED", "17")
    references, metric = corpus(), Bleu()
    first, second = noisy(references, 0.2, 1), noisy(references, share, 2)
    rows = [[line] for line in references]
    ours = paired_randomisation(metric, metric.statistics(second, rows), metric.statistics(first, rows), samples=2000)
    systems = [("first", first), ("second", second)]
    peer = PairedTest(systems, {"BLEU": sacrebleu.BLEU()}, [references], test_type="ar", n_samples=2000)
    assert ours == pytest.approx(peer()[1]["BLEU"][1].p_value, abs=0.045)


@pytest.mark.parametrize("shift", [0, 8, 25, 40])
def test_p_of_a_difference_of_shares_is_that_of_the_normal_law(shift: int) -> None:
    """200 lines right in one system only and 200 + shift in the other only: a sum of independent signs."""
    ours = np.zeros((1000, 2))
    theirs = np.zeros((1000, 2))
    ours[:, 1] = theirs[:, 1] = 1
    ours[: 200 + shift, 0] = theirs[500:700, 0] = 1
    sigma = math.sqrt(400 + shift)
    for test, correction in ((paired_bootstrap, 0.5), (paired_randomisation, 1.0)):
        # the sum moves in steps of 1 or, when signs turn, of 2: half a step is the correction for continuity
        expected = math.erfc(max(shift - correction, 0) / sigma / math.sqrt(2))
        assert test(ExactMatch(), ours, theirs, samples=2000) == pytest.approx(expected, abs=0.045)


def test_the_interval_of_a_share_is_the_binomial_one() -> None:
    """30 % of 400 lines: 1.96 * sqrt(0.3 * 0.7 / 400) = 4.49 points to each side; half a point for 4,000 draws."""
    statistics = np.column_stack([np.arange(400) < 120, np.ones(400)]).astype(float)
    low, high = bootstrap_interval(ExactMatch(), statistics, samples=4000)
    assert low == pytest.approx(30 - 4.49, abs=0.5)
    assert high == pytest.approx(30 + 4.49, abs=0.5)


def test_equal_systems_do_not_differ_and_opposite_ones_do() -> None:
    right = np.tile([1.0, 1.0], (50, 1))
    wrong = np.tile([0.0, 1.0], (50, 1))
    for test in (paired_bootstrap, paired_randomisation):
        assert test(ExactMatch(), right, right) == 1.0
    assert paired_randomisation(ExactMatch(), right, wrong) == pytest.approx(1 / 1001)


def test_the_same_seed_gives_the_same_interval() -> None:
    references = corpus()
    statistics = Bleu().statistics(noisy(references, 0.2, 1), [[line] for line in references])
    assert bootstrap_interval(Bleu(), statistics, samples=97) == bootstrap_interval(Bleu(), statistics, samples=97)
    assert bootstrap_interval(Bleu(), statistics, samples=97, seed=5) != bootstrap_interval(
        Bleu(), statistics, samples=97
    )
