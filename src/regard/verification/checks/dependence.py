"""Does the answer depend on what it must depend on?

Axes: B rows, S source, T target.
"""

from __future__ import annotations

import torch

from regard.verification.findings import Finding, NotExercised, check, fail, passed
from regard.verification.inputs import Inputs
from regard.verification.places import spot
from regard.verification.subject import Subject


@check("Every real source position has a say in every answer")
def check_source_used(subject: Subject) -> Finding:
    """Differentiate the logits by the embedded source; if no look-up is seen, change each source and compare."""
    if subject.adapter.source is None:
        raise NotExercised("it reads no source")
    real = subject.inputs.real("source")
    try:
        G = subject.influence["source"]  # [T, B, S]
    except NotExercised:
        changed = subject.inputs.redrawn("source", subject.adapter.side("source"), real, subject.generator)
        size = float((subject.run(changed) - subject.logits).abs().max())
        return passed() if size > subject.tolerance else fail("another source gives the same logits", size=size)
    if subject.adapter.target is None and not subject.answers_per_row:
        G = G.amax(dim=0, keepdim=True)  # a tagger may look at its own position alone
    G = torch.where(subject.inputs.real("target").T[..., None], G, 1.0) if subject.adapter.target is not None else G
    unseen = ((G == 0) & real).any(dim=0)
    if not unseen.any():
        return passed()
    row, position = (int(i) for i in unseen.nonzero()[0])
    whole = bool((unseen | ~real).all())
    return fail(
        "no source token has any influence on the logits" if whole else "a real source token has no influence",
        cause="cross-attention is missing, cut from the gradient, or sees nothing but padding"
        if whole
        else "the mask hides a real source position",
        where=spot(row, position),
        size=0.0,
    )


@check("Every earlier target token has a say in later answers")
def check_history_used(subject: Subject) -> Finding:
    """Differentiate the logits by the embedded target tokens that stand before them."""
    if subject.adapter.target is None:
        raise NotExercised("it reads no target")
    G = subject.influence["target"]  # [T, B, T]
    earlier = torch.ones(G.size(0), G.size(2), dtype=torch.bool, device=G.device).tril()[:, None, :]
    real = subject.inputs.real("target")
    unseen = (G == 0) & earlier & real.T[..., None] & real
    if not unseen.any():
        return passed()
    seer, row, seen = (int(i) for i in unseen.nonzero()[0])
    return fail(
        f"target token {seen} has no influence on the logits of position {seer}",
        cause="the causal mask hides too much, or self-attention is cut off"
        if seen != seer
        else "a position is cut off from its own token: the residual is missing and the mask hides it from itself",
        where=spot(row, seer),
        size=0.0,
    )


@check("Order matters: exchanging two tokens is more than exchanging what they say")
def check_order_matters(subject: Subject) -> Finding:
    """Exchange neighbours in each row; the scores and values of the first self-attention must not just change places.

    Causality alone tells a deep decoder something of the order, so its first attention is what is looked at; the
    logits are, where no attention of an encoder is seen.
    """
    if not subject.adapter.ordered:
        raise NotExercised("it is meant to ignore order")
    exercised = False
    for side in subject.adapter.sides:
        x = subject.inputs.side(side).clone()
        last = [int(n) - 1 for n in subject.inputs.real(side).sum(dim=1)]
        for row, n in enumerate(last):
            x[row, [n - 2, n - 1]] = x[row, [n - 1, n - 2]]
        effects = _effects(subject, side, subject.inputs.put(side, x), last)
        for row, size in enumerate(effects):
            n = last[row]
            if torch.equal(x[row], subject.inputs.side(side)[row]):
                continue
            exercised = True
            if not size > subject.tolerance:
                return fail(
                    f"exchanging {side} tokens {n - 2} and {n - 1} changes nothing for token {n}",
                    cause="positions are missing, the same in places, or run along the wrong axis",
                    where=f"{side}, {spot(row, n)}",
                    size=size,
                )
    if not exercised:
        raise NotExercised("no self-attention was seen, and causality alone makes a decoder depend on order")
    return passed()


def _effects(subject: Subject, side: str, changed: Inputs, last: list[int]) -> list[float]:
    """Return, for each row, how much more than a change of places the first self-attention of a side sees."""
    kind = "encoder" if side == "source" else "decoder"
    try:
        seen = subject.attentions
    except NotExercised:
        seen = []
    index = next((i for i, (k, a) in enumerate(seen) if k == kind and len(a.scores) == len(last)), None)
    if index is None:
        if side == "target":
            return []
        return [float(row.abs().max()) for row in subject.run(changed) - subject.logits]
    before, after = seen[index][1], subject.trace(changed).attentions[index]
    if before.value is None or after.value is None:
        return []
    leading = before.scores.size(-1) - subject.inputs.side(side).size(1)  # a readout token in front
    effects = []
    for row, n in enumerate(last):
        i = n + leading
        here, there = [i - 2, i - 1], [i - 1, i - 2]
        scores = (before.scores[row, :, i, here] - after.scores[row, :, i, there]).nan_to_num(0.0, 0.0, 0.0)
        values = before.value[row, :, here] - after.value[row, :, there]
        effects.append(max(float(scores.abs().max()), float(values.abs().max())))
    return effects


@check("It runs on an ordinary padded batch, whose source and target differ in length")
def check_runs(subject: Subject) -> Finding:
    """Run the batch; if only equal lengths work, all other checks are made with those."""
    if subject.refused:
        return fail(
            subject.refused,
            cause="the mask, length or position of one side is used for the other"
            if subject.runs
            else "the module cannot be called like this; if it should be, give an adapter",
        )
    return passed()


@check("The numbers are finite and of the shape that the kind of module promises")
def check_finite(subject: Subject) -> Finding:
    """Run an ordinary padded batch."""
    inputs = subject.inputs
    logits = subject.run()
    side = "target" if subject.adapter.target is not None else "source"
    expected = tuple(inputs.side(side).shape[:2])
    if logits.ndim == 2 and subject.adapter.target is None:
        expected = (inputs.batch,)
    if tuple(logits.shape[:-1]) != expected:
        return fail(f"logits should be {[*expected, 'V']}, but are {list(logits.shape)}", cause="axes are exchanged")
    real = subject.real_rows(inputs)
    bad = ~logits.isfinite().all(dim=-1) & real
    if bad.any():
        place = [int(i) for i in bad.nonzero()[0]]
        return fail(
            "an ordinary batch gives NaN or infinite logits",
            cause="a query that may attend to nothing (an inverted mask?), or an overflow",
            where=spot(*place),
        )
    return passed()


@check("The answer is logits: nothing has been made a probability yet")
def check_logits(subject: Subject) -> Finding:
    """Look whether numbers are non-negative and sum to one, as after a softmax, and over which axis."""
    if subject.adapter.target is None:
        raise NotExercised("a classifier may answer in probabilities")
    logits = subject.logits
    last = logits[subject.real_rows(subject.inputs)]
    if bool((last >= 0).all()) and float((last.sum(dim=-1) - 1).abs().max()) < 1e-3:
        return fail(
            "every position's numbers are non-negative and sum to one",
            cause="a softmax was applied to the output; cross-entropy would apply it a second time",
        )
    for axis, name in ((0, "rows"), (1, "positions")):
        for x in (logits, logits.exp()):
            if float((x.sum(dim=axis) - 1).abs().max()) < 1e-3:
                return fail(
                    f"the numbers sum to one over the {name}",
                    cause=f"a softmax was applied over axis {axis}, the {name}, instead of the vocabulary",
                )
    return passed()
