"""Where is the model in a folder that somebody names, and of which kind is it? Found out without loading it."""

from __future__ import annotations

import json
from pathlib import Path

from regard.errors import FolderError
from regard.storage import MANIFEST

MODEL = "model"
"""The folder, inside a run folder, where the finished model is."""

CONFIG = "config.json"
"""The file, inside a model folder, that says what it holds."""


def model_folder(folder: str | Path) -> Path:
    """Return ``folder`` if it is that of a model, or the folder of the model inside if it is that of a run.

    Raises:
        FolderError: there is no model.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FolderError(f"there is no model folder {folder}")
    if (folder / CONFIG).is_file():
        return folder
    if (folder / MODEL / MANIFEST).is_file():
        return folder / MODEL
    if (folder / "checkpoints").is_dir():
        raise FolderError(f"{folder} is a run without a finished model yet; `regard average {folder}` makes one")
    raise FolderError(f"{folder} is not a model folder: it holds no {CONFIG}")


def is_classifier(folder: str | Path) -> bool:
    """Whether a model or run folder holds a classifier of signals; False too for what cannot be read."""
    try:
        return "classes" in json.loads((model_folder(folder) / CONFIG).read_bytes())
    except (FolderError, OSError, ValueError, TypeError, RecursionError):
        return False
