"""What is translated to validate or to test, and what may each line become? Lines of files, as a recipe names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data import CorpusFiles, Pair, read_lines
from regard.errors import DataError
from regard.runs.recipes.recipe import DataOptions, listed
from regard.runs.recipes.tables import in_folder


@dataclass(frozen=True)
class TextSet:
    """Lines to translate, and what each may become.

    Attributes:
        sources: one line each.
        references: the right answers to each, one or several.
        tags: what stands before each source, or ``""``.
    """

    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    tags: Sequence[str]

    def first(self, limit: int) -> TextSet:
        """Return the first ``limit`` lines."""
        return TextSet(self.sources[:limit], self.references[:limit], self.tags[:limit])

    @classmethod
    def of(cls, pairs: Iterator[Pair], *, several_answers: bool) -> TextSet:
        """Collect pairs; with ``several_answers`` those of one source (and tag) are answers to one line."""
        answers: dict[tuple[str, str, int], dict[str, None]] = {}
        for row, pair in enumerate(pairs):
            answers.setdefault((pair.source, pair.tag, 0 if several_answers else row), {})[pair.target] = None
        return cls(
            [source for source, _, _ in answers],
            [tuple(targets) for targets in answers.values()],
            [tag for _, tag, _ in answers],
        )


def set_files(options: DataOptions, name: Literal["valid", "test"], data: Path) -> CorpusFiles | None:
    """Return where the pairs of the validation or test set are, with the first reference; None if not given."""
    source, targets, pairs = (getattr(options, f"{name}_{side}") for side in ("source", "target", "pairs"))
    if pairs is not None:
        files = CorpusFiles(in_folder(data, pairs))
        return replace(files, columns=options.columns) if files.format == "tsv" else files
    if source is not None:
        return CorpusFiles(in_folder(data, source), in_folder(data, listed(targets)[0]))
    return None


def read_set(options: DataOptions, name: Literal["valid", "test"], data: Path) -> TextSet:
    """Read the validation or test set.

    Raises:
        DataError: a file cannot be used, or files have unequal lengths.
    """
    files = set_files(options, name, data)
    if files is None:
        raise DataError(
            f"the recipe names no {name} files: {name}_source and {name}_target, or {name}_pairs, in [data]"
        )
    if files.target is None or options.several_answers:
        return TextSet.of(files.read(), several_answers=options.several_answers)
    return read_aligned(files.source, [in_folder(data, path) for path in listed(getattr(options, f"{name}_target"))])


def read_aligned(source: str, references: Sequence[str]) -> TextSet:
    """Read source lines and one or more files of references, all aligned line by line.

    Raises:
        DataError: a file cannot be used, or their numbers of lines differ.
    """
    rows = aligned([source, *references])
    return TextSet([line for line, *_ in rows], [tuple(answers) for _, *answers in rows], [""] * len(rows))


def aligned(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """Return line i of every file, for each i.

    Raises:
        DataError: a file cannot be used, or their numbers of lines differ.
    """
    columns = [list(read_lines(path)) for path in paths]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path} has {len(column):,}" for path, column in zip(paths, columns, strict=True))
        raise DataError(f"the files have unequal numbers of lines: {counts}; line i of each must belong together")
    return list(zip(*columns, strict=True))
