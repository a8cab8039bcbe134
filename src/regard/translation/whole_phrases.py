"""Forced phrases stand in an output as whole words: asked for ``Bub``, a search must not answer ``Bube``.

Axes: N prefixes, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.generation.prefixes import Prefixes
from regard.translation.words import joined, last_letter, starts_inside

Phrase = tuple[int, ...]


class WholePhrases:
    """A control of search: where a phrase stands first, it neither begins nor ends inside a word.

    Args:
        spellings: what each id of the vocabulary adds to a text.
        phrases: by sentence, the ids that are forced.
    """

    ceiling = 0.0

    def __init__(self, spellings: Sequence[bytes], phrases: Mapping[int, Iterable[Phrase]]) -> None:
        self._spellings = spellings
        self._phrases = {sentence: [*of_one] for sentence, of_one in phrases.items()}
        self._inside = torch.tensor([i for i, spelled in enumerate(spellings) if starts_inside(spelled)])

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid what would make a phrase, there for the first time, a part of a longer word."""
        for n, (sentence, ids) in enumerate(zip(prefixes.sentence.tolist(), prefixes.ids.tolist(), strict=True)):
            for phrase in self._phrases.get(sentence, ()):
                if _stands(phrase, ids[:-1]):
                    continue
                if tuple(ids[-len(phrase) :]) == phrase:
                    if joined(self._last(phrase), "a"):
                        scores[n, self._inside] = -math.inf
                elif self._would_begin_inside(phrase, ids):
                    scores[n, phrase[-1]] = -math.inf
        return scores

    def _would_begin_inside(self, phrase: Phrase, ids: list[int]) -> bool:
        """Return whether the last id of ``phrase`` would complete it behind a letter of the same word."""
        before = len(ids) - len(phrase) + 1
        if before <= 0 or tuple(ids[before:]) != phrase[:-1] or not starts_inside(self._spellings[phrase[0]]):
            return False
        return joined(self._last(ids[:before]), "a")

    def _last(self, ids: Sequence[int]) -> str:
        return last_letter(b"".join(self._spellings[i] for i in ids))


def _stands(phrase: Phrase, ids: Sequence[int]) -> bool:
    return any(tuple(ids[start : start + len(phrase)]) == phrase for start in range(len(ids) - len(phrase) + 1))
