"""The command ``regard``: one file per verb, words and exit codes only; the work is done in `regard.runs`.

Exit codes: 0 done, 1 failed, 2 usage or input, 130 interrupted by Ctrl-C or SIGTERM. Results go to stdout, everything
else to stderr. A training has its own answer to both: it saves its state first, and after SIGTERM ends with 0.
Nothing here imports torch until a verb has read its words, so ``--help`` is quick and mistakes are told at once.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from regard import __version__
from regard.cli import (
    ablate,
    average,
    classify,
    demo,
    doctor,
    evaluate,
    inspect,
    machine,
    reseal,
    score,
    train,
    translate,
    verify,
)
from regard.errors import InterruptedRun, RegardError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,  # the plain help costs a third of the one drawn by rich
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda word: word.replace("_", "-"),  # --max_len is --max-len
    },
)

for verb in (
    train.train,
    translate.translate,
    classify.classify,
    evaluate.evaluate,
    score.score,
    inspect.inspect,
    verify.verify,
    ablate.ablate,
    average.average,
    demo.demo,
    doctor.doctor,
    reseal.reseal,
):
    app.command()(verb)

_TRAINING = {"train", "ablate", "demo"}


def main() -> NoReturn:
    """Run the command line of this process and leave it."""
    # OpenMP's threads spin while they wait; one other busy process then makes two threads fifty times slower than one.
    # It reads this when torch is loaded, which is later.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if next((word for word in sys.argv[1:] if not word.startswith("-")), "") in _TRAINING:
        machine.start_again_with_room()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    gc.freeze()  # or else every object of torch is visited on leaving, which takes longer than some commands
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command, such as ``["translate", "en-de"]``, and return its exit code; nothing is raised."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # UTF-8 and \n whatever the locale; tests may put other streams here
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        code = app(list(arguments), prog_name="regard", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as left:  # typer meets a broken pipe in its own way, with this
        return int(left.code or 0) if isinstance(left.code, int) else _reader_left()
    except typer.TyperException as mistake:  # a word of the command line that it does not know
        print(mistake.format_message() if not arguments else f"regard: {mistake.format_message()}", file=sys.stderr)
        return 2
    except RegardError as error:
        _trace(arguments)
        if not (isinstance(error, InterruptedRun) and os.environ.get("RANK", "0") != "0"):  # the first process says it
            _say(str(error))
        return error.exit_code
    except OSError as error:  # a full disk, a folder without the right to write
        _trace(arguments)
        _say(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except _Terminated:
        _say("ended by SIGTERM; results that were finished are written")
        return 130
    except Exception as error:
        if not _trace(arguments):
            _say(
                f"this is a fault in regard: {type(error).__name__}: {error}. "
                "Its traceback is shown by: regard --debug ... with the same words"
            )
        return 1


class _Terminated(BaseException):
    """SIGTERM came: no error, so that nobody on the way takes it for one; what is open closes, and workers end."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _print_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return asked


@app.callback(no_args_is_help=True)
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Transformers: train them on pairs of text or on signals, use them, measure them."""


def _say(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)


def _trace(arguments: Sequence[str]) -> bool:
    """Print the traceback if ``--debug`` stands before the verb; return whether it did."""
    asked = "--debug" in arguments[:1]
    if asked:
        traceback.print_exc()
    return asked


def _reader_left() -> int:
    """Whoever read stdout has closed it: point it at nothing, so that the interpreter's last flush stays quiet too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
