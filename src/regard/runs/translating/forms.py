"""How are translations written? As text, as Moses' n-best lists, as JSON, or as the lines of fairseq."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from regard.inspection.alignment import to_pharaoh
from regard.translation import Translation

FormName = Literal["text", "nbest", "jsonl", "fairseq"]
Pieces = Callable[[Sequence[int]], Sequence[str]]


def as_text(one: Translation) -> str:
    """Return the text, and behind ``|||`` the alignment if there is one."""
    return one.text if one.alignment is None else f"{one.text} ||| {to_pharaoh(one.alignment)}"


def as_nbest(number: int, found: Sequence[Translation]) -> Iterator[str]:
    """Yield Moses' n-best lines, numbered from 0: ``0 ||| text ||| logprob= -1.25 ||| -0.97``."""
    for one in found:
        yield f"{number} ||| {as_text(one)} ||| logprob= {one.log_prob:.6f} ||| {one.score:.6f}"


def as_jsonl(
    source: str, found: Sequence[Translation], others: Mapping[str, Any], *, nbest: bool, ids: bool
) -> Iterator[str]:
    """Yield one object: source, translation, score, and ``nbest`` if a list is asked for.

    Args:
        source: the line.
        found: its translations.
        others: further keys, which come first; those of ours win.
        nbest: whether all are listed.
        ids: whether the tokens of each output are told, by which `regard score` finds it again.
    """
    facts = {**others, "source": source, **_facts(found[0], ids=ids)}
    if nbest:
        facts["nbest"] = [_facts(one, ids=ids) for one in found]
    yield json.dumps(facts, ensure_ascii=False)


def as_fairseq(number: int, source: str, found: Sequence[Translation], pieces: Pieces) -> Iterator[str]:
    """Yield the lines S, H, D, P and A of ``fairseq-generate``, whose logarithms have base 2."""
    yield f"S-{number}\t{source}"
    for one in found:
        score = one.score / math.log(2)
        yield f"H-{number}\t{score:.6f}\t{' '.join(pieces(one.ids))}"
        yield f"D-{number}\t{score:.6f}\t{one.text}"
        yield f"P-{number}\t" + " ".join(f"{log_prob / math.log(2):.4f}" for log_prob in one.token_log_probs)
        if one.alignment is not None:
            yield f"A-{number}\t{to_pharaoh(one.alignment)}"


def _facts(one: Translation, *, ids: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {"translation": one.text, "score": one.score, "log_prob": one.log_prob}
    if not one.finished:
        facts["finished"] = False
    if one.missing:
        facts["missing"] = list(one.missing)
    if one.alignment is not None:
        facts["alignment"] = to_pharaoh(one.alignment)
    if ids:
        facts["ids"] = list(one.ids)
    return facts
