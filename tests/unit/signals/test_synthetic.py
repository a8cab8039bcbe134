"""Signals to order: what is specified is what is drawn, and the maximum-likelihood classifier is the best there is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.errors import RecipeError
from regard.signals.synthetic import CONSTELLATIONS, Modulations, Tones, root_raised_cosine


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


class TestTones:
    def test_without_noise_they_are_sines_of_whole_periods(self) -> None:
        drawn = Tones(noise=0).draw(31, rng())
        assert drawn.X.shape == (31, 64)
        spectrum = np.abs(np.fft.rfft(drawn.X, axis=1))
        assert (spectrum.argmax(axis=1) == drawn.y + 1).all()
        np.testing.assert_allclose((drawn.X**2).mean(axis=1), 0.5)
        assert np.bincount(drawn.y).tolist() in ([11, 10, 10], [10, 11, 10], [10, 10, 11])

    def test_the_same_seed_draws_the_same(self) -> None:
        np.testing.assert_array_equal(Tones().draw(5, rng()).X, Tones().draw(5, rng()).X)

    def test_most_likely(self) -> None:
        tones = Tones(noise=0.2)
        drawn = tones.draw(300, rng())
        assert (tones.most_likely(drawn) == drawn.y).all()
        loud = Tones(noise=20.0)
        drawn = loud.draw(3000, rng())
        assert (loud.most_likely(drawn) == drawn.y).mean() < 0.5  # a third, and a little

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"frequencies": (0, 1)}, "`tones.frequencies` must be above 0"),
            ({"frequencies": (1, 32)}, "`tones.frequencies` must be .* below half the `length` of 64"),
            ({"frequencies": ()}, "`tones.frequencies` must be two or more"),
            ({"frequencies": (3,)}, "`tones.frequencies` must be two or more"),
            ({"frequencies": (3, 3)}, "`tones.frequencies` must be two or more"),
            ({"noise": -1.0}, "`tones.noise` must be at least 0, but is -1"),
            ({"noise": math.nan}, "`tones.noise` must be"),
            ({"noise": math.inf}, "`tones.noise` must be"),
            ({"length": 10**15}, "`tones.length` must be from 1 to"),
        ],
    )
    def test_refused(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            Tones(**options)  # type: ignore[arg-type]

    def test_too_many_are_refused_before_memory_is_taken(self) -> None:
        with pytest.raises(RecipeError, match="`n` asks for 1,000,000,000,000 cases of 64 samples"):
            Tones().draw(10**12, rng())
        with pytest.raises(RecipeError, match="`n` asks for 1,000,000,000,000 cases of 128 samples"):
            Modulations().draw(10**12, rng())


class TestModulations:
    @pytest.mark.parametrize("name", CONSTELLATIONS)
    def test_constellations_have_unit_power_and_no_mean(self, name: str) -> None:
        points = CONSTELLATIONS[name]
        assert (np.abs(points) ** 2).mean() == pytest.approx(1)
        assert abs(points.mean()) < 1e-15
        assert len(np.unique(points.round(9))) == len(points) == {"8": 8, "B": 2, "Q": 4, "1": 16, "6": 64}[name[0]]

    def test_the_noise_has_the_variance_of_its_ratio(self) -> None:
        for snr in (-10.0, 0.0, 10.0):
            made = Modulations(("BPSK", "QPSK"), symbols=2000, random_phase=False)
            X = made.frames(np.zeros(5, dtype=np.int64), np.full(5, snr), rng())
            nearest = np.sign(X.real) if snr == 10 else None
            power = (np.abs(X) ** 2).mean()
            assert power == pytest.approx(1 + 10 ** (-snr / 10), rel=0.05)  # 10,000 samples: a per cent or two
            assert nearest is None or (np.abs(X - nearest) ** 2).mean() == pytest.approx(0.1, rel=0.05)

    def test_the_phase_is_one_of_the_frame(self) -> None:
        made = Modulations(("BPSK", "8PSK"), symbols=9, snr=(200,))
        drawn = made.draw(50, rng())
        own = drawn.X[drawn.y == 0] ** 2
        np.testing.assert_allclose(own, own[:, :1].repeat(9, axis=1), atol=1e-8)
        assert np.std(np.angle(own[:, 0])) > 1

    def test_a_frequency_offset_turns_on(self) -> None:
        made = Modulations(("BPSK", "8PSK"), symbols=9, snr=(200,), offset=0.01)
        drawn = made.draw(50, rng())
        own = drawn.X[drawn.y == 0] ** 2
        turns = np.angle(own[:, 1:] / own[:, :-1]) / (4 * np.pi)
        assert np.abs(turns).max() <= 0.01
        np.testing.assert_allclose(turns, turns[:, :1].repeat(8, axis=1), atol=1e-8)
        with pytest.raises(RecipeError, match="without a frequency `offset`"):
            made.most_likely(drawn)

    def test_the_pulse_and_its_match_give_the_symbols_back(self) -> None:
        pulse = root_raised_cosine(4, 0.35)
        twice = np.convolve(pulse, pulse)[len(pulse) - 1 :: 4]
        # the ends that were cut leave a thousandth or so between symbols
        np.testing.assert_allclose(twice[:6], [1, 0, 0, 0, 0, 0], atol=3e-3)
        made = Modulations(("QPSK", "8PSK"), symbols=64, samples_per_symbol=4, snr=(200,), random_phase=False)
        drawn = made.draw(6, rng())
        assert drawn.X.shape == (6, 256)
        symbols = made._matched(drawn.X)[drawn.y == 0]
        inner = symbols[:, 8:-8]
        np.testing.assert_allclose(np.abs(inner), 1, atol=0.02)

    def test_most_likely_by_brute_force(self) -> None:
        """Against sums over points and a fine grid of phases, written out."""
        made = Modulations(("BPSK", "16QAM", "8PSK"), symbols=5, snr=(0, 5))
        drawn = made.draw(24, rng())
        phases = np.linspace(0, 2 * np.pi, 720, endpoint=False)
        scores = np.empty((24, 3))
        for column, name in enumerate(made.names):
            points = CONSTELLATIONS[name]
            variance = 10 ** (-drawn.groups["snr"] / 10)
            turned = np.exp(1j * phases)[:, None] * points  # [P, M]
            distance = np.abs(drawn.X[:, None, :, None] - turned[None, :, None, :]) ** 2
            of_symbols = np.exp(-distance / variance[:, None, None, None]).mean(axis=3)
            scores[:, column] = of_symbols.prod(axis=2).mean(axis=1)
        assert made.most_likely(drawn).tolist() == scores.argmax(axis=1).tolist()

    def test_the_ceiling_of_the_five(self) -> None:
        """At 0 and 10 dB; computed elsewhere from the same specification: 50.5 and 96.1 %."""
        made = Modulations(snr=(0, 10))
        drawn = made.draw(240, rng())
        right = made.most_likely(drawn) == drawn.y
        assert right[drawn.groups["snr"] == 10].mean() > 0.9
        assert right[drawn.groups["snr"] == 0].mean() == pytest.approx(0.505, abs=0.14)  # three deviations of 120 cases

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"names": ("BPSK", "QPSQ")}, "did you mean 'QPSK'"),
            ({"names": ("BPSK", "BPSK")}, "`modulations.names` must be two or more"),
            ({"snr": ()}, "`modulations.snr` must be ratios"),
            ({"snr": (0.0, math.nan)}, "`modulations.snr` must be ratios"),
            ({"snr": (4000.0,)}, "`modulations.snr` must be ratios from -300 to 300 dB"),
            ({"symbols": 0}, "`modulations.symbols` must be at least 1"),
            ({"symbols": 10**15}, "`modulations.symbols` × `samples_per_symbol` must be at most"),
            ({"roll_off": 0.0}, "`modulations.roll_off`"),
            ({"offset": math.nan}, "`modulations.offset`"),
        ],
    )
    def test_refused(self, options: dict[str, object], words: str) -> None:
        with pytest.raises(RecipeError, match=words):
            Modulations(**options)  # type: ignore[arg-type]
