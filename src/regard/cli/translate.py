"""The verb ``translate``: a filter. One line out for each line in, in order, as soon as the input pauses."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from regard.cli.options import Beam, Device, Model, ModelOption, Quiet, Threads, one_model
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.generation import SearchOptions
    from regard.translation import Translation
    from regard.translator import Translator

_CHUNK_LINES, _CHUNK_CHARACTERS = 1024, 1 << 18
"""Lines that are sorted by length and translated together: enough to fill batches, little enough to keep in memory."""


def translate(
    model: Model = None,
    model_option: ModelOption = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Lines to translate.", show_default="stdin")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where results go.", show_default="stdout")
    ] = None,
    beam: Beam = None,
    nbest: Annotated[
        int,
        typer.Option("--nbest", "-n", min=1, max=1000, help="More than 1: lists of 'id ||| text ||| parts ||| score'."),
    ] = 1,
    length_penalty: Annotated[
        float | None,
        typer.Option("--length-penalty", "--lenpen", help="Higher is longer.", show_default="the model's recipe"),
    ] = None,
    max_len: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of an output.", show_default="the model's recipe")
    ] = None,
    min_len: Annotated[int | None, typer.Option(min=0, help="Fewest tokens of an output.", show_default=False)] = None,
    tag: Annotated[str, typer.Option(help="Put before every line, for models with tags.", show_default=False)] = "",
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="A JSON object a line: source, translation, score.", show_default=False)
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Translate lines: one out for each one in.

    An empty line gives an empty line; order is kept; what is there is written whenever the input pauses.
    """
    folder = one_model(model, model_option)
    if output_file is not None and str(output_file) != "-":
        _refuse_output(output_file, input_file)
    from regard.cli.machine import set_up
    from regard.cli.pauses import pauses
    from regard.data import read_lines
    from regard.runs.train import best_device
    from regard.translator import load

    set_up(threads, device)
    translator = load(folder, best_device(device))
    wishes = {"length_penalty": length_penalty, "max_length": max_len, "min_length": min_len}
    given: dict[str, Any] = {key: value for key, value in wishes.items() if value is not None}
    width = max(beam or translator.search.beam, nbest if beam is None else 1)
    plain: dict[str, Any] = {} if beam is None else {"groups": 1, "sampling": None}
    search = replace(translator.search, beam=width, nbest=nbest, **plain, **given)
    form = as_jsonl if jsonl else as_nbest if nbest > 1 else as_text
    with _printer(output_file) as put:
        chunk = Chunk(translator, search, tag, form, put)
        with pauses(chunk.flush):
            for line in read_lines(input_file or "-"):
                chunk.add(line)
            chunk.flush()
    if not quiet:
        chunk.tell()


@dataclass
class Chunk:
    """Lines that wait to be translated together.

    Attributes:
        translator: what translates.
        search: how.
        tag: put before every line.
        form: (number of the line from 0, the line, its translations) to the lines written.
        put: writes lines, and hands them on at once.
        lines: those that wait.
        done: lines translated so far.
        cut: how many of them were too long to be read whole.
        unfinished: how many outputs were cut at the longest length allowed.
    """

    translator: Translator
    search: SearchOptions
    tag: str
    form: Callable[[int, str, Sequence[Translation]], Iterator[str]]
    put: Callable[[list[str]], None]
    lines: list[str] = field(default_factory=list)
    characters: int = 0
    done: int = 0
    cut: int = 0
    unfinished: int = 0

    def add(self, line: str) -> None:
        """Take one line more, and translate when there are enough."""
        self.lines.append(line)
        self.characters += len(line)
        if len(self.lines) >= _CHUNK_LINES or self.characters >= _CHUNK_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Translate and write the lines that wait."""
        lines, self.lines, self.characters = self.lines, [], 0
        if not lines:
            return
        results = self.translator.translate(lines, self.search, tag=self.tag)
        written: list[str] = []
        for number, (line, found) in enumerate(zip(lines, results, strict=True), self.done):
            self.cut += found[0].source_cut
            self.unfinished += not found[0].finished
            written += self.form(number, line, found)
        self.put(written)
        self.done += len(lines)

    def tell(self) -> None:
        """Say on stderr what a reader of the results would not see."""
        if self.cut:
            print(f"{self.cut:,} lines were longer than the model reads; their ends were left out", file=sys.stderr)
        if self.unfinished:
            print(f"outputs cut at the longest length allowed: {self.unfinished:,}", file=sys.stderr)


def as_text(number: int, line: str, found: Sequence[Translation]) -> Iterator[str]:
    """Yield the best translation."""
    yield found[0].text


def as_nbest(number: int, line: str, found: Sequence[Translation]) -> Iterator[str]:
    """Yield Moses' n-best lines, numbered from 0: ``0 ||| text ||| logprob= -1.25 ||| -0.97``."""
    for one in found:
        yield f"{number} ||| {one.text} ||| logprob= {one.log_prob:.6f} ||| {one.score:.6f}"


def as_jsonl(number: int, line: str, found: Sequence[Translation]) -> Iterator[str]:
    """Yield one object: source, translation, score, and ``nbest`` if there are several."""
    best = found[0]
    facts: dict[str, Any] = {"source": line, "translation": best.text, "score": best.score, "log_prob": best.log_prob}
    if len(found) > 1:
        facts["nbest"] = [{"translation": one.text, "score": one.score, "log_prob": one.log_prob} for one in found]
    yield json.dumps(facts, ensure_ascii=False)


@contextmanager
def _printer(path: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Give what writes lines to ``path``, which keeps its content until there is something to write."""
    with ExitStack() as opened:
        file: TextIO | None = sys.stdout if path is None or str(path) == "-" else None

        def put(lines: list[str]) -> None:
            nonlocal file
            if file is None:
                assert path is not None
                try:
                    file = opened.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                except OSError as error:
                    raise InputError(f"{path}: cannot be written ({error.strerror})") from None
            file.writelines(f"{line}\n" for line in lines)
            file.flush()

        yield put
        put([])  # no lines in, an empty file out


def _refuse_output(output: Path, source: Path | None) -> None:
    """Refuse, before anything is loaded, an output that is the input too or that has no folder to be in."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(f"{output}: cannot be written; name a file in a folder that exists")
    reads = _status(source)
    if reads is not None and output.is_file() and os.path.samestat(output.stat(), reads):
        raise InputError(f"{output} is the input as well; write to another file")


def _status(source: Path | None) -> os.stat_result | None:
    """Return what identifies the file that is read, if there is one."""
    try:
        return os.fstat(sys.stdin.fileno()) if source is None or str(source) == "-" else source.stat()
    except OSError:  # no such file, which is told when it is read; or an input that is no file
        return None
