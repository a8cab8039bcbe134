"""How do several processes translate one stream of lines? In order, in bounded memory, and not without saying so.

Each worker loads the models for itself and has one chunk of lines at a time. What comes back too early waits, and the
reading waits when too much does.

::

    chunks ──┬─► worker 1 ─┐
             ├─► worker 2 ─┼─► results, in the order of the chunks
             └─► worker 3 ─┘
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from regard.errors import InputError, RegardError
from regard.runs.translating.filter import Done, Filter, FilterOptions
from regard.runs.translating.tally import Tally

_WAITING = 3  # chunks per worker that are read and not yet written


class Workers:
    """Processes that translate chunks of lines; to be closed, as a context manager does.

    Args:
        options: what is asked.
        count: of processes.
        device: where to translate; ``cuda`` spreads them over all GPUs.
        threads: processor threads of each; left out, the cores are shared.

    Raises:
        InputError: a worker cannot use what is asked.
        RegardError: a worker has died.
    """

    def __init__(self, options: FilterOptions, count: int, device: str, threads: int | None) -> None:
        threads = threads or max(1, (os.cpu_count() or 1) // count)
        context = get_context("spawn")  # a copy of a process in which torch has run may hang
        self._count = count
        self._connections: list[Connection] = []
        self._processes = []
        self._busy: dict[int, int] = {}  # worker -> chunk
        self._results: dict[int, Done] = {}
        self._sent = self._given = 0
        try:
            with _deaf():
                for number in range(count):
                    ours, theirs = context.Pipe()
                    arguments = (theirs, options, _spread(device, number), threads)
                    process = context.Process(target=_serve, args=arguments, daemon=True)
                    process.start()
                    theirs.close()
                    self._connections.append(ours)
                    self._processes.append(process)
                    self._busy[number] = -1  # the models
            while self._busy:
                self._receive()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, first: int, lines: Sequence[str], where: str) -> Iterator[Done]:
        """Hand over a chunk, and yield what is ready, in order."""
        while len(self._busy) == self._count or self._sent - self._given >= _WAITING * self._count:
            self._receive()
            yield from self._ready()
        worker = next(number for number in range(self._count) if number not in self._busy)
        with suppress(BrokenPipeError):  # it has died, which the next look tells
            self._connections[worker].send_bytes(json.dumps([first, list(lines), where]).encode())
        self._busy[worker] = self._sent
        self._sent += 1
        yield from self._ready()

    def drain(self) -> Iterator[Done]:
        """Yield the rest, in order."""
        while self._given < self._sent:
            yield from self._ready()
            if self._busy:
                self._receive()

    def close(self) -> None:
        """End the processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _ready(self) -> Iterator[Done]:
        while self._given in self._results:
            yield self._results.pop(self._given)
            self._given += 1

    def _receive(self) -> None:
        """Wait until at least one worker has an answer, and keep it."""
        workers = {self._connections[number]: number for number in self._busy}
        for connection in wait(list(workers)):
            number = workers[connection]  # type: ignore[index]
            try:
                answer: dict[str, Any] = json.loads(self._connections[number].recv_bytes())
            except (EOFError, OSError):
                raise RegardError(self._obituary(number)) from None
            if "error" in answer:
                raise (InputError if answer["code"] == InputError.exit_code else RegardError)(answer["error"])
            chunk = self._busy.pop(number)
            if chunk >= 0:
                self._results[chunk] = Done(answer["written"], Tally(**answer["tally"]))

    def _obituary(self, number: int) -> str:
        self._processes[number].join(timeout=5)
        code = self._processes[number].exitcode
        how = f"by signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        return (
            f"worker {number + 1} of {self._count} has ended {how}, and its lines are not translated; "
            "if memory ran out, fewer workers need less"
        )


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes started in the block not hear Ctrl-C, which reaches the whole group: this one ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(connection: Connection, options: FilterOptions, device: str, threads: int) -> None:
    """Answer chunk by chunk, until nobody asks any more."""
    torch.set_num_threads(threads)
    with suppress(BrokenPipeError, EOFError, ConnectionResetError):
        try:
            work = Filter(options, device)
            connection.send_bytes(b"{}")
            while True:
                done = work(*json.loads(connection.recv_bytes()))
                connection.send_bytes(json.dumps({"written": done.written, "tally": asdict(done.tally)}).encode())
        except RegardError as error:
            connection.send_bytes(json.dumps({"error": str(error), "code": error.exit_code}).encode())


def _spread(device: str, number: int) -> str:
    return f"cuda:{number % torch.cuda.device_count()}" if device == "cuda" else device
