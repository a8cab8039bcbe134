"""Signals made to order, and the best that any classifier can do on them.

Each kind is a frozen description with two methods: `draw` makes labelled cases, all at once and from the generator it
is given, and `most_likely` is the maximum-likelihood classifier, which knows how the signals were made. With classes
equally likely no classifier is right more often on average: its accuracy is the ceiling, and more is a leak.

Axes: n cases, L samples or symbols, M points of a constellation, P phases tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from regard.errors import RecipeError, nearest, refuse
from regard.signals.cases import Array, Indices

Complex = npt.NDArray[np.complex128]
Floats = npt.NDArray[np.float64]


MOST_SAMPLES = 2**30
"""Samples made at once at most, which take 8 GiB, or 16 where they are complex."""

LOUDEST = 300.0
"""The largest ratio of signal to noise, in dB and without sign, whose variance can still be reckoned with."""


@dataclass(frozen=True)
class Drawn:
    """Labelled cases.

    Attributes:
        X: [n, L] real or complex.
        y: [n] class numbers.
        groups: name -> value of each case, such as its signal-to-noise ratio.
    """

    X: Array
    y: Indices
    groups: dict[str, Array]


@runtime_checkable
class Generator(Protocol):
    """Something that makes labelled cases."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each class."""
        ...

    @property
    def samples(self) -> int:
        """Samples in a case."""
        ...

    def draw(self, n: int, rng: np.random.Generator) -> Drawn:
        """Return ``n`` cases."""
        ...

    def most_likely(self, drawn: Drawn) -> Indices:
        """Return the class under which each case is most probable."""
        ...


@dataclass(frozen=True)
class Tones:
    """Sines of a few frequencies, each case at a phase of its own, in white noise.

    Attributes:
        frequencies: whole periods in a case, one class each.
        length: samples in a case.
        noise: deviation of the noise; the sines have amplitude 1.
    """

    frequencies: tuple[int, ...] = (1, 2, 3)
    length: int = 64
    noise: float = 0.2

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        if not 0 <= self.noise < math.inf:
            yield f"`tones.noise` must be at least 0, but is {self.noise}"
        if not 1 <= self.length <= MOST_SAMPLES:
            yield f"`tones.length` must be from 1 to {MOST_SAMPLES:,}, but is {self.length:,}"
        if len(set(self.frequencies)) != len(self.frequencies) or len(self.frequencies) < 2:
            yield (f"`tones.frequencies` must be two or more, all different, but are {list(self.frequencies)}")
        elif not all(0 < 2 * f < self.length for f in self.frequencies):
            yield (
                f"`tones.frequencies` must be above 0 and below half the `length` of {self.length}, "
                f"but are {list(self.frequencies)}"
            )

    @property
    def classes(self) -> tuple[str, ...]:
        """The frequencies, as text."""
        return tuple(map(str, self.frequencies))

    @property
    def samples(self) -> int:
        """Samples in a case."""
        return self.length

    def draw(self, n: int, rng: np.random.Generator) -> Drawn:
        """Return ``n`` cases of classes drawn in equal numbers, in random order; X is [n, length].

        Raises:
            RecipeError: they are more than `MOST_SAMPLES` hold.
        """
        refuse(*too_many("n", n, self))
        y = rng.permutation(np.arange(n) % len(self.frequencies))
        phase = rng.uniform(0, 2 * math.pi, (n, 1))
        angle = np.array(self.frequencies)[y][:, None] * 2 * math.pi * np.arange(self.length) / self.length
        return Drawn(np.sin(angle + phase) + self.noise * rng.standard_normal((n, self.length)), y, {})

    def most_likely(self, drawn: Drawn) -> Indices:
        """Return the frequency with the largest coefficient of Fourier.

        Over all phases alike, the likelihood of a frequency grows with the length of the signal's projection on it, as
        all sines of whole periods have the same energy.
        """
        spectrum = np.abs(np.fft.rfft(drawn.X, axis=1))
        found: Indices = spectrum[:, self.frequencies].argmax(axis=1)
        return found


def _psk(points: int) -> Complex:
    turn = math.pi / 4 if points == 4 else 0.0
    return np.exp(1j * (2 * math.pi * np.arange(points) / points + turn))  # type: ignore[no-any-return]


def _qam(points: int) -> Complex:
    side = math.isqrt(points)
    levels = np.arange(1 - side, side, 2) / math.sqrt(2 * (points - 1) / 3)
    return (levels[:, None] + 1j * levels).ravel()


CONSTELLATIONS: dict[str, Complex] = {
    "BPSK": _psk(2),
    "QPSK": _psk(4),
    "8PSK": _psk(8),
    "16QAM": _qam(16),
    "64QAM": _qam(64),
}
"""Points of unit mean power; QPSK is turned by π/4."""

