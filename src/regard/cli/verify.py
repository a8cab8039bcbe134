"""The verb ``verify``: is a Transformer right?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.options import Threads


def verify(
    subject: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, or package.module:name.")],
    check: Annotated[
        list[str] | None, typer.Option(help="Run this check alone; may be repeated.", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)] = False,
    threads: Threads = None,
) -> None:
    """Check whether a Transformer is right.

    The model is one of Regard, or any torch.nn.Module: its class, or a function that makes one. Ends with 1 if a
    check failed.
    """
    from regard.cli.machine import set_up
    from regard.runs.looking.verify import verify as run

    set_up(threads, "cpu")
    report = run(subject, checks=check or (), seed=seed)
    typer.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.failed else 0)
