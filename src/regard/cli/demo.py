"""The verb ``demo``: a pronouncer, trained in five minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, Quiet, Threads


def demo(
    minutes: Annotated[float, typer.Option(help="Minutes of training, all calls added.")] = 5.0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where all is kept.")] = Path("demo"),
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Learn to pronounce English in five minutes.

    A dictionary is learned but for some words, which are then pronounced, measured and shown.
    """
    from regard.cli.machine import set_up
    from regard.runs.demo import demo as run

    set_up(threads, device)
    for line in run(out, minutes, device=device, quiet=quiet):
        typer.echo(line)
