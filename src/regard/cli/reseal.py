"""The verb ``reseal``: files of a model folder that were changed by hand are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reseal(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A model folder.")]) -> None:
    """Accept files of a model folder changed by hand."""
    from regard.errors import FolderError
    from regard.folders import MODEL
    from regard.storage import MANIFEST
    from regard.storage import reseal as run

    if (folder / MODEL / MANIFEST).is_file() and not (folder / MANIFEST).is_file():
        raise FolderError(f"{folder} is the folder of a run; its model is in {folder / MODEL}: name that")
    run(folder)
