"""Where a model is, and of what kind, known without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import FolderError
from regard.folders import is_classifier, model_folder


def test_a_run_has_its_model_inside(tmp_path: Path) -> None:
    for folder in (tmp_path / "run" / "model", tmp_path / "alone"):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "manifest.json").write_text("{}")
    assert model_folder(tmp_path / "run") == tmp_path / "run" / "model"
    assert model_folder(tmp_path / "alone") == tmp_path / "alone"
    (tmp_path / "file").write_text("x")
    for name in ("nowhere", "file"):
        with pytest.raises(FolderError, match="there is no model folder"):
            model_folder(tmp_path / name)
    with pytest.raises(FolderError, match=r"holds no config\.json"):
        model_folder(tmp_path)


@pytest.mark.parametrize(
    ("config", "answer"),
    [(b'{"classes": ["a"]}', True), (b'{"spec": {}}', False), (b"{", False), (b"3", False), (b"[" * 100_000, False)],
)
def test_a_classifier_names_its_classes(tmp_path: Path, config: bytes, answer: bool) -> None:
    (tmp_path / "config.json").write_bytes(config)
    assert is_classifier(tmp_path) is answer
    assert not is_classifier(tmp_path / "nowhere")
