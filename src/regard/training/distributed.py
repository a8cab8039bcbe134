"""Several processes, one run: who they are, what they must agree on, and how the fault of one ends them all.

::

    torchrun --nproc-per-node 4 -m regard train recipe.toml --out en-de

torch's launcher starts the processes and tells each its rank through the environment. All go through the same code in
step, each with its share of every update; what one decides alone (a signal, a clock, a file) it tells the others here.
Only the first process writes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from regard.errors import InputError, InterruptedRun, RegardError, TrainingError

TIME_LIMIT = timedelta(minutes=10)
"""How long a process waits for the others, which all work on shares of the same size."""

_FAULT = "regard fault"
_LOOK_EVERY = 0.05  # seconds
_SIGNS_OF_LOSS = ("/gloo/", "NCCL", "Connection closed by peer", "Connection reset by peer")


class Ranks:
    """The processes of a run, seen from one of them; without arguments, one that is alone.

    Args:
        rank: of this process, from 0.
        world: how many there are.
        store: where they leave messages for each other.
        device: where this one computes.
    """

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        store: dist.Store | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.rank, self.world, self.store = rank, world, store
        self.device = device or torch.device("cpu")
        self._turns = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """Return the sum of each number over all processes, the same for all, in double precision."""
        return self._reduce(numbers, dist.ReduceOp.SUM)

    def most(self, *numbers: float) -> list[float]:
        """Return the largest of each number over all processes."""
        return self._reduce(numbers, dist.ReduceOp.MAX)

    def of_first(self, *numbers: float) -> list[float]:
        """Return the numbers of the first process."""
        return self.sum(*(numbers if self.is_first else [0.0] * len(numbers)))

    def gather(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the texts of every process, by rank, the same for all."""
        if self.world == 1:
            return [list(texts)]
        written = torch.frombuffer(bytearray(json.dumps(list(texts)).encode()), dtype=torch.uint8)
        sizes = torch.zeros(self.world, dtype=torch.int64)
        sizes[self.rank] = len(written)
        with _in_touch():
            dist.all_reduce(sizes)
            padded = torch.zeros(int(sizes.max()), dtype=torch.uint8)
            padded[: len(written)] = written
            found = [torch.zeros_like(padded) for _ in range(self.world)]
            dist.all_gather(found, padded)
        return [
            json.loads(bytes(row[:size].tolist()).decode()) for row, size in zip(found, sizes.tolist(), strict=True)
        ]

    @contextmanager
    def first(self) -> Iterator[None]:
        """The first process goes through the ``with`` block alone, and the others when it has; that has no time limit.

        Raises:
            TrainingError: it failed, and how.
        """
        self._turns += 1
        over = f"regard turn {self._turns}"
        while self.store and not self.is_first and not self._look(over):
            time.sleep(_LOOK_EVERY)
        yield
        if self.store and self.is_first:
            self.store.set(over, "")

    def blame(self, error: BaseException) -> str:
        """Leave word of what went wrong here, unless another was before; return the first fault as rank and words."""
        words = f"{self.rank} {str(error) or type(error).__name__}"
        try:
            return words if self.store is None else str(self.store.compare_set(_FAULT, "", words).decode())
        except RuntimeError:  # whoever kept the messages is no more
            return words

    def _look(self, key: str) -> bool:
        assert self.store is not None
        with _in_touch():
            if self.store.check([_FAULT]):
                rank, _, words = self.store.get(_FAULT).decode().partition(" ")
                raise TrainingError(_told(rank, self.world, words))
            return bool(self.store.check([key]))

    def _reduce(self, numbers: Sequence[float], how: dist.ReduceOp.RedOpType) -> list[float]:
        if self.world == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        with _in_touch():
            dist.all_reduce(values, op=how)
        return list(values.tolist())


ALONE = Ranks()
"""One process."""


def launched() -> bool:
    """Return whether a launcher has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(device: torch.device, *, limit: timedelta = TIME_LIMIT) -> Iterator[Ranks]:
    """Be one of the processes that a launcher has started, for the length of a ``with`` block; or be alone.

    Args:
        device: where this process computes.
        limit: how long it waits for the others.

    Raises:
        InputError: the device cannot be shared in this way.
        TrainingError: another process failed; the first fault is told.
    """
    if not launched():
        yield Ranks(device=device)
        return
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"several processes train on processors or CUDA devices, not on {device.type!r}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store, rank, world = next(rendezvous("env://", timeout=limit))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    ranks = Ranks(rank, world, store, device)
    try:
        yield ranks
    except InterruptedRun:  # all have stopped at the same update
        raise
    except Exception as error:
        # in the middle of a backward pass torch itself finds that another is gone
        is_lost = not isinstance(error, RegardError) and any(sign in str(error) for sign in _SIGNS_OF_LOSS)
        fault = _lost(error) if is_lost else error
        first, _, words = ranks.blame(fault).partition(" ")
        if int(first) != rank:
            raise TrainingError(_told(first, world, words)) from error
        if is_lost:
            raise fault from error
        raise
    ranks.sum(1)  # nobody leaves before all are done: the first may keep the messages
    dist.destroy_process_group()


@contextmanager
def _in_touch() -> Iterator[None]:
    """Tell in words when another process cannot be reached any more."""
    try:
        yield
    except RuntimeError as error:
        raise _lost(error) from error


def _lost(error: Exception) -> TrainingError:
    reason = str(error).split("\n", 1)[0]
    return TrainingError(f"lost touch with another process of the run, which was killed or hangs: {reason}")


def _told(rank: str, world: int, words: str) -> str:
    return f"process {rank} of {world} ended the run: {words}"
