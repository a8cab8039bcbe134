"""The verb ``average``: a model folder from several checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Quiet, Threads


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    last: Annotated[int | None, typer.Option(min=1, help="The newest so many checkpoints.", show_default=False)] = None,
    best: Annotated[int | None, typer.Option(min=1, help="The best so many.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="A new folder, for the model.", show_default="RUN/model"),
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Make a model folder of several checkpoints.

    Its weights are the mean of theirs; one checkpoint is taken as it is. Without --last and --best the recipe of the
    run decides, as at the end of its training.
    """
    if last is not None and best is not None:
        raise typer.BadParameter("give --last or --best, not both", param_hint="--last")
    from regard.cli.machine import set_up
    from regard.runs.training.export import export_as_asked, export_in_words
    from regard.runs.training.folder import RunFolder

    set_up(threads, "cpu")
    folder = RunFolder(run)
    if last is None and best is None:
        said = export_as_asked(folder, out)
    else:
        said = export_in_words(folder, "last" if last is not None else "best", last or best or 1, out)
    if not quiet:
        typer.echo(f"{out or folder.model}: {said}", err=True)
