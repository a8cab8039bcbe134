"""The verb ``average``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    last: Annotated[int | None, typer.Option(min=1, help="The newest so many checkpoints.", show_default=False)] = None,
    best: Annotated[int | None, typer.Option(min=1, help="The best so many.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The model folder.", show_default="RUN/model")
    ] = None,
) -> None:
    """Make a model folder of several checkpoints.

    Its weights are the mean of theirs; one checkpoint is taken as it is.
    """
    if (last is None) == (best is None):
        raise typer.BadParameter("say how many with --last or --best", param_hint="--last")
    from regard.runs.export import export
    from regard.runs.folder import RunFolder

    folder = RunFolder(run)
    updates = export(folder, "last", last, out) if last is not None else export(folder, "best", best or 1, out)
    typer.echo(f"{out or folder.model}: mean of update {', '.join(map(str, updates))}", err=True)
