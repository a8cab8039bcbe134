"""Phrases that an output must contain, placed where the search finds them most probable.

Dynamic beam allocation (Post and Vilar 2018): prefixes are sorted into banks by how many words of their phrases they
hold, and the places of a sentence are shared among its banks, so that those which have met more are not crowded out by
those which have met less and are therefore likelier. The fullest bank always has a place, and the word that it needs
next is always offered to it, so all phrases are met as soon as there are as many words as they have, unless the model
gives one the probability 0 or the length limit comes first. No output ends before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regard.errors import InputError
from regard.generation.prefixes import Floats, Ints, Prefixes
from regard.generation.selection import in_order
from regard.protocols import BOS, EOS, PAD

Phrase = tuple[int, ...]


class ForcedPhrases:
    """What the outputs of some sentences must contain.

    Args:
        phrases: by sentence, sequences of words; they may overlap in the output. Sentences without are free.
    """

    def __init__(self, phrases: Mapping[int, Sequence[Sequence[int]]]) -> None:
        self._phrases: dict[int, list[Phrase]] = {}
        for sentence, of_sentence in phrases.items():
            for phrase in of_sentence:
                if not phrase or {PAD, BOS, EOS} & {*phrase} or min(phrase) < 0:
                    raise InputError(
                        f"a phrase forced on sentence {sentence} must be a sequence of words, but is {phrase}"
                    )
            self._phrases[sentence] = sorted({tuple(phrase) for phrase in of_sentence})

    def missing(self, sentence: int, ids: Sequence[int]) -> list[Phrase]:
        """Return the phrases of a sentence that ``ids`` do not contain: those that were impossible."""
        return [phrase for phrase in self._phrases.get(sentence, []) if not contains(ids, phrase)]

    def wanted(self, prefixes: Prefixes) -> Ints | None:
        """Return, for each prefix, the words that begin or go on with a missing phrase, [N, P]."""
        offers = []
        for sentence, ids in zip(prefixes.sentence.tolist(), prefixes.ids.tolist(), strict=True):
            missing = self.missing(sentence, ids)
            offers.append(sorted({phrase[begun] for phrase in missing for begun in (0, _begun(ids, phrase))}))
        widest = max(map(len, offers))
        if not widest:
            return None
        return np.array([[*words, *[PAD] * (widest - len(words))] for words in offers], dtype=np.int64)

    def choose(self, prefixes: Prefixes, words: Ints, totals: Floats, places: Ints) -> tuple[Ints, Ints]:
        """Return the best candidates of each bank; no end mark while a phrase is missing."""
        bank = np.zeros(words.shape, dtype=np.int64)
        totals = totals.copy()
        for n, (sentence, ids) in enumerate(zip(prefixes.sentence.tolist(), prefixes.ids.tolist(), strict=True)):
            if self.missing(sentence, ids):
                totals[n, words[n] == EOS] = -np.inf
            bank[n] = [self._words_met(sentence, [*ids, word]) for word in words[n].tolist()]

        rows, columns = in_order(prefixes.race, totals, *np.nonzero(totals > -np.inf))
        banks, race = bank[rows, columns], prefixes.race[rows]
        chosen = [_shared(banks[race == r], int(places[r])) + np.searchsorted(race, r) for r in np.unique(race)]
        order = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
        return rows[order], columns[order]

    def _words_met(self, sentence: int, ids: Sequence[int]) -> int:
        """Return the number of a prefix's bank: the words of its whole phrases and of the one at its end."""
        phrases = self._phrases.get(sentence, [])
        missing = self.missing(sentence, ids)
        whole = sum(map(len, phrases)) - sum(map(len, missing))
        return whole + max((_begun(ids, phrase) for phrase in missing), default=0)


def _shared(banks: Ints, places: int) -> Ints:
    """Return which candidates, sorted best first, take the places: equal shares, the fullest bank first."""
    order = np.unique(banks)[::-1]
    share = max(1, places // len(order))
    by_bank = [np.flatnonzero(banks == bank)[:share] for bank in order]
    first = np.concatenate(by_bank)[:places]
    rest = np.setdiff1d(np.arange(len(banks)), first)[: places - len(first)]
    return np.sort(np.concatenate([first, rest]))


def contains(ids: Sequence[int], phrase: Phrase) -> bool:
    """Return whether the words of a phrase stand somewhere in ``ids``, one after the other."""
    return any(tuple(ids[start : start + len(phrase)]) == phrase for start in range(len(ids) - len(phrase) + 1))


def _begun(ids: Sequence[int], phrase: Phrase) -> int:
    """Return how many words of an unfinished phrase ``ids`` end with."""
    longest = min(len(phrase) - 1, len(ids))
    return next((k for k in range(longest, 0, -1) if tuple(ids[-k:]) == phrase[:k]), 0)
