"""Several programs do the same work in turn, so that what the machine does meanwhile falls on all of them.

Each side lives in a process of its own, because an allocator setting or a thread pool belongs to a process. A side
that is not on waits for a line and uses no processor.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

Work = Callable[[int], int]
"""Does piece number i and returns how many units (tokens, sentences) it had."""


@dataclass(frozen=True)
class Times:
    """What one side took.

    Attributes:
        seconds: per piece, in the order of the pieces.
        units: per piece.
        peak_bytes: the most memory its process held.
    """

    seconds: Sequence[float]
    units: Sequence[int]
    peak_bytes: int

    @property
    def rate(self) -> float:
        """The median of units per second."""
        return statistics.median(n / s for n, s in zip(self.units, self.seconds, strict=True))

    def speed_against(self, other: Times) -> list[float]:
        """Return, piece by piece, how many times faster this side was."""
        return [b / a for a, b in zip(self.seconds, other.seconds, strict=True)]


def take_turns(
    sides: dict[str, Callable[[], Work]],
    pieces: int,
    *,
    warm_up: int = 2,
    environments: Mapping[str, Mapping[str, str] | None] | None = None,
) -> dict[str, Times]:
    """Let every side do pieces 0 to ``pieces`` - 1 in turn, after ``warm_up`` that are not counted.

    Args:
        sides: by name, what makes the side's work in its own process; it must be importable or a partial of such.
        pieces: how many are counted.
        warm_up: how many are done before; they are the last pieces once more.
        environments: by name, the environment in which a side's process starts, where it is not this one's.
    """
    context = multiprocessing.get_context("spawn")
    lines: dict[str, Connection] = {}
    children = []
    for name, make in sides.items():
        lines[name], far = context.Pipe()
        children.append(context.Process(target=_serve, args=(far, make), daemon=True))
        with started_in((environments or {}).get(name)):
            children[-1].start()
        lines[name].recv()  # sides are made one after the other: making is work too
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    units: dict[str, list[int]] = {name: [] for name in sides}
    order = list(sides)
    for turn in range(-warm_up, pieces):
        for name in order:
            lines[name].send(turn % pieces)
            taken, count = lines[name].recv()
            if turn >= 0:
                seconds[name].append(taken)
                units[name].append(count)
        order.append(order.pop(0))  # nobody is always first
    peaks = {}
    for name, line in lines.items():
        line.send(None)
        peaks[name] = line.recv()
    for child in children:
        child.join()
    return {name: Times(seconds[name], units[name], peaks[name]) for name in sides}


@contextmanager
def started_in(environment: Mapping[str, str] | None) -> Iterator[None]:
    """While entered, a process that starts has this environment."""
    here = dict(os.environ)
    os.environ.update(environment or {})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(here)


def _serve(line: Connection, make: Callable[[], Work]) -> None:
    work = make()
    line.send("ready")
    while (piece := line.recv()) is not None:
        began = time.perf_counter()
        count = work(piece)
        line.send((time.perf_counter() - began, count))
    line.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def table(times: dict[str, Times], unit: str, base: str) -> str:
    """Return one line per side: rate, median ratio to ``base`` and its range, peak memory."""
    width = max(map(len, times))
    lines = [f"{'':{width}}  {unit + '/s':>14}  {'× ' + base:>20}  {'peak memory':>12}"]
    for name, side in times.items():
        ratios = side.speed_against(times[base])
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(f"{name:{width}}  {side.rate:14,.1f}  {spread:>20}  {side.peak_bytes / 2**20:9,.0f} MB")
    return "\n".join(lines)
