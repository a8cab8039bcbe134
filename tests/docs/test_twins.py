"""Each page of two languages says as much in both: the same code, headings, lists, tables and paragraphs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path.name for path in (ROOT / "docs/lessons/en").glob("*.md"))
TWINS = [
    ("README.md", "README.zh.md"),
    ("docs/guide/en.md", "docs/guide/zh.md"),
    *((f"docs/lessons/en/{name}", f"docs/lessons/zh/{name}") for name in LESSONS),
]
CODE = re.compile(r"```.*?```", flags=re.DOTALL)


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_both_say_as_much(english: str, chinese: str) -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in (english, chinese)]
    code, others = ([re.sub(r" *#.*", "", block) for block in CODE.findall(page)] for page in pages)
    assert code == others, "the code differs, comments apart"
    marks = [
        re.findall(r"^(?:#+ |- |\||$)", CODE.sub("", page), flags=re.MULTILINE)  # an empty one ends a paragraph
        for page in pages
    ]
    assert marks[0] == marks[1]


def test_every_lesson_has_its_twin() -> None:
    assert [path.name for path in sorted((ROOT / "docs/lessons/zh").glob("*.md"))] == LESSONS != []
