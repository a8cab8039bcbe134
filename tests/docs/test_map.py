"""docs/map.md has one line for each file of the house: the first paragraph of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"
PAGE = ROOT / "docs" / "map.md"
HEAD = """# The map

Every file, in what its own first line says of it. Where to begin, and in which order to read, stands in the
[README](../README.md#the-map).
"""


def sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, f"{path} says nothing of itself"
    return " ".join(docstring.split("\n\n")[0].split()).replace("``", "`")


def house() -> str:
    page = HEAD
    for folder in [SOURCE, *sorted(path for path in SOURCE.rglob("*") if path.is_dir())]:
        if files := sorted(folder.glob("*.py")):
            page += f"\n## {folder.relative_to(SOURCE.parent).as_posix()}\n\n"
            page += "".join(
                f"- [`{path.name}`](../{path.relative_to(ROOT).as_posix()}): {sentence(path)}\n" for path in files
            )
    return page


def test_every_file_has_its_line() -> None:
    assert PAGE.read_text(encoding="utf-8") == house(), "the map is out of date; run: python tests/docs/test_map.py"


if __name__ == "__main__":
    PAGE.write_text(house(), encoding="utf-8", newline="\n")
