"""How alike are two outputs? chrF of one sentence, asked for so often that what is known of each text is kept."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

_ORDER, _BETA = 6, 2


def likeness(hypothesis: str, reference: str) -> float:
    """Return the chrF of one sentence (Popović 2015), 0 to 100: the utility of minimum Bayes risk.

    The figure is sacrebleu's, but for two texts without any letter, which are alike.
    """
    ours, theirs = _ngrams(hypothesis), _ngrams(reference)
    if not ours[0] and not theirs[0]:
        return 100.0
    precision = recall = 0.0
    orders = 0
    for of_ours, of_theirs in zip(ours, theirs, strict=True):
        if of_ours and of_theirs:
            same = (of_ours & of_theirs).total()
            precision += same / of_ours.total()
            recall += same / of_theirs.total()
            orders += 1
    if not precision + recall:
        return 0.0
    precision, recall = precision / orders, recall / orders
    return 100 * (1 + _BETA**2) * precision * recall / (_BETA**2 * precision + recall)


@lru_cache(maxsize=4096)  # a few sentences' worth of samples
def _ngrams(text: str) -> tuple[Counter[str], ...]:
    letters = "".join(text.split())
    return tuple(
        Counter(letters[start : start + size] for start in range(len(letters) - size + 1))
        for size in range(1, _ORDER + 1)
    )
