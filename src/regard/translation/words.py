"""Where does a word begin and end, and does a phrase stand in a text as whole words?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\ua960-\ua97f\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Thai and Lao, Burmese, Khmer, Chinese and Japanese."""


def joined(before: str, after: str) -> bool:
    """Return whether two neighbours stand in one word: letters, digits or accents of a script with spaces."""
    return all(map(_is_of_word, (before, after)))


def starts_inside(spelled: bytes) -> bool:
    """Return whether a token goes on with a word rather than begin one: with a letter, or a part of one."""
    first = first_letter(spelled)
    return bool(spelled) if first is None else joined("a", first)


def first_letter(text: bytes) -> str | None:
    """Return the first character of ``text``, None if there is none or only a part of it."""
    if not text:
        return None
    length = 1 if text[0] < 0xC0 else 2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4
    return text[:length].decode("utf-8", errors="replace")[0] if len(text) >= length else None


def last_letter(text: bytes) -> str:
    """Return the last character of ``text``; a space if there is none."""
    return text[-4:].decode("utf-8", errors="replace")[-1:] or " "


def _is_of_word(letter: str) -> bool:
    return (letter.isalnum() or category(letter)[0] == "M") and not _UNSPACED.match(letter)


def is_whole(text: str, start: int, end: int) -> bool:
    """Return whether ``text[start:end]`` neither begins nor ends inside of a word."""
    return not (start > 0 and joined(text[start - 1], text[start])) and not (
        end < len(text) and joined(text[end - 1], text[end])
    )


def occurrences(phrase: str, text: str) -> Iterator[int]:
    """Yield where ``phrase`` stands in ``text`` as whole words."""
    start = text.find(phrase)
    while start >= 0:
        if is_whole(text, start, start + len(phrase)):
            yield start
        start = text.find(phrase, start + 1)
