"""Does the loss ask for the next token, leave padding out, and average over tokens?

The loss is a black box: it is compared with what each way to compute it, right or wrong, would give from the module's
own logits.

Axes: B rows, T target, V vocabulary, N tokens.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.plural import plural
from regard.verification.checks.padding import NO_PADDING
from regard.verification.findings import Finding, NotExercised, check, fail, judge, passed
from regard.verification.inputs import Inputs
from regard.verification.subject import Subject

WIDER = 6
"""Columns of further padding."""

BATCHES: tuple[list[int], ...] = ([0, 1, 2], [0, 2], [1, 2, 2])
"""Rows of the batches whose losses must all agree with one explanation."""


@dataclass(frozen=True)
class Explanation:
    """One way to compute a loss.

    Attributes:
        probabilities: Whether the logits were made probabilities, and then again.
        labels: What each position is asked for: ``next`` (``next, the last left out`` of a row), ``same``, ``next but
            one``, ``previous``.
        padding: Whether padded positions are asked for the pad id.
        smoothed_padding: Whether the uniform part of smoothing covers padded positions.
        average: ``sum``, ``tokens``, ``rows`` (mean over rows of means over tokens), ``batch`` (sum over B) or
            ``positions`` (sum over B·T, padded ones counted).
        smoothing: The share of the uniform part.
    """

    probabilities: bool
    labels: str
    padding: bool
    smoothed_padding: bool
    average: str
    smoothing: float


def _loss(subject: Subject, inputs: Inputs) -> float:
    """Return the loss of a batch as one number; of a sum and a count, the sum."""
    return _loss_and_count(subject, inputs)[0]


def _loss_and_count(subject: Subject, inputs: Inputs) -> tuple[float, int | None]:
    """Return the loss of a batch, and the count if there is one.

    Raises:
        NotExercised: no loss was given.
    """
    if subject.adapter.loss is None:
        raise NotExercised("no loss was given: pass loss=(module, batch) -> loss")
    if subject.adapter.target is None:
        raise NotExercised("there is no target to shift or pad")
    torch.manual_seed(subject.seed)
    with subject.guard(inputs), torch.no_grad():
        value = subject.adapter.loss(subject.module, inputs)
    return (float(value[0]), int(value[1])) if isinstance(value, tuple) else (float(value), None)


def _explain(subject: Subject) -> Explanation | None:
    """Return the way of computing that gives the loss of all `BATCHES`, or None; it is looked for once."""
    if "explanation" not in subject.notes:
        subject.notes["explanation"] = _search(subject)
    found: Explanation | None = subject.notes["explanation"]
    return found


def _explained(subject: Subject) -> Explanation:
    if (found := _explain(subject)) is None:
        raise NotExercised("the loss is no cross-entropy of the logits that the adapter returns")
    return found


def _search(subject: Subject) -> Explanation | None:
    batches = [subject.inputs.rows(rows) for rows in BATCHES]
    seen = [_loss(subject, batch) for batch in batches]
    for probabilities in (False, True):
        parts = [_Parts(subject, batch, probabilities) for batch in batches]
        for labels, padding, smoothed, average, form in itertools.product(
            ("next", "next, the last left out", "same", "next but one", "previous"),
            (False, True),
            (False, True),
            ("tokens", "sum", "rows", "positions", "batch"),
            range(3),
        ):
            if padding and not smoothed:
                continue
            plain, uniform = zip(*(p.of(labels, padding, smoothed, average, form) for p in parts), strict=True)
            share = _share(seen, plain, uniform)
            if share is not None:
                return Explanation(probabilities, labels, padding, smoothed and share > 0, average, share)
    return None


def _share(seen: list[float], plain: tuple[float, ...], uniform: tuple[float, ...]) -> float | None:
    """Return s in [0, 1) if every loss seen is (1 - s) · plain + s · uniform, else None."""
    gaps = [u - p for u, p in zip(uniform, plain, strict=True)]
    widest = max(range(len(gaps)), key=lambda i: abs(gaps[i]))
    if gaps[widest] == 0:
        return None
    s = (seen[widest] - plain[widest]) / gaps[widest]
    s = 0.0 if abs(s) < 1e-6 else s
    if not 0 <= s < 1:
        return None
    fits = all(abs(p + s * g - x) <= 1e-6 * (1 + abs(x)) for p, g, x in zip(plain, gaps, seen, strict=True))
    return s if fits else None


class _Parts:
    """The terms of a batch's loss: minus log-probability of each label, and its mean over the vocabulary."""

    def __init__(self, subject: Subject, inputs: Inputs, probabilities: bool) -> None:
        assert inputs.target_out is not None
        logits = subject.run(inputs)
        self.log_p = (logits.softmax(dim=-1) if probabilities else logits).log_softmax(dim=-1)  # [B, T, V]
        self.real = inputs.real("target")
        self.labels = {"next": inputs.target_out, "same": inputs.side("target")}
        later = torch.roll(inputs.target_out, -1, dims=1)
        self.labels["next but one"] = torch.where(self.real, later, inputs.target_out)
        self.labels["next, the last left out"] = inputs.target_out
        self.labels["previous"] = torch.roll(inputs.side("target"), 1, dims=1)

    def of(self, labels: str, padding: bool, smoothed: bool, average: str, form: int) -> tuple[float, float]:
        """Return the two sums, averaged; ``form`` is what the uniform part leaves out: nothing, the label, pad too."""
        asked = self.real.clone()
        if labels in ("next but one", "next, the last left out"):
            asked[:, :-1] &= self.real[:, 1:]
            asked[:, -1] = False
        if labels == "previous":
            asked = torch.roll(self.real, 1, dims=1)
            asked[:, 0] = False
        counted = torch.ones_like(asked) if padding else asked
        plain = -self.log_p.gather(-1, self.labels[labels][..., None])[..., 0]
        V = self.log_p.size(-1)
        uniform = -self.log_p.sum(dim=-1) / V
        if form:  # spread over the others alone; and over those that are not the pad id
            uniform = (uniform * V - plain + (self.log_p[..., 0] if form == 2 else 0.0)) / (V - form)
        where = torch.ones_like(asked) if smoothed else asked
        return self._averaged(plain, counted, counted, average), self._averaged(uniform, where, counted, average)

    def _averaged(self, x: Tensor, where: Tensor, counted: Tensor, average: str) -> float:
        x = torch.where(where, x, 0.0)
        if average == "rows":
            return float((x.sum(dim=1) / counted.sum(dim=1)).mean())
        by = {"sum": 1, "tokens": int(counted.sum()), "positions": x.numel(), "batch": len(x)}[average]
        return float(x.sum() / by)


