"""How does a stream of lines become a stream of translations? In chunks, in order, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.data import read_lines
from regard.device import best_device
from regard.runs.saying import Say, say_on_stderr
from regard.runs.translating.filter import Done, Filter, FilterOptions
from regard.runs.translating.output import Put, printer, refuse_output
from regard.runs.translating.tally import Tally
from regard.runs.waiting import telling

_CHUNK_LINES, _CHUNK_CHARACTERS = 1024, 1 << 18
"""Lines that are sorted by length and translated together: enough to fill batches, little enough to keep in memory."""

_CHUNK_OF_WORKER = 256
_ENOUGH = 20  # lines after which most outputs being empty, or the same, is no accident

Pauses = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Within ``pauses(f)`` f is called before each wait for more input."""


@runtime_checkable
class _Engine(Protocol):
    """Chunks go in, results come out in their order, perhaps later."""

    def submit(self, first: int, lines: Sequence[str], where: str) -> Iterator[Done]: ...

    def drain(self) -> Iterator[Done]: ...


class _Alone:
    """A filter in this process."""

    def __init__(self, filter_: Filter) -> None:
        self._filter = filter_

    def submit(self, first: int, lines: Sequence[str], where: str) -> Iterator[Done]:
        yield self._filter(first, lines, where)

    def drain(self) -> Iterator[Done]:
        yield from ()


def translate(
    options: FilterOptions,
    *,
    source: str | Path = "-",
    output: Path | None = None,
    workers: int = 1,
    device: str = "auto",
    threads: int | None = None,
    pauses: Pauses = lambda _: nullcontext(),
    say: Say = say_on_stderr,
) -> None:
    """Translate the lines of a file, one result for each, in order.

    Args:
        options: what is asked.
        source: the file; ``-`` is standard input.
        output: the file of results; None is stdout.
        workers: processes that share the work; 1 is this one.
        device: where to compute.
        threads: of each further process; left out, they share the cores.
        pauses: tells when the input pauses: what is there is then translated and written.
        say: told what the results do not show.

    Raises:
        InputError: a file, an option or a model cannot be used.
        RegardError: a worker has died.
    """
    refuse_output(output, [source])
    for kind, given in (("glossary", options.glossary), ("dictionary", options.dictionary)):
        if given is not None and not given.terms:
            say(f"the {kind} is empty, so nothing is asked of it")
    with _engine(options, workers, str(best_device(device)), threads, say) as engine, printer(output) as put:
        stream = _Stream(engine, put, str(source), _CHUNK_LINES if workers == 1 else _CHUNK_OF_WORKER, say)
        with pauses(stream.flush):
            for line in read_lines(source):
                stream.add(line)
            stream.flush()
    stream.warn(least=1)
    for sentence in stream.tally.sentences():
        say(sentence)


@contextmanager
def _engine(options: FilterOptions, workers: int, device: str, threads: int | None, say: Say) -> Iterator[_Engine]:
    loading = telling(f"loading {' '.join(options.models)}", say)
    if workers == 1:
        with loading:
            filter_ = Filter(options, device)
        yield _Alone(filter_)
        return
    from regard.runs.translating.workers import Workers

    with loading:
        started = Workers(options, workers, device, threads)
    with started:
        yield started


class _Stream:
    """Lines that wait to be translated together, and the results that are written."""

    def __init__(self, engine: _Engine, put: Put, source: str, chunk_lines: int, say: Say) -> None:
        self._engine, self._put, self._chunk_lines, self._say = engine, put, chunk_lines, say
        self._where = "standard input" if source == "-" else source
        self._lines: list[str] = []
        self._characters = self._number = 0
        self._warned = False
        self.tally = Tally()

    def add(self, line: str) -> None:
        """Take one line more, and hand them on when there are enough."""
        self._lines.append(line)
        self._characters += len(line)
        if len(self._lines) >= self._chunk_lines or self._characters >= _CHUNK_CHARACTERS:
            self._submit()

    def flush(self) -> None:
        """Translate and write all lines that wait."""
        if self._lines:
            self._submit()
        for done in self._engine.drain():
            self._write(done)

    def _submit(self) -> None:
        lines, self._lines, self._characters = self._lines, [], 0
        for done in self._engine.submit(self._number, lines, self._where):
            self._write(done)
        self._number += len(lines)

    def _write(self, done: Done) -> None:
        self._put(done.written)
        self.tally += done.tally
        self.warn(least=_ENOUGH)

    def warn(self, *, least: int) -> None:
        """Say once if the outputs are those of a model that has learned nothing, out of ``least`` lines at least."""
        warning = None if self._warned else self.tally.doubt(least=least)
        if warning:
            self._warned = True
            self._say(warning)
