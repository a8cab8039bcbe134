"""Which word became which in each pair of two files? Read off the cross-attention of a model that reads both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.errors import InputError
from regard.runs.looking.heads import alignment
from regard.runs.looking.look import attentions_of_pair
from regard.runs.saying import Say
from regard.runs.text_set import read_aligned
from regard.translator import Translator


def aligned_lines(
    translator: Translator, source: str | Path, target: str | Path, pattern: str | None = None, *, say: Say
) -> Iterator[str]:
    """Yield a line such as ``0-0 1-2`` for each pair of lines: source word, target word, counted from 0.

    Args:
        translator: A trained model.
        source: File of source lines.
        target: File of their translations, which the model is made to read.
        pattern: By which heads, see `regard.runs.looking.heads.alignment`.
        say: Told of pairs that have no line of links because they are empty or too long.

    Raises:
        InputError: A file or part cannot be used.
    """
    text = read_aligned(str(source), [str(target)])
    for number, (line, (answer, *_)) in enumerate(zip(text.sources, text.references, strict=True), 1):
        try:
            attentions = attentions_of_pair(translator, line, answer)
        except InputError as error:
            say(f"line {number}: {error}; not aligned")
            yield ""
        else:
            yield alignment(attentions, pattern)
