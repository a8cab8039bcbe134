"""Phrases that an output must not contain, however its tokens spell them.

A phrase is banned as whole words: without ``Hund`` there may still be ``Hunde``. What is compared is the text, so every
way to cut a phrase into tokens is met, and a token that holds more than the phrase too.

Axes: N prefixes, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.generation.prefixes import Prefixes
from regard.protocols import EOS
from regard.translation.words import first_letter, joined, last_letter, starts_inside


class ForbiddenText:
    """A control of search: no output contains a phrase.

    Args:
        spellings: what each id of the vocabulary adds to a text.
        phrases: by sentence.
    """

    ceiling = 0.0

    def __init__(self, spellings: Sequence[bytes], phrases: Mapping[int, Sequence[str]]) -> None:
        self._spellings = spellings
        self._all_begin_words = not any(map(starts_inside, spellings))  # then none can go on with a phrase
        made = {phrase: _Phrase(phrase, spellings) for of_one in phrases.values() for phrase in of_one}
        self._phrases = {sentence: [made[phrase] for phrase in of_one] for sentence, of_one in phrases.items()}

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid the words that complete a phrase, or that show that one was whole; behind the last word is none."""
        last = (np.equal(prefixes.most, prefixes.num_words + 1) | self._all_begin_words).tolist()
        for n, (sentence, ids) in enumerate(zip(prefixes.sentence.tolist(), prefixes.ids.tolist(), strict=True)):
            phrases = self._phrases.get(sentence, ())
            text = b"".join([self._spellings[i] for i in ids]) if phrases else b""
            for phrase in phrases:
                scores[n, phrase.banned(phrase.ending(text), last=last[n])] = -math.inf
        return scores


def stands_in(phrase: str, text: str, *, goes_on: bool = False) -> bool:
    """Return whether a forbidden phrase stands in ``text``, and still does if the text ``goes_on`` somehow."""
    return _Phrase(phrase, ())._in(b" " + text.encode(), at_end=not goes_on)


class _Phrase:
    """One phrase, and what each ending of a text must not be followed by.

    A text matters to a phrase by its *ending*: the longest beginning of the phrase that it ends with, after ``a`` if
    that stands inside a word and a space otherwise. There are few of them, so what each bans is worked out once.
    """

    def __init__(self, phrase: str, spellings: Sequence[bytes]) -> None:
        if not phrase.strip():
            raise InputError("a forbidden phrase must have at least one letter, but is empty")
        self._first, self._last = phrase[0], phrase[-1]
        self._phrase = phrase.encode()
        self._spellings = spellings
        self._banned: dict[tuple[bytes, bool], list[int]] = {}

    def ending(self, text: bytes) -> bytes:
        """Return the part of ``text`` that decides what may follow."""
        for half in range(4):  # bytes of a character that is not complete, after the whole phrase
            begin = len(text) - half - len(self._phrase)
            if text.endswith(self._phrase, 0, len(text) - half) and first_letter(text[len(text) - half :]) is None:
                return self._before(text[:begin]) + text[begin:]
        for length in range(len(self._phrase) - 1, 0, -1):
            if text.endswith(self._phrase[:length]):
                return self._before(text[:-length]) + self._phrase[:length]
        return self._before(text)

    def banned(self, ending: bytes, *, last: bool = False) -> list[int]:
        """Return the ids that must not follow ``ending``; where one is ``last``, no letter can join it."""
        if (ending, last) not in self._banned:
            spellings = enumerate(self._spellings)
            found = [i for i, spelled in spellings if spelled and self._in(ending + spelled, at_end=last)]
            if self._in(ending, at_end=True):
                found.append(EOS)
            self._banned[ending, last] = found
        return self._banned[ending, last]

    def _before(self, text: bytes) -> bytes:
        return b"a" if joined(last_letter(text), self._first) else b" "

    def _in(self, text: bytes, *, at_end: bool = False) -> bool:
        """Return whether the phrase stands in ``text`` and nothing that follows can make it part of a longer word."""
        start = text.find(self._phrase)
        while start >= 0:
            after = first_letter(text[start + len(self._phrase) :])
            whole = at_end or not joined(self._last, "a") if after is None else not joined(self._last, after)
            if whole and self._before(text[:start]) == b" ":
                return True
            start = text.find(self._phrase, start + 1)
        return False
