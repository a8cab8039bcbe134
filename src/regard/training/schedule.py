"""How large each step is: from the number of the update, counted from 1, to the learning rate.

Pure functions of the update: nothing counts by itself, so nothing can be counted twice or forgotten on resuming. All
rise linearly over ``warmup`` updates, and the first update already has a rate above zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(step: int, *, rate: float, warmup: int = 0) -> float:
    """Return ``rate * min(1, step / warmup)``."""
    return rate * _rise(step, warmup)


def linear(step: int, *, rate: float, updates: int, warmup: int = 0) -> float:
    """Fall in a straight line, from ``rate`` at the end of the warm-up to zero one step after update ``updates``."""
    return rate * _rise(step, warmup) * (1 - _way_down(step, updates, warmup))


def cosine(step: int, *, rate: float, updates: int, warmup: int = 0) -> float:
    """Fall along half a cosine, from ``rate`` at the end of the warm-up to zero one step after update ``updates``."""
    return rate * _rise(step, warmup) * (1 + math.cos(math.pi * _way_down(step, updates, warmup))) / 2


def inverse_sqrt(step: int, *, rate: float, warmup: int) -> float:
    """Return ``rate * min(step / warmup, sqrt(warmup / step))``, highest (``rate``) at update ``warmup``."""
    return rate * min(step / warmup, math.sqrt(warmup / step))


def noam(step: int, *, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return ``factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5)`` (Vaswani et al. 2017, equation 3)."""
    return factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3)


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


def _way_down(step: int, updates: int, warmup: int) -> float:
    """Return 0 up to the end of the warm-up (or update 1), and 1 one step after the last update."""
    start = max(warmup, 1)
    return min(1.0, max(0.0, (step - start) / (updates + 1 - start))) if updates >= start else 0.0
