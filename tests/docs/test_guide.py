"""The Python of the guide runs as it stands, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize("page", ["en.md", "zh.md"])
def test_the_blocks_run_one_after_the_other(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a page may be written
    blocks = re.findall(r"```python\n(.*?)```", (GUIDE / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert list(names["logits"].shape) == [2, 3, 13]  # type: ignore[attr-defined]
    assert "case 0" in (page_written := Path("why.html").read_text(encoding="utf-8"))  # as errors count cases
    assert "case 5" not in page_written
