"""Which word became which in each pair of two files? Read off the cross-attention of a model that reads both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.runs.inspect import alignment
from regard.runs.look import look_at_text
from regard.runs.prepare import Say, read_aligned
from regard.translator import Translator


def aligned_lines(
    translator: Translator, source: str | Path, target: str | Path, pattern: str | None = None, *, say: Say
) -> Iterator[str]:
    """Yield a line such as ``0-0 1-2`` for each pair of lines: source word, target word, counted from 0.

    Args:
        translator: A trained model.
        source: File of source lines.
        target: File of their translations, which the model is made to read.
        pattern: By which heads, see `regard.runs.inspect.alignment`.
        say: Told of pairs that have no line of links because they are empty or too long.

    Raises:
        InputError: A file or part cannot be used.
    """
    text = read_aligned(str(source), [str(target)])
    longest = translator.model.spec.max_len - 1
    for number, (line, (answer, *_)) in enumerate(zip(text.sources, text.references, strict=True), 1):
        ids = translator.source_tokenizer.encode(line), translator.target_tokenizer.encode(answer)
        if not all(ids) or max(map(len, ids)) > longest:
            say(f"line {number}: {'longer than the model reads' if all(ids) else 'empty'}, not aligned")
            yield ""
            continue
        yield alignment(look_at_text(translator, line, translation=answer), pattern)
