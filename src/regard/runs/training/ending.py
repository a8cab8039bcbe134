"""How did a training end, and what is its model worth? In sentences for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from regard.training import Outcome, TrainingOptions
from regard.training.verdict import Curve, verdict

_FEW_PASSES = 3
"""Over the text, below which a model has hardly been trained; one, where somebody chose how long."""

_LEAST_OUTPUTS, _ENOUGH_OUTPUTS = 3, 10


def ending(outcome: Outcome, options: TrainingOptions) -> str:
    """Say why it ended, after how much, and how it goes on."""
    after = f"after update {outcome.update:,} and {outcome.seconds / 60:.1f} minutes"
    if outcome.finished and outcome.update == outcome.began_at:
        limit = f"`{outcome.reason}` = {getattr(options, outcome.reason):g}"
        return f"nothing to do: this run reached {limit} before, {after}; raise it to go on, or train in another folder"
    match outcome.reason:
        case "terminated":
            return f"asked to stop {after}; everything is saved: the same command goes on from there"
        case "minutes":
            return f"time is up {after}; everything is saved: the same command with more minutes goes on from there"
        case "patience":
            return f"stopped {after}: the validations brought nothing better any more"
        case _:
            return f"done {after}"


def worth(curve: Curve, corpus_tokens: int, outputs: Sequence[str], *, length_chosen: bool) -> Iterator[str]:
    """Yield what the loss curve says, and a warning when the model has evidently learned too little to be of use.

    Whoever chose a length knows that it is short, and reads what longer training would bring; that is no warning.

    Args:
        curve: of the whole run.
        corpus_tokens: target tokens of one pass over the text.
        outputs: of the last validation; none, if there was none.
        length_chosen: somebody said how long the training should be.
    """
    judged = verdict(curve)
    passes = curve.tokens / max(corpus_tokens, 1)
    yield f"{judged.sentence} ({passes:.1f} passes over the text so far)"
    faults = []
    if judged.kind in ("falling", "too short") and passes < (1 if length_chosen else _FEW_PASSES):
        faults.append(f"it has seen the text only {passes:.1f} times")
    if fault := _same(outputs):
        faults.append(fault)
    if faults:
        yield f"warning: this model has hardly been trained: {' and '.join(faults)}; train it longer to judge it"


def _same(outputs: Sequence[str]) -> str:
    """Say so if most outputs, or all of a few, are empty or are one and the same."""
    if len(outputs) < _LEAST_OUTPUTS:
        return ""
    output, times = Counter(outputs).most_common(1)[0]
    if times <= len(outputs) / 2 or (len(outputs) < _ENOUGH_OUTPUTS and times < len(outputs)):
        return ""
    same = "empty" if not output.strip() else f"the same, {output[:40]!r}"
    return f"{times:,} of its {len(outputs):,} validation outputs are {same}"
