"""The lessons run as they stand and print what they say, in both languages alike."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

LESSONS = Path(__file__).parents[2] / "docs" / "lessons"
PAGES = sorted(LESSONS.glob("*/*.md"))
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", flags=re.DOTALL)


_printed: dict[tuple[str, ...], list[str]] = {}
"""What the blocks of a page print, by their code: both languages of a lesson have the same, and it is run once."""


def rendered(page: Path) -> str:
    """The page with what each of its blocks prints below it, run one after the other."""
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    key = tuple(map(_without_comments, blocks))
    if key not in _printed:
        _printed[key] = run(blocks, page.stem)
    below = iter(_printed[key])

    def with_output(found: re.Match[str]) -> str:
        said = next(below)
        return f"```python\n{found[1]}```\n" + (f"\n```text\n{said}```\n" if said.strip() else "")

    return BLOCK.sub(with_output, text)


def run(blocks: list[str], name: str) -> list[str]:
    """What each block prints, run one after the other."""
    names: dict[str, object] = {"__name__": name}
    said = []
    with torch.random.fork_rng():
        for code in blocks:
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(code, name, "exec"), names)
            said.append("".join(f"{line.rstrip()}\n" for line in printed.getvalue().rstrip("\n").split("\n")))
    return said


@pytest.mark.usefixtures("unchecked")
@pytest.mark.timeout(900)  # one trains seven models: under a minute of a free core, minutes of a busy one
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_lesson_prints_what_it_claims(page: Path) -> None:
    assert rendered(page) == page.read_text(encoding="utf-8"), "run: python tests/docs/test_lessons.py"


def _without_comments(code: str) -> str:
    return re.sub(r" *#.*", "", code)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rendered(page), encoding="utf-8", newline="\n")
