"""Forced phrases end where a word ends: asked for ``Bub``, a search must not answer ``Bube``.

Tokens of words and subwords know where a word begins, so a phrase made of them can only end inside of one. Where
letters are the tokens, as in spelling and inflection, a phrase may stand anywhere.

Axes: N prefixes, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.generation.phrases import Phrase, contains
from regard.generation.prefixes import Prefixes
from regard.translation.words import joined, last_letter, starts_inside


class WholePhrases:
    """A control of search: where a phrase stands first, no word goes on behind it.

    Args:
        spellings: what each id of the vocabulary adds to a text.
        phrases: by sentence, the ids that are forced.
    """

    ceiling = 0.0

    def __init__(self, spellings: Sequence[bytes], phrases: Mapping[int, Iterable[Phrase]]) -> None:
        def open_ended(phrase: Phrase) -> bool:
            last = last_letter(b"".join(spellings[i] for i in phrase))
            return not starts_inside(spellings[phrase[0]]) and joined(last, "a")

        self._phrases = {sentence: [*filter(open_ended, of_one)] for sentence, of_one in phrases.items()}
        self._inside = torch.tensor([i for i, spelled in enumerate(spellings) if starts_inside(spelled)])

    def __call__(self, scores: Float[Tensor, "N V"], prefixes: Prefixes) -> Float[Tensor, "N V"]:
        """Forbid what would make a phrase, there for the first time, the beginning of a longer word."""
        for n, (sentence, ids) in enumerate(zip(prefixes.sentence.tolist(), prefixes.ids.tolist(), strict=True)):
            for phrase in self._phrases.get(sentence, ()):
                if tuple(ids[-len(phrase) :]) == phrase and not contains(ids[:-1], phrase):
                    scores[n, self._inside] = -math.inf
        return scores
