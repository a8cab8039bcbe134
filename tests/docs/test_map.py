"""The README's map of the house has one line for each file: its docstring's first sentence."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"


def sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path} says nothing of itself"
    return " ".join(docstring.split("\n\n")[0].split())


def house() -> str:
    lines = []
    for folder in [SOURCE, *sorted(path for path in SOURCE.rglob("*") if path.is_dir())]:
        files = sorted(folder.glob("*.py"))
        if not files:
            continue
        room = folder.relative_to(SOURCE).as_posix()
        lines.append("regard/" if room == "." else f"{room}/")
        lines += [f"  {path.name:20} {sentence(path)}" for path in files]
    return "\n".join(lines)


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_every_file_has_its_line(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert f"```text\n{house()}\n```" in text, "the map is out of date; run: python tests/docs/test_map.py"


if __name__ == "__main__":
    for name in ("README.md", "README.zh.md"):
        path = ROOT / name
        before, _, rest = path.read_text(encoding="utf-8").partition("```text\nregard/\n")
        path.write_text(f"{before}```text\n{house()}\n```{rest.partition('```')[2]}", encoding="utf-8")
