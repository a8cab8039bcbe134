"""The verb ``doctor``: does all work on this machine?"""

from __future__ import annotations

import typer

from regard.cli.options import Device, Threads


def doctor(device: Device = "auto", threads: Threads = None) -> None:
    """Try whether all works on this machine.

    Prints versions and devices, and trains for ten seconds a model that must learn to copy.
    """
    from regard.cli.machine import set_up
    from regard.runs.doctor import examine, facts

    set_up(threads, device)
    for name, value in facts().items():
        typer.echo(f"{name:12} {value}")
    typer.echo(f"{'training':12} {examine(device)}")
