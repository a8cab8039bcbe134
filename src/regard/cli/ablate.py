"""The verb ``ablate``: variants of a recipe, trained and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Data, Device, Quiet, Threads


def ablate(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A TOML file.")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUES", help="model.positions=none,learned; repeated, all combinations are trained."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each variant.")] = 3,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", show_default="runs/ablate-RECIPE", help="For all.")
    ] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)] = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train variants of a recipe and compare them.

    Prints mean and spread over seeds, and writes all figures and a picture. The same command goes on where it stopped.
    """
    from regard.cli.machine import set_up
    from regard.runs.looking.ablate import ablate as run
    from regard.runs.looking.ablate import table_lines
    from regard.runs.saying import say_nothing, say_on_stderr

    set_up(threads, device)
    say = say_nothing if quiet else say_on_stderr
    outcomes = run(recipe, vary, seeds=seeds, out=out, data=data, device=device, quiet=quiet, say=say)
    found = [outcome.to_json() for outcome in outcomes]
    for line in [json.dumps(found, ensure_ascii=False)] if as_json else table_lines(outcomes):
        typer.echo(line)
