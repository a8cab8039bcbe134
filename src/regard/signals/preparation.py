"""How do measured numbers become the frames that a model reads? What a tokenizer is to text, this is to signals.

It is fitted on the training part alone, stored with the model, and done in the same way to all that the model sees::

    numbers → I and Q apart → standardised → (augmented) → missing values flagged and set to 0 → frames

Axes: n cases, C channels, L frames, F numbers of a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from regard.errors import RecipeError, ShapeError
from regard.plural import plural
from regard.signals.cases import Array, Cases, Indices

Floats = npt.NDArray[np.float64]
Frames = npt.NDArray[np.float32]

_TOO_LARGE = "Input X contains infinity or a value too large; leave such cases out, or put NaN there"


class BadValueError(ShapeError):
    """A value is NaN, infinite or too large; `Preparation.check` finds out in which case."""


Missing = Literal["error", "mask"]
Scaling = Literal["channel", "case", "none"]


@dataclass(frozen=True)
class Preparation:
    """What is done to every case.

    Attributes:
        channels: C, a complex one counted as two.
        iq: complex numbers, or channels in pairs, are taken as in-phase and quadrature: scaled alike, and not centred.
        missing: what NaN means: an ``error``; or a value to ``mask``, which is told to the model as such: it reads 0,
            the mean, and a flag of 1 in a further number of the frame.
        scaling: by the mean and deviation of each ``channel`` in training, of each channel of the ``case`` itself,
            or ``none``.
        mean: of each real channel, taken off; empty unless scaled by channel.
        scale: deviation of each real channel, divided by.
    """

    channels: int
    iq: bool = False
    missing: Missing = "error"
    scaling: Scaling = "channel"
    mean: tuple[float, ...] = field(default=(), repr=False)
    scale: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for key, words in (("missing", ("error", "mask")), ("scaling", ("channel", "case", "none"))):
            if getattr(self, key) not in words:
                raise RecipeError(f"`{key}` must be one of {', '.join(words)}, but is {getattr(self, key)!r}")

    @classmethod
    def fit(
        cls,
        cases: Cases,
        rows: Indices,
        *,
        iq: bool,
        missing: Missing,
        scaling: Scaling,
        say: Callable[[str], object] | None = None,
    ) -> Preparation:
        """Return what fits ``rows`` of ``cases``, read once, many at a time; ``say`` hears of constant channels.

        Raises:
            ShapeError: complex numbers without ``iq``, an odd number of channels with it, NaN, or infinity.
        """
        channels = cases.channels * (2 if cases.is_complex else 1)
        prepared = cls(channels, iq, missing, scaling)
        count, mean, spread = np.zeros(1), np.zeros(1), np.zeros(1)
        for chunk in cases.chunks(rows):
            try:
                values = prepared.real(chunk)  # [C, frames]
            except BadValueError:
                prepared.check(cases, rows)
                raise
            there = ~np.isnan(values)
            more = there.sum(axis=1)
            sums = np.where(there, values, 0).sum(axis=1)
            own = sums / np.maximum(more, 1)
            around = np.where(there, values - own[:, None], 0)
            with np.errstate(over="ignore"):
                squares = (around**2).sum(axis=1)
            if not np.isfinite(squares).all():
                raise ShapeError(_TOO_LARGE)
            # sums of squares around the mean of a part add up by Chan, Golub and LeVeque 1979
            total = np.maximum(count + more, 1)
            step = own - mean
            spread = spread + squares + step**2 * count * more / total
            mean = mean + step * more / total
            count = count + more
        power = spread / np.maximum(count, 1)
        if say is not None:
            _tell_of_stillness(count, _is_still(power, mean), cases.is_complex, say)
        if scaling != "channel":
            return prepared
        if iq:
            power = np.repeat((power + mean**2).reshape(-1, 2).mean(axis=1), 2)
            mean = np.zeros_like(mean)
        return cls(channels, iq, missing, scaling, tuple(mean.tolist()), tuple(_deviation(power, mean).tolist()))

    @property
    def num_features(self) -> int:
        """F, the numbers in a frame that the model reads."""
        return self.channels * (2 if self.missing == "mask" else 1)

    def real(self, raw: Array) -> Floats:
        """Return ``raw``, [..., C, L], as real channels in float64, I and Q of a complex one next to each other.

        Raises:
            ShapeError: complex numbers without ``iq``, an odd number of channels with it, NaN, or infinity.
        """
        if raw.dtype.kind == "c":
            if not self.iq:
                raise ShapeError(
                    "Complex data not supported; where `iq` is true it is taken as in-phase and quadrature"
                )
            pairs = np.stack([raw.real, raw.imag], axis=-2)  # [..., C, 2, L]
            values = pairs.reshape(*raw.shape[:-2], -1, raw.shape[-1]).astype(np.float64)
        else:
            values = raw.astype(np.float64)
            if self.iq and values.shape[-2] % 2:
                raise ShapeError(
                    f"where `iq` is true real channels come in pairs, I and Q, but there are {values.shape[-2]}"
                )
        if np.isinf(values).any():
            raise BadValueError(_TOO_LARGE)
        if self.missing == "error" and np.isnan(values).any():
            raise BadValueError("Input X contains NaN; where `missing` is 'mask' such values are masked")
        return values

    def check(self, cases: Cases, rows: Indices) -> None:
        """Read some cases, and refuse the first that cannot be used.

        Raises:
            ShapeError: the channels are not those of training, or a case, which is named, has a value that is refused.
        """
        for row in rows.tolist():
            try:
                self.frames(self.scaled(cases[row]))
            except BadValueError as error:
                raise ShapeError(f"case {row}: {error}") from None

    def scaled(self, raw: Array) -> Floats:
        """Return ``raw``, [..., C, L], real and standardised; missing values stay NaN.

        Raises:
            ShapeError: the channels are not those of training, or as `real`.
        """
        values = self.real(raw)
        if values.shape[-2] != self.channels:
            raise ShapeError(
                f"the cases have {plural(values.shape[-2], 'channel')}, but those of training had {self.channels}"
            )
        if self.scaling == "case":
            there = ~np.isnan(values)
            count = np.maximum(there.sum(axis=-1, keepdims=True), 1)
            mean = np.where(there, values, 0).sum(axis=-1, keepdims=True) / count
            if self.iq:
                mean = np.zeros_like(mean)
            power = (np.where(there, values - mean, 0) ** 2).sum(axis=-1, keepdims=True) / count
            if self.iq:
                pairs = power.reshape(*power.shape[:-2], -1, 2, 1).mean(axis=-2)
                power = np.repeat(pairs, 2, axis=-2)
            return (values - mean) / _deviation(power, mean)  # type: ignore[no-any-return]
        if not self.scale:
            return values
        return (values - np.array(self.mean)[:, None]) / np.array(self.scale)[:, None]  # type: ignore[no-any-return]

    def frames(self, scaled: Floats) -> Frames:
        """Return the frames, [..., L, F], of standardised channels, [..., C, L]."""
        if self.missing == "mask":
            gone = np.isnan(scaled)
            scaled = np.concatenate([np.where(gone, 0.0, scaled), gone], axis=-2)
        with np.errstate(over="ignore"):
            frames = np.ascontiguousarray(np.swapaxes(scaled, -1, -2), dtype=np.float32)
        if not np.isfinite(frames).all():
            raise BadValueError(_TOO_LARGE)
        return frames


def _deviation(power: Floats, mean: Floats) -> Floats:
    """Return the root of the mean squares, and 1 where a channel does not move but for rounding."""
    return np.where(_is_still(power, mean), 1.0, np.sqrt(power))


def _is_still(power: Floats, mean: Floats) -> npt.NDArray[np.bool_]:
    still: npt.NDArray[np.bool_] = np.sqrt(power) <= 1e-12 * np.abs(mean) + 1e-300
    return still


def _tell_of_stillness(
    count: Floats, still: npt.NDArray[np.bool_], is_complex: bool, say: Callable[[str], object]
) -> None:
    """Name the channels in which nothing can be learned: one sentence for those without values, one for constants."""
    for what, channels in (("holds only NaN", count == 0), ("is constant", still & (count > 0))):
        numbers = np.flatnonzero(channels).tolist()
        names = [f"{'IQ'[c % 2]} of channel {c // 2}" if is_complex else f"channel {c}" for c in numbers[:8]]
        if names:
            say(
                f"the training part {what} in {', '.join(names)}{', …' if len(numbers) > 8 else ''}: nothing can be "
                "learned from it"
            )
