"""How is a text cut into other pieces each time, yet into the same for the same draws on every machine?

sentencepiece draws from a generator that it salts anew in every process, so that a run that was stopped would go on
with other pieces than it had begun with. What is drawn here depends on the draws handed in alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from random import Random

_UNKNOWN = 10.0
"""How many nats a character without a piece costs more than the least probable piece, as in sentencepiece."""


class UnigramSampler:
    """One of all segmentations, in proportion to its probability to the power of α (Kudo 2018, section 3).

    Probabilities of all beginnings are summed forwards, then pieces are drawn from the end backwards.

    Args:
        scores: the log-probability of each piece.
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores
        self._longest = max(map(len, scores), default=1)
        self._unknown = min(scores.values(), default=0.0) - _UNKNOWN

    def __call__(self, text: str, alpha: float, draw: Random) -> list[str]:
        """Draw pieces, and single characters where there are none.

        Args:
            text: normalised.
            alpha: 0 makes all segmentations alike, and the larger, the more often the best is drawn.
            draw: where the randomness comes from.
        """
        arrivals: list[list[tuple[float, int]]] = [[]]  # at each place: how probable, and where the last piece begins
        sums = [0.0]
        for end in range(1, len(text) + 1):
            found = [
                (sums[start] + alpha * self.scores[text[start:end]], start)
                for start in range(max(0, end - self._longest), end)
                if text[start:end] in self.scores
            ] or [(sums[end - 1] + alpha * self._unknown, end - 1)]
            highest = max(found)[0]
            arrivals.append(found)
            sums.append(highest + math.log(sum(math.exp(log - highest) for log, _ in found)))

        pieces, end = [], len(text)
        while end:
            logs, starts = zip(*arrivals[end], strict=True)
            (start,) = draw.choices(starts, [math.exp(log - sums[end]) for log in logs])
            pieces.append(text[start:end])
            end = start
        return pieces[::-1]


class MergeDropout:
    """Characters merged as BPE does, each possible merge being left out of a step with some probability.

    That is BPE dropout (Provilkov et al. 2020, algorithm 1): without it the best merge of each step is made, and a word
    is done when no merge is left.

    Args:
        scores: of each piece, the highest to be merged first.
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        self.scores = scores

    def __call__(self, text: str, share: float, draw: Random) -> list[str]:
        """Return pieces, and single characters where there are none.

        Args:
            text: normalised; "▁" begins a word.
            share: the probability; 0 is BPE, 1 leaves single characters.
            draw: where the randomness comes from.
        """
        return [piece for word in re.split("(?=▁)", text) for piece in self._cut(word, share, draw)]

    def _cut(self, word: str, share: float, draw: Random) -> Iterator[str]:
        """Yield the pieces of a word, however long: some scripts part no words.

        Merges wait in their order, and a step draws for them in turn until one is not left out: it is the one that a
        draw for each of them would have found the best of those kept.
        """
        ends = [*range(1, len(word) + 1)]  # of the part that begins at each place; 0 where none begins any more
        before = [*range(-1, len(word) - 1)]  # where the part before it begins
        merges: list[tuple[float, int, int, int]] = []

        def offer(start: int) -> None:
            if start >= 0 and (middle := ends[start]) < len(word):
                score = self.scores.get(word[start : ends[middle]])
                if score is not None:
                    heappush(merges, (-score, start, middle, ends[middle]))

        for start in range(len(word)):
            offer(start)
        is_merged = True
        while is_merged:
            is_merged, left_out = False, []
            while merges and not is_merged:
                merge = _, start, middle, end = heappop(merges)
                if (ends[start], ends[middle]) != (middle, end):  # one of the two has become part of another
                    continue
                if draw.random() < share:
                    left_out.append(merge)
                    continue
                is_merged = True
                ends[start], ends[middle] = end, 0
                if end < len(word):
                    before[end] = start
                offer(start)
                offer(before[start])
            for merge in left_out:
                heappush(merges, merge)
        start = 0
        while start < len(word):
            yield word[start : ends[start]]
            start = ends[start]
