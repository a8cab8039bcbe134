"""The verb ``reseal``: files of a model folder that were changed by hand are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reseal(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A model folder, or the folder of a run.")],
) -> None:
    """Accept files of a model folder changed by hand."""
    from regard.folders import model_folder
    from regard.storage import reseal as run

    run(model_folder(folder))
