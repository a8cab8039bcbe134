"""Does a target position see what it is meant to predict?

Axes: B rows, T target positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.plural import plural
from regard.verification.findings import Finding, NotExercised, check, fail, judge, passed
from regard.verification.places import first_difference, spot
from regard.verification.subject import Subject, largest


def _needs_target(subject: Subject) -> None:
    if subject.adapter.target is None:
        raise NotExercised("an encoder alone may see everything")


@check("Changing later target tokens changes no earlier logits")
def check_future_leak(subject: Subject) -> Finding:
    """Replace all target tokens after the first, and after the middle, and compare the logits up to there."""
    _needs_target(subject)
    inputs, side = subject.inputs, subject.adapter.side("target")
    real = inputs.real("target")
    steps = torch.arange(real.size(1), device=real.device)
    worst = 0.0
    for t in (0, real.size(1) // 2):
        changed = inputs.redrawn("target", side, real & (steps > t), subject.generator)
        size, place = largest(subject.run(changed), subject.logits, real & (steps <= t))
        if not size <= subject.tolerance:
            row, position = place
            layer = first_difference(subject, inputs, changed, "target", real & (steps <= t))
            return judge(
                size,
                subject.tolerance,
                detail=f"the logits of position {position} change when only positions after {t} do",
                cause=_shape_of_leak(subject),
                where=spot(row, position, layer=layer),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


@check("The gradient of each position's logits by later target tokens is exactly zero")
def check_future_gradient(subject: Subject) -> Finding:
    """Differentiate the logits of each position by the embedded target tokens; what is masked has no part in them."""
    _needs_target(subject)
    G = subject.influence["target"]  # [T, B, T]
    later = torch.ones(G.size(0), G.size(2), dtype=torch.bool, device=G.device).triu(1)[:, None, :]
    leaks = torch.where(later, G, 0.0)
    size = float(leaks.max())
    if size == 0:
        return passed()
    seer, row, seen = (int(i) for i in (leaks > 0).nonzero()[0])
    return judge(
        size,
        0.0,
        detail=f"the logits of position {seer} have a gradient by target token {seen}",
        cause=_shape_of_leak(subject),
        where=spot(row, seer),
    )


def _shape_of_leak(subject: Subject) -> str:
    """Return what the pattern of the gradient says about the mask."""
    try:
        G = subject.influence["target"].amax(dim=1)  # [T, T]
    except NotExercised:
        return "the causal mask does not reach self-attention, or positions are moved or mixed outside it"
    sees: Tensor = G > 0
    ahead = [int(row.nonzero().max()) - t for t, row in enumerate(sees) if row.any()]
    last = sees.size(0) - 1
    if all(a == min(1, last - t) for t, a in enumerate(ahead)) and len(ahead) == last + 1:
        return "the causal mask is shifted by one: each position also sees the token that it must predict"
    if bool(sees.all()):
        return "there is no causal mask, or something other than attention mixes positions"
    return "one attention of several lacks the causal mask, or positions are mixed outside attention"


@check("A shorter target gives the same logits as the beginning of a longer one")
def check_prefix(subject: Subject) -> Finding:
    """Cut the target to three tokens, and to a single one, and compare what is left."""
    _needs_target(subject)
    worst = 0.0
    for length in (1, 3):
        shorter = subject.inputs.cut("target", length)
        real = shorter.real("target")
        logits = subject.run(shorter)
        if logits.shape[:2] != real.shape:
            return fail(
                f"a target of {plural(length, 'token')} gives logits of shape {list(logits.shape)}",
                cause="an axis of length one was squeezed away" if length == 1 else "lengths are fixed somewhere",
            )
        size, place = largest(logits, subject.logits[:, :length], real)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"the logits of position {place[1]} depend on how long the target is",
                cause="later positions are seen, or something is computed over the whole length",
                where=spot(*place),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)
