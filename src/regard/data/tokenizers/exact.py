"""Tokenizers that have one way to read a text: characters, words, bytes.

``char`` gives a text back exactly if each of its characters is in the vocabulary, ``byte`` every text.
``word`` splits at each single space and joins with one, so that double, leading and trailing spaces come back too (as
empty words). Vocabularies hold the most frequent first, and equally frequent ones in the order of their code points, so
that the same text gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from regard.data.tokenizers.base import FIRST, TextTokenizer
from regard.errors import DataError, RecipeError
from regard.plural import plural
from regard.protocols import UNK


class _ListTokenizer(TextTokenizer):
    """A tokenizer whose vocabulary is a list of strings."""

    def __init__(self, entries: Sequence[str], tags: Iterable[str] = ()) -> None:
        self._entries = tuple(entries)
        self._ids = {entry: FIRST + index for index, entry in enumerate(self._entries)}
        if len(self._ids) < len(self._entries):
            number, twice = next((n, e) for n, e in enumerate(self._entries, 1) if self._ids[e] != FIRST + n - 1)
            raise DataError(f"entry {number} of the vocabulary, {twice!r}, is listed again further on")
        super().__init__(len(self._entries), tags)

    def _described(self) -> dict[str, object]:
        return {"pieces": list(self._entries)}


class CharTokenizer(_ListTokenizer):
    """One id per Unicode code point."""

    kind = "char"

    def __init__(self, entries: Sequence[str], tags: Iterable[str] = ()) -> None:
        for number, entry in enumerate(entries, 1):
            if len(entry) != 1:
                raise DataError(f"entry {number} of a char vocabulary must be one character, but is {entry!r}")
        super().__init__(entries, tags)

    def encode(self, text: str) -> list[int]:
        """Return one id per character."""
        return [self._ids.get(char, UNK) for char in text]

    def _decode(self, ids: list[int]) -> str:
        return "".join(self._entries[i - FIRST] for i in ids)

    def _spelling(self, index: int) -> bytes:
        return self._entries[index - FIRST].encode()

    def _piece(self, index: int) -> str:
        entry = self._entries[index - FIRST]
        return "␣" if entry == " " else entry if entry.isprintable() else f"U+{ord(entry):04X}"


class WordTokenizer(_ListTokenizer):
    """One id per word, where words are what stands between single spaces."""

    kind = "word"
    unknown_is_word = True

    def __init__(self, entries: Sequence[str], tags: Iterable[str] = ()) -> None:
        for number, entry in enumerate(entries, 1):
            if " " in entry:
                raise DataError(f"entry {number} of a word vocabulary must hold no space, but is {entry!r}")
        super().__init__(entries, tags)

    def encode(self, text: str) -> list[int]:
        """Return one id per word; the empty text has none."""
        return [self._ids.get(word, UNK) for word in text.split(" ")] if text else []

    def _decode(self, ids: list[int]) -> str:
        return " ".join(self._entries[i - FIRST] for i in ids)

    def _spelling(self, index: int) -> bytes:
        return f" {self._entries[index - FIRST]}".encode()

    def _piece(self, index: int) -> str:
        return self._entries[index - FIRST] or "␣"


class ByteTokenizer(TextTokenizer):
    """One id per UTF-8 byte: 256 pieces, nothing to train, nothing unknown."""

    kind = "byte"

    def __init__(self, tags: Iterable[str] = ()) -> None:
        super().__init__(256, tags)

    def encode(self, text: str) -> list[int]:
        """Return one id per byte."""
        return [FIRST + byte for byte in text.encode("utf-8")]

    def _decode(self, ids: list[int]) -> str:
        return bytes(i - FIRST for i in ids).decode("utf-8", errors="replace")

    def _spelling(self, index: int) -> bytes:
        return bytes([index - FIRST])

    def _piece(self, index: int) -> str:
        byte = index - FIRST
        return chr(byte) if 0x20 < byte < 0x7F else f"0x{byte:02X}"


def train_exact(
    kind: str,
    lines: Iterable[str],
    *,
    vocab_size: int | None = None,
    min_frequency: int = 1,
    tags: Iterable[str] = (),
) -> CharTokenizer | WordTokenizer | ByteTokenizer:
    """Build a ``char``, ``word`` or ``byte`` tokenizer from the lines it shall know.

    Args:
        kind: which.
        lines: the training text; ``byte`` looks at none of it.
        vocab_size: at most this many ids, specials included and tags not; None takes all.
        min_frequency: rarer characters or words are left out.
        tags: see ``TextTokenizer``.

    Raises:
        DataError: nothing in the text is frequent enough.
    """
    if kind == "byte":
        return ByteTokenizer(tags)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line if kind == "char" else line.split(" ") if line else ())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    room = len(ranked) if vocab_size is None else vocab_size - FIRST
    entries = [entry for entry, count in ranked[:room] if count >= min_frequency]
    if not entries:
        raise DataError(
            f"the text has no {kind} that occurs {plural(min_frequency, 'time')} or more, so there is no vocabulary"
        )
    if kind == "char":
        return CharTokenizer(entries, tags)
    if kind == "word":
        return WordTokenizer(entries, tags)
    raise RecipeError(f"`kind` of an exact tokenizer must be char, word or byte, but is {kind!r}")