@check("Each position is asked for the token after the one that it reads")
def check_label_shift(subject: Subject) -> Finding:
    """Explain the loss and look at its labels."""
    found = _explained(subject)
    words = {
        "same": ("the token that it has just read", "the labels are not shifted: the model learns to copy its input"),
        "next but one": ("the token after the next", "the labels are shifted twice"),
        "previous": ("the token before the one that it reads", "the labels are shifted the wrong way"),
    }
    if found.labels in words:
        asked, cause = words[found.labels]
        return fail(f"each position is asked for {asked}", cause=cause)
    return passed()


@check("The loss is given logits, on which one softmax is made")
def check_loss_of_logits(subject: Subject) -> Finding:
    """Explain the loss and look whether its logits had been made probabilities before."""
    found = _explained(subject)
    if found.probabilities:
        return fail("a softmax is made of a softmax", cause="cross-entropy takes logits; it was given probabilities")
    return passed()


@check("Padding takes no part in the loss")
def check_loss_ignores_padding(subject: Subject) -> Finding:
    """Pad the batch further, on both sides; the loss must stay."""
    inputs = subject.inputs
    if not inputs.padded("target"):
        _loss(subject, inputs)
        raise NotExercised(NO_PADDING)
    before = _loss(subject, inputs)
    for side in subject.adapter.sides:
        after = _loss(subject, inputs.widened(side, subject.adapter.side(side), WIDER))
        size = abs(after - before)
        if not size <= 1e-6 * (1 + abs(before)):
            found = _explain(subject)
            return judge(
                size,
                1e-6 * (1 + abs(before)),
                detail=f"{WIDER} more columns of {side} padding move the loss from {before:.6g} to {after:.6g}",
                cause=_why_padding(found),
            )
    return passed()


def _why_padding(found: Explanation | None) -> str:
    if found is None:
        return "padded positions are counted, asked for a label, or seen by real ones"
    if found.padding:
        return "padded positions are asked for the pad id: ignore_index is missing or another id"
    if found.smoothed_padding:
        return "the uniform part of label smoothing covers padded positions"
    return "the sum is divided by the padded number of positions"


@check("Label smoothing leaves padding out")
def check_smoothing_ignores_padding(subject: Subject) -> Finding:
    """Explain the loss and look at where its uniform part is summed."""
    found = _explain(subject)
    if found is None:
        raise NotExercised("the loss is no smoothed cross-entropy of the logits that the adapter returns")
    if found.smoothing == 0:
        raise NotExercised("the loss is not smoothed")
    if not subject.inputs.padded("target"):
        raise NotExercised(NO_PADDING)
    if found.smoothed_padding:
        return fail(
            f"the uniform part (share {found.smoothing:.3g}) is summed over padded positions too",
            cause="the label's term is masked, the uniform one is not",
        )
    return passed(f"smoothing is {found.smoothing:.3g}")


@check("The loss is a sum over tokens or their mean, not a mean of means")
def check_loss_average(subject: Subject) -> Finding:
    """Explain the loss and look at what it is divided by; where it is a sum, its count must be that of real tokens."""
    found = _explained(subject)
    _, counted = _loss_and_count(subject, subject.inputs)
    if counted is not None and counted != subject.inputs.num_target_tokens:
        return fail(
            f"{plural(counted, 'token is', 'tokens are')} counted, but {subject.inputs.num_target_tokens:,} are real",
            cause="padding is counted",
        )
    if found.average in ("sum", "tokens"):
        return passed()
    words = {
        "rows": "each row is averaged, and then the rows: a token of a short sentence weighs more",
        "batch": "the sum is divided by the number of rows: long sentences weigh more, and lengths change the scale",
        "positions": "the sum is divided by the padded number of positions",
    }
    return fail(f"the loss is a mean over {found.average}", cause=words[found.average])
