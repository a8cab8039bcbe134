"""Options that several verbs share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Models = Annotated[
    list[Path] | None,
    typer.Argument(metavar="MODEL...", help="Model folders, or the folders of runs.", show_default=False),
]
ModelOptions = Annotated[
    list[Path] | None,
    typer.Option("--model", "-m", metavar="FOLDER", help="The same, as an option; may be repeated."),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where relative paths start.", show_default="the recipe's folder"),
]
Beam = Annotated[
    int | None,
    typer.Option("--beam", "-b", "--beam-size", min=1, max=1000, help="Beam width.", show_default="the model's recipe"),
]
X = Annotated[
    str | None,
    typer.Option("--x", metavar="ARRAY", help="Signals of an .npz file.", show_default="the model's recipe"),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Labels: array of an .npz file, column of a .csv, file beside an .npy.",
        show_default="the model's recipe",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(metavar="ARRAY", help="Lengths of cases of an .npz file.", show_default="the model's recipe"),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Processor threads.", show_default="as many as there are cores")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", show_default=False)]


def one_or_more_models(arguments: list[Path] | None, options: list[Path] | None) -> list[Path]:
    """Return the model folders, which may be given in either way but not in both."""
    if bool(arguments) == bool(options):
        told = "as the first word or with -m, and not both" if arguments else "as the first word or with -m"
        raise typer.BadParameter(f"name the model folder, {told}", param_hint="MODEL")
    return list(arguments or options or ())