SYMMETRY = {"BPSK": math.pi, "QPSK": math.pi / 2, "8PSK": math.pi / 4, "16QAM": math.pi / 2, "64QAM": math.pi / 2}
"""The smallest turn that carries a constellation onto itself."""


@dataclass(frozen=True)
class Modulations:
    """Frames of digitally modulated symbols in complex white noise: r[t] = e^{i(θ + 2πft)} s(t) + w[t].

    Attributes:
        names: of the constellations, one class each, equally likely.
        symbols: in a frame.
        samples_per_symbol: 1 gives the symbols themselves; more, a pulse of root-raised cosine.
        roll_off: of the pulse.
        snr: ratios of signal to noise in dB, equally likely: mean power of a symbol over the variance of the noise
            behind a matched filter.
        random_phase: θ is uniform, one value a frame; else it is 0.
        offset: f is uniform between -offset and offset, in cycles per sample, one value a frame.
    """

    names: tuple[str, ...] = ("BPSK", "QPSK", "8PSK", "16QAM", "64QAM")
    symbols: int = 128
    samples_per_symbol: int = 1
    roll_off: float = 0.35
    snr: tuple[float, ...] = (-10, -5, 0, 5, 10, 15, 20)
    random_phase: bool = True
    offset: float = 0.0

    def __post_init__(self) -> None:
        refuse(*self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        for name in self.names:
            if name not in CONSTELLATIONS:
                yield (f"`modulations.names`: there is no constellation {name!r}{nearest(name, CONSTELLATIONS)}")
        if len(set(self.names)) != len(self.names) or len(self.names) < 2:
            yield f"`modulations.names` must be two or more, all different, but are {list(self.names)}"
        for key in ("symbols", "samples_per_symbol"):
            if getattr(self, key) < 1:
                yield f"`modulations.{key}` must be at least 1, but is {getattr(self, key)}"
        if self.samples > MOST_SAMPLES:
            yield f"`modulations.symbols` × `samples_per_symbol` must be at most {MOST_SAMPLES:,}"
        if not self.snr or not all(abs(ratio) <= LOUDEST for ratio in self.snr):
            yield (f"`modulations.snr` must be ratios from {-LOUDEST:g} to {LOUDEST:g} dB, but is {list(self.snr)}")
        if not 0 < self.roll_off <= 1:
            yield f"`modulations.roll_off` must be above 0 and at most 1, but is {self.roll_off}"
        if not 0 <= self.offset < 0.5:
            yield f"`modulations.offset` must be from 0 to below 0.5, but is {self.offset}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the constellations."""
        return self.names

    @property
    def samples(self) -> int:
        """Samples in a case."""
        return self.symbols * self.samples_per_symbol

    def draw(self, n: int, rng: np.random.Generator) -> Drawn:
        """Return ``n`` frames; X is [n, symbols × samples_per_symbol], complex.

        Raises:
            RecipeError: they are more than `MOST_SAMPLES` hold.
        """
        refuse(*too_many("n", n, self))
        y = rng.integers(len(self.names), size=n)
        snr = rng.choice(np.array(self.snr, dtype=np.float64), size=n)
        return Drawn(self.frames(y, snr, rng), y, {"snr": snr})

    def frames(self, y: Indices, snr: Floats, rng: np.random.Generator) -> Complex:
        """Return one frame of each class in ``y`` at each ratio in ``snr``."""
        n = len(y)
        symbols = np.empty((n, self.symbols), dtype=np.complex128)
        for number, name in enumerate(self.names):
            own = np.flatnonzero(y == number)
            points = CONSTELLATIONS[name]
            symbols[own] = points[rng.integers(len(points), size=(len(own), self.symbols))]
        sent = symbols if self.samples_per_symbol == 1 else self._pulsed(symbols)
        theta = rng.uniform(0, 2 * math.pi, (n, 1)) if self.random_phase else np.zeros((n, 1))
        if self.offset:
            theta = theta + 2 * math.pi * rng.uniform(-self.offset, self.offset, (n, 1)) * np.arange(sent.shape[1])
        noise = rng.standard_normal((n, sent.shape[1], 2)).view(np.complex128)[..., 0]
        return sent * np.exp(1j * theta) + noise * np.sqrt(_variance(snr) / 2)[:, None]  # type: ignore[no-any-return]

    def most_likely(self, drawn: Drawn) -> Indices:
        """Return the constellation under which each frame is most probable, its ratio known and its phase averaged.

        This is the average likelihood ratio test: over symbols it sums, and over phases too, on a grid finer than what
        the noise lets one tell apart. With pulses it looks behind the matched filter.

        Raises:
            RecipeError: the signals have a frequency offset, over which nothing is averaged here.
        """
        if self.offset:
            raise RecipeError("the maximum-likelihood classifier is for signals without a frequency `offset`")
        received = drawn.X if self.samples_per_symbol == 1 else self._matched(drawn.X)
        snr = drawn.groups["snr"]
        found = np.empty(len(received), dtype=np.int64)
        for ratio in np.unique(snr):
            own = np.flatnonzero(snr == ratio)
            variance = float(_variance(ratio))
            scores = [self._log_likelihood(received[own], name, variance) for name in self.names]
            found[own] = np.argmax(scores, axis=0)
        return found

    def _log_likelihood(self, received: Complex, name: str, variance: float) -> Floats:
        """Return log p(frame | constellation), [n], up to what all constellations share."""
        phases = np.zeros(1)
        if self.random_phase:
            # a phase is known to about sqrt(variance / (2 L)), and a sum over a Gaussian at steps of 1.25 deviations
            # is its integral to 1e-5
            step = 1.25 * math.sqrt(variance / (2 * self.symbols))
            count = max(8, math.ceil(SYMMETRY[name] / step))
            phases = np.arange(count) * SYMMETRY[name] / count
        points = CONSTELLATIONS[name]
        total = np.full(len(received), -np.inf)
        for phase in phases:
            turned = received * np.exp(-1j * phase)
            of_frame = _mixture(turned, points, variance).sum(axis=1)
            total = np.logaddexp(total, of_frame)
        return total - math.log(len(phases))

    def _pulsed(self, symbols: Complex) -> Complex:
        """Return symbols [n, L] as samples [n, L × samples_per_symbol], through the pulse."""
        spread = np.zeros((len(symbols), symbols.shape[1] * self.samples_per_symbol), dtype=np.complex128)
        spread[:, :: self.samples_per_symbol] = symbols
        return _convolved(spread, root_raised_cosine(self.samples_per_symbol, self.roll_off))

    def _matched(self, samples: Complex) -> Complex:
        """Return samples behind the matched filter, one per symbol."""
        pulse = root_raised_cosine(self.samples_per_symbol, self.roll_off)
        return _convolved(samples, pulse)[:, :: self.samples_per_symbol]


def root_raised_cosine(samples_per_symbol: int, roll_off: float, *, span: int = 8) -> Floats:
    """Return the pulse of root-raised cosine over ``2 · span + 1`` symbols, of unit energy.

    With itself it makes the raised cosine, which is zero at every other symbol but its own (Proakis, section 9.2).
    """
    t = np.arange(-span * samples_per_symbol, span * samples_per_symbol + 1) / samples_per_symbol
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.sin(math.pi * t * (1 - roll_off)) + 4 * roll_off * t * np.cos(math.pi * t * (1 + roll_off))
        pulse = turn / (math.pi * t * (1 - (4 * roll_off * t) ** 2))
    pulse[t == 0] = 1 - roll_off + 4 * roll_off / math.pi
    edge = math.pi / (4 * roll_off)
    pulse[np.isclose(np.abs(4 * roll_off * t), 1)] = (
        roll_off / math.sqrt(2) * ((1 + 2 / math.pi) * math.sin(edge) + (1 - 2 / math.pi) * math.cos(edge))
    )
    return pulse / np.sqrt((pulse**2).sum())  # type: ignore[no-any-return]


def too_many(key: str, n: int, generator: Generator) -> Iterator[str]:
    """Tell, before any memory is taken, if ``key`` asks for more cases than are made at once."""
    if n * generator.samples > MOST_SAMPLES:
        yield (
            f"`{key}` asks for {n:,} cases of {generator.samples:,} samples at once; "
            f"at most {MOST_SAMPLES:,} samples are made together"
        )


def _variance(snr: Any) -> Any:
    return 10.0 ** (-np.asarray(snr, dtype=np.float64) / 10)


def _mixture(received: Complex, points: Complex, variance: float) -> Floats:
    """Return log of the mean over the points of exp(-|r - s|² / variance), for each r."""
    axes = np.unique(points.real.round(12)), np.unique(points.imag.round(12))
    if len(axes[0]) * len(axes[1]) == len(points):  # a grid: the sum is a product of one along each axis
        parts = [
            _log_sum(-((part[..., None] - levels) ** 2) / variance)
            for part, levels in zip((received.real, received.imag), axes, strict=True)
        ]
        return parts[0] + parts[1] - math.log(len(points))
    return _log_sum(-(np.abs(received[..., None] - points) ** 2) / variance) - math.log(len(points))


def _log_sum(exponents: Floats) -> Floats:
    top = exponents.max(axis=-1, keepdims=True)
    return np.log(np.exp(exponents - top).sum(axis=-1)) + top[..., 0]  # type: ignore[no-any-return]


def _convolved(signals: Complex, pulse: Sequence[float] | Floats) -> Complex:
    """Return each row convolved with the pulse, as long as before and not delayed."""
    length, size = signals.shape[1], signals.shape[1] + len(pulse) - 1
    full = np.fft.ifft(np.fft.fft(signals, size, axis=1) * np.fft.fft(pulse, size), axis=1)
    start = (len(pulse) - 1) // 2
    return full[:, start : start + length]
