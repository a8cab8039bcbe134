"""Does padding, or another row of the batch, change what a row gets?

Axes: B rows, S source, T target, L either.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.plural import plural
from regard.verification.findings import Finding, NotExercised, check, fail, judge
from regard.verification.inputs import Inputs
from regard.verification.places import first_difference, spot
from regard.verification.subject import Subject, largest

WIDER = 4
"""Columns of further padding."""

NO_PADDING = "no pad id or lengths are known; say which with pad=, or in an adapter"
"""Why a check that needs a padded row could not be made."""


def _needs_padding(subject: Subject, side: str) -> None:
    if side not in subject.adapter.sides:
        raise NotExercised(f"it reads no {side}")
    if not subject.inputs.padded(side):
        raise NotExercised("no pad id or lengths are known for it; say which with pad=, or in an adapter")


def _padding_content(subject: Subject, side: str) -> Finding:
    """Put other content where a side is padded: other tokens if lengths say so, else other vectors for the pad id."""
    _needs_padding(subject, side)
    inputs = subject.inputs
    pads = ~inputs.real(side)
    real = subject.real_rows(inputs)
    if subject.adapter.padding == "lengths":
        changed = inputs.redrawn(side, subject.adapter.side(side), pads, subject.generator)
        logits = subject.run(changed)
    else:
        if side not in subject.influence:
            raise NotExercised(f"no look-up of the {side} ids in a table was seen")
        _, points = subject._tapped()
        noise = torch.randn(points[side].shape, generator=subject.generator).to(points[side])
        changed = inputs
        logits = subject.run(inputs, {side: noise * pads[..., None]})
    size, place = largest(logits, subject.logits, real)
    layer = ""
    if not size <= subject.tolerance and changed is not inputs:
        layer = first_difference(subject, inputs, changed, side, ~pads)
    return judge(
        size,
        subject.tolerance,
        detail=f"what stands in the {side}'s padding changes the logits of real positions",
        cause=_who_sees_padding(subject, side),
        where=spot(*place, layer=layer),
    )


def _who_sees_padding(subject: Subject, side: str) -> str:
    """Return which attention gives padded keys a weight."""
    kinds = ("encoder", "cross") if side == "source" else ("decoder",)
    try:
        attentions = [(kind, a) for kind, a in subject.attentions if kind in kinds]
    except NotExercised:
        attentions = []
    real = subject.inputs.real(side)
    blind = {"encoder": True, "cross": True, "decoder": True}
    for kind, attention in attentions:
        if attention.weights.size(-1) != real.size(1) or attention.weights.size(0) != len(real):
            continue
        seen = (attention.weights > 0).any(dim=1) & ~real[:, None, :]  # [B, Lq, Lk]
        blind[kind] = blind[kind] and not bool(seen.any())
    if not blind["cross"] and blind["encoder"]:
        return "the padding mask is not passed to cross-attention"
    if not blind["encoder"] and blind["cross"] and subject.adapter.target is not None:
        return "the padding mask is not passed to the encoder's self-attention"
    if not all(blind.values()):
        return "padding is not masked, or by the wrong id or axis: padded keys get a weight"
    return "padding enters outside attention: a mean or norm over positions, or a readout that ignores lengths"


@check("What stands in the source's padding changes nothing")
def check_source_padding(subject: Subject) -> Finding:
    """Put other content where the source is padded and compare the logits."""
    return _padding_content(subject, "source")


@check("What stands in the target's padding changes no real position")
def check_target_padding(subject: Subject) -> Finding:
    """Put other content where the target is padded and compare the logits of its real positions."""
    return _padding_content(subject, "target")


@check("Further columns of padding change nothing")
def check_padded_width(subject: Subject) -> Finding:
    """Pad each side further and compare the logits of real positions."""
    tried = 0.0
    sides = [side for side in subject.adapter.sides if subject.inputs.padded(side)]
    if not sides:
        raise NotExercised(NO_PADDING)
    for side in sides:
        wider = subject.inputs.widened(side, subject.adapter.side(side), WIDER)
        logits = subject.run(wider)
        real = subject.real_rows(subject.inputs)
        if real.ndim == 2:
            logits = logits[:, : real.size(1)]
        size, place = largest(logits, subject.logits, real)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"{WIDER} more columns of {side} padding change the logits",
                cause="padding is seen, or positions or a mean are computed from the padded width",
                where=spot(*place),
            )
        tried = max(tried, size)
    return judge(tried, subject.tolerance)


@check("A row's answer depends neither on its batch mates nor on their order")
def check_batch_mates(subject: Subject) -> Finding:
    """Reverse the rows, replace some, and leave one alone; a row must keep its logits."""
    inputs = subject.inputs
    real = subject.real_rows(inputs)
    order = list(range(inputs.batch))[::-1]
    tries: list[tuple[str, Inputs, Tensor, Tensor]] = [
        ("the order of the rows changes", inputs.rows(order), subject.logits[order], real[order])
    ]
    first = torch.arange(inputs.batch, device=real.device) == 0
    for rows in (~first, first):
        changed = inputs
        for side in subject.adapter.sides:
            where = inputs.real(side) & rows[:, None]
            changed = changed.redrawn(side, subject.adapter.side(side), where, subject.generator)
        kept = real & (~rows if real.ndim == 1 else ~rows[:, None])
        tries.append(("other rows change", changed, subject.logits, kept))
    tries.append(("it is alone", inputs.rows([0]), subject.logits[:1], real[:1]))
    worst = 0.0
    for what, batch, expected, where in tries:
        logits = subject.run(batch)
        if logits.shape != expected.shape:
            return fail(
                f"{plural(batch.batch, 'row gives', 'rows give')} logits of shape {list(logits.shape)}",
                cause="an axis of length one was squeezed away" if batch.batch == 1 else "the batch axis is misread",
            )
        size, place = largest(logits, expected, where)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"a row's logits change when {what}",
                cause=_across_the_batch(subject),
                where=spot(*place),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


def _across_the_batch(subject: Subject) -> str:
    rows = subject.inputs.batch
    for attention in subject.base_trace.attentions:
        if attention.weights.shape[-2:] == (rows, rows):
            return "attention runs over the rows of the batch: batch and sequence axes are exchanged (batch_first?)"
    return "something is computed across rows: a norm or position over the batch axis, or lengths of other rows"


@check("A source of nothing but padding leaves everything finite, gradients too")
def check_empty_row(subject: Subject) -> Finding:
    """Empty one row of the source; all logits, and the gradients of the other rows' logits, must stay finite."""
    _needs_padding(subject, "source")
    inputs, side = subject.inputs, subject.adapter.side("source")
    assert inputs.source_lengths is not None
    x = inputs.side("source").clone()
    x[-1] = getattr(side, "pad", 0)
    lengths = inputs.source_lengths.clone()
    lengths[-1] = 0
    empty = Inputs(**{**vars(inputs), "source": x, "source_lengths": lengths})
    logits = subject.call(empty)
    rows = subject.real_rows(inputs).clone()
    others = rows.clone()
    others[-1] = False
    if not logits[rows].isfinite().all():
        spoilt = "all rows" if not logits[others].isfinite().all() else "its logits"
        return fail(
            f"a source row without a real token makes {spoilt} NaN or infinite",
            cause="a softmax over scores that are all -inf",
            where=spot(inputs.batch - 1),
        )
    size, place = largest(logits.detach().double(), subject.logits, others)
    if not size <= subject.tolerance:
        return judge(size, subject.tolerance, detail="an empty row changes the other rows", where=spot(*place))
    named = [(name, p) for name, p in subject.module.named_parameters() if p.is_floating_point()]
    grads = torch.autograd.grad(logits[others].sum(), [p for _, p in named], allow_unused=True)
    for (name, _), grad in zip(named, grads, strict=True):
        if grad is not None and not grad.isfinite().all():
            return fail(
                "the gradient is NaN or infinite although the loss leaves the empty row out",
                cause="a softmax over scores that are all -inf: 0 times NaN is NaN in the backward pass",
                where=name,
            )
    return judge(size, subject.tolerance)
