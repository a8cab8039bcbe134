"""What may be changed in a case each time that it is learned from? Small callables of one number, done one by one.

Each takes a standardised case [C, L], where 1 is a deviation of the training part and missing values are NaN, and a
generator of its own for this case and epoch; none changes what it is given.

Axes: C channels, L frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from regard.errors import RecipeError
from regard.signals.batches import Augment
from regard.signals.preparation import Floats


@dataclass(frozen=True)
class Noise:
    """Add white noise of this deviation."""

    deviation: float

    def __post_init__(self) -> None:
        _require("Noise", "deviation", self.deviation, most=math.inf)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case with noise."""
        return case + self.deviation * rng.standard_normal(case.shape)


@dataclass(frozen=True)
class Scale:
    """Multiply all by one number, e to the power of a normal of this deviation."""

    deviation: float

    def __post_init__(self) -> None:
        _require("Scale", "deviation", self.deviation, most=math.inf)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case, larger or smaller."""
        return case * math.exp(self.deviation * rng.standard_normal())


@dataclass(frozen=True)
class Shift:
    """Move the case in time by up to this share of its length, either way, around its end."""

    share: float

    def __post_init__(self) -> None:
        _require("Shift", "share", self.share, most=1)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case, turned round in time."""
        most = round(self.share * case.shape[1])
        return np.roll(case, rng.integers(-most, most + 1), axis=1)


@dataclass(frozen=True)
class Rotate:
    """Turn I and Q, channels in pairs, by one angle of up to this share of a half turn, either way; 1 is any phase."""

    share: float

    def __post_init__(self) -> None:
        _require("Rotate", "share", self.share, most=1)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case at another phase.

        Raises:
            RecipeError: the number of channels is odd.
        """
        if case.shape[0] % 2:
            raise RecipeError(f"only I and Q can be rotated, channels in pairs, but there are {case.shape[0]}")
        angle = self.share * math.pi * rng.uniform(-1, 1)
        i, q = case[0::2], case[1::2]
        turned = np.empty_like(case)
        turned[0::2] = i * math.cos(angle) - q * math.sin(angle)
        turned[1::2] = i * math.sin(angle) + q * math.cos(angle)
        return turned


@dataclass(frozen=True)
class Crop:
    """Keep a stretch of the case, this share of it at least, anywhere; it becomes shorter."""

    share: float

    def __post_init__(self) -> None:
        _require("Crop", "share", self.share, most=1, above=True)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return a stretch of the case, of one frame at least."""
        length = case.shape[1]
        kept = rng.integers(max(1, math.ceil(self.share * length)), length + 1)
        start = rng.integers(length - kept + 1)
        return case[:, start : start + kept]


@dataclass(frozen=True)
class Mask:
    """Set a stretch of up to this share of the frames to 0, the mean, in all channels."""

    share: float

    def __post_init__(self) -> None:
        _require("Mask", "share", self.share, most=1)

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case with a gap."""
        length = case.shape[1]
        size = rng.integers(round(self.share * length) + 1)
        start = rng.integers(length - size + 1)
        masked = case.copy()
        masked[:, start : start + size] = 0
        return masked


@dataclass(frozen=True)
class Compose:
    """Several changes, one after the other."""

    changes: Sequence[Augment]

    def __call__(self, case: Floats, rng: np.random.Generator) -> Floats:
        """Return the case after all changes."""
        for change in self.changes:
            case = change(case, rng)
        return case


@dataclass(frozen=True)
class AugmentOptions:
    """The table ``[data.augment]``; 0 leaves a change out, and ``crop`` is left out at 1.

    Attributes:
        crop: a stretch is kept, this share of the frames at least.
        shift: moved in time by up to this share of the length, either way, around the end.
        scale: multiplied by e to the power of a normal of this deviation.
        rotate: I and Q turned by up to this share of a half turn, either way.
        mask: a gap of up to this share of the frames.
        noise: white noise of this deviation, in deviations of the training part.
    """

    crop: float = 1.0
    shift: float = 0.0
    scale: float = 0.0
    rotate: float = 0.0
    mask: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        self.build()

    def build(self) -> Augment | None:
        """Return the changes as one, in the order of the attributes; None if there is none.

        Raises:
            RecipeError: a number that its change cannot have.
        """
        changes: list[Augment] = []
        for item in fields(self):
            if (number := getattr(self, item.name)) != item.default:
                try:
                    changes.append(_KINDS[item.name](number))
                except RecipeError as error:
                    raise RecipeError(f"`data.augment.{item.name}`: {error}") from None
        return Compose(changes) if changes else None


_KINDS: Mapping[str, Callable[[float], Augment]] = {
    "crop": Crop,
    "shift": Shift,
    "scale": Scale,
    "rotate": Rotate,
    "mask": Mask,
    "noise": Noise,
}


def _require(name: str, what: str, value: float, *, most: float, above: bool = False) -> None:
    """Refuse a number that a change of this name cannot have; ``above`` says that it must not be 0."""
    if not (0 <= value <= most and value < math.inf) or (above and not value):
        wish = ("above 0" if above else "at least 0") + (f" and at most {most}" if most < math.inf else "")
        raise RecipeError(f"the {what} of {name} must be {wish}, but is {value}")
