"""Do positions say where a token stands, whatever the padding, and nothing else?

Axes: B rows, L positions, H heads, K width of a head.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.verification.checks.padding import NO_PADDING, WIDER
from regard.verification.findings import Finding, ModuleRaisedError, NotExercised, check, fail, passed
from regard.verification.inputs import Inputs
from regard.verification.places import spot
from regard.verification.subject import Subject

LONG = 300
"""Positions in a row long enough to tell integers in bfloat16 apart from integers."""


def first_of(subject: Subject, side: str) -> int:
    """Return the index of the first self-attention of a side among all attentions.

    Raises:
        NotExercised: none was seen.
    """
    kind = "encoder" if side == "source" else "decoder"
    index = next((i for i, (k, _) in enumerate(subject.attentions) if k == kind), None)
    if index is None:
        raise NotExercised(f"no self-attention over the {side} was seen")
    return index


@check("A token's position does not move with the padding around it")
def check_positions_under_padding(subject: Subject) -> Finding:
    """Compare the queries and keys of the first self-attention as they are with more padding, and with none."""
    exercised = False
    for side in subject.adapter.sides:
        if not subject.inputs.padded(side):
            continue
        index = first_of(subject, side)
        base = subject.attentions[index][1]
        lengths = subject.inputs.lengths(side)
        assert lengths is not None
        wider = subject.inputs.widened(side, subject.adapter.side(side), WIDER)
        alone = subject.inputs.rows([1]).cut(side, int(lengths[1]))
        for what, batch, rows in ((f"{WIDER} more columns of", wider, [0, 1, 2]), ("no", alone, [1])):
            attentions = subject.trace(batch).attentions
            if len(attentions) <= index:
                continue
            for name in ("query", "key"):
                x, y = getattr(base, name), getattr(attentions[index], name)
                if x.size(0) != subject.inputs.batch or y.size(0) != len(rows):
                    continue
                exercised = True
                for row, source_row in enumerate(rows):
                    n = int(lengths[source_row])
                    size = float((x[source_row, :, :n] - y[row, :, :n]).abs().max())
                    if not size <= subject.tolerance:
                        return fail(
                            f"the {name} of a real token is another one with {what} {side} padding",
                            cause="positions are counted from the padded end, or include the padding",
                            where=f"{base.module}, {spot(source_row)}",
                            size=size,
                        )
    if not exercised:
        raise NotExercised(NO_PADDING)
    return passed()


@check("Where positions are told by distance alone, distance alone decides")
def check_relative_positions(subject: Subject) -> Finding:
    """Repeat one token and compare scores of pairs at the same distance."""
    if not subject.adapter.ordered:
        raise NotExercised("it is meant to ignore order")
    exercised = False
    for side in subject.adapter.sides:
        index = first_of(subject, side)
        attention = subject.trace(repeated(subject, side)).attentions[index]
        scores, value = attention.scores, attention.value
        n = scores.size(-1)
        if value is None or scores.size(-2) != n or value.size(0) != subject.inputs.batch:
            continue
        if n != subject.inputs.side(side).size(1) or _varies(value, subject.tolerance):
            continue  # absolute positions reach the values; a leading token is no repeated one
        exercised = exercised or _varies(attention.query, subject.tolerance) or _varies(scores, subject.tolerance)
        visible = attention.weights > 0
        both = visible[..., :-1, :-1] & visible[..., 1:, 1:]
        scores = scores - scores.diagonal(dim1=-2, dim2=-1)[..., None]  # a softmax ignores what a whole row shares
        difference = torch.where(both, (scores[..., :-1, :-1] - scores[..., 1:, 1:]).abs(), 0.0).nan_to_num(0.0)
        size = float(difference.max())
        if size > max(subject.tolerance, subject.exactness * float(scores[visible].abs().max())):
            return fail(
                "pairs of the same token at the same distance have different scores",
                cause="queries and keys are turned by different angles, or a bias is not a function of distance",
                where=attention.module,
                size=size,
            )
    if not exercised:
        raise NotExercised("positions are not told by distance")
    return passed()


@check("Positions keep their precision when the module is cast to half precision")
def check_positions_in_half(subject: Subject) -> Finding:
    """Look at the first attention's queries over a long row in bfloat16, in which 257 is 256.

    Each position's error is compared with the median one: a table rounded once is as good at the end as at the start.
    """
    adapter, inputs = subject.adapter, subject.inputs
    side = adapter.sides[0]  # of an encoder-decoder the source, for the forward is left at the first attention
    x = adapter.side(side).draw(1, LONG, subject.generator).to(subject.device)
    lengths = torch.tensor([LONG], device=subject.device)
    row = inputs.rows([0]).put(side, x)
    if adapter.padding != "none":
        row = replace(row, source_lengths=lengths) if side == "source" else replace(row, target_lengths=lengths)
    try:
        exact = subject.trace(row, attentions=1).attentions
        with subject.cast(torch.bfloat16):
            rounded = subject.trace(row, attentions=1).attentions
    except ModuleRaisedError as error:
        raise NotExercised(f"a row of {LONG} does not run: {error}") from error
    if not exact or not rounded or exact[0].query.shape != rounded[0].query.shape:
        raise NotExercised("no attention was seen")
    a, b = exact[0].query.double(), rounded[0].query.double()
    errors = ((a - b).norm(dim=(1, 3)) / a.norm(dim=(1, 3)))[0]  # [L]
    worst, median = float(errors.max()), float(errors.median())
    if worst > 4 * max(median, torch.finfo(torch.bfloat16).eps):
        return fail(
            f"a query is off by {worst:.2g} of its length, the median one by {median:.2g}",
            cause="positions are counted, or their sines computed, in half precision",
            where=f"{side}, position {int(errors.argmax())}",
            size=worst,
        )
    return passed()


def repeated(subject: Subject, side: str) -> Inputs:
    """Return the batch with one token all along a side, and nothing padded there."""
    x = subject.inputs.side(side)
    same = x[:, 1:2].expand_as(x).contiguous()
    full = torch.full((len(x),), x.size(1), device=x.device)
    inputs = subject.inputs.put(side, same)
    if subject.adapter.padding == "none":
        return inputs
    return replace(inputs, source_lengths=full) if side == "source" else replace(inputs, target_lengths=full)


def _varies(x: Tensor, tolerance: float) -> bool:
    """Return whether [..., L, *] differs from position to position."""
    difference = (x[..., 1:, :] - x[..., :1, :]).nan_to_num(0.0, 0.0, 0.0).abs()
    return float(difference.max()) > tolerance
