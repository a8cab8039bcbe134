"""Does decoding with a cache give what a full forward gives?

Axes: N rows being decoded, T target positions, M rows after a reordering.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.verification.adapter import Decoding
from regard.verification.checks.positions import first_of, repeated
from regard.verification.findings import Finding, ModuleRaisedError, NotExercised, check, fail, judge, passed
from regard.verification.inputs import Inputs
from regard.verification.places import spot
from regard.verification.subject import Subject, largest
from regard.verification.trace import Attention, traced


def _decoding(subject: Subject) -> Decoding:
    if subject.adapter.target is None:
        raise NotExercised("an encoder decodes nothing")
    if subject.adapter.decoding is None:
        raise NotExercised(
            "it does not say how to decode with a cache (start, step, reorder, or an adapter's decoding)"
        )
    return subject.adapter.decoding


def _decode(subject: Subject, inputs: Inputs, cuts: list[int]) -> Tensor:
    """Return the logits of decoding ``inputs`` in pieces that end at ``cuts``."""
    decoding = _decoding(subject)
    tokens = inputs.side("target")
    pieces, begin = [], 0
    with subject.guard(inputs):
        state = decoding.start(subject.module, inputs)
        for end in cuts:
            logits, state = decoding.extend(subject.module, tokens[:, begin:end].clone(), state)
            pieces.append(logits.detach().double())
            begin = end
    return torch.cat(pieces, dim=1)


@check("Decoding token by token with a cache gives the logits of a full forward")
def check_cache_equals_full(subject: Subject) -> Finding:
    """Decode each token from the cache; then the rows in another order, so that nothing is left over."""
    _decoding(subject)
    real = subject.inputs.real("target")
    steps = list(range(1, real.size(1) + 1))
    worst = 0.0
    order = list(range(subject.inputs.batch))
    for when, rows in (("", order), (" when a second batch is decoded", order[::-1])):
        decoded = _decode(subject, subject.inputs.rows(rows), steps)
        size, place = largest(decoded, subject.logits[rows], real[rows])
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"the logits of step {place[1]} are others with the cache{when}",
                cause="something is kept on the module between batches" if when else _what_is_seen(subject),
                where=spot(*place),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


def _step_attentions(subject: Subject, inputs: Inputs) -> list[list[Attention]]:
    """Return the attentions of each step of decoding ``inputs``."""
    decoding = _decoding(subject)
    tokens = inputs.side("target")
    found = []
    with subject.guard(inputs):
        state = decoding.start(subject.module, inputs)
        for t in range(tokens.size(1)):
            with traced(subject.module, inputs.batch) as trace:
                _, state = decoding.extend(subject.module, tokens[:, t : t + 1].clone(), state)
            found.append(trace.attentions)
    return found


def _what_is_seen(subject: Subject) -> str:
    """Return what the first self-attention of a later step tells of its cache."""
    try:
        steps = _step_attentions(subject, subject.inputs)
        weights = steps[2][0].weights
    except (NotExercised, ModuleRaisedError, IndexError):
        return "keys, values, positions or masks of a step are not those of the full forward"
    seen = (weights > 0)[0, 0, -1].nonzero().flatten().tolist()
    if weights.size(-1) == 1:
        return "the past is forgotten: a step sees its own token alone"
    if seen == [0]:
        return "the causal triangle hangs from the first key: a single query sees that key alone"
    if len(seen) < 3:
        return f"the third step sees keys {seen} only"
    if max(seen) > 2:
        return "a step sees places of the cache that were not written yet"
    return "all keys are seen, but their content or positions are not those of the full forward"


@check("Decoding several tokens at once gives what one by one gives")
def check_chunks_equal_steps(subject: Subject) -> Finding:
    """Decode in chunks of two tokens on top of a cache, and all at once."""
    if not _decoding(subject).chunks:
        raise NotExercised("it decodes one token at a time only")
    real = subject.inputs.real("target")
    T = real.size(1)
    worst = 0.0
    for cuts in ([1, 3, T], [T]):
        size, place = largest(_decode(subject, subject.inputs, cuts), subject.logits, real)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"decoding up to {cuts} gives other logits",
                cause="the causal mask of a chunk hangs from the first key, or its positions all start at one place",
                where=spot(*place),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


@check("A reordered cache continues as the rows that it was made of")
def check_cache_reorder(subject: Subject) -> Finding:
    """Decode two tokens, permute the rows or repeat one, and decode the third."""
    decoding = _decoding(subject)
    reorder = decoding.reorder
    if reorder is None:
        raise NotExercised("it does not say how to reorder rows")
    inputs = subject.inputs
    tokens = inputs.side("target")
    worst = 0.0
    for rows in ([2, 0, 1], [1, 1, 0, 2]):
        index = torch.tensor(rows, device=tokens.device)
        with subject.guard(inputs):
            state: Any = decoding.start(subject.module, inputs)
            _, state = decoding.extend(subject.module, tokens[:, :1].clone(), state)
            with traced(subject.module, inputs.batch) as before:
                _, state = decoding.extend(subject.module, tokens[:, 1:2].clone(), state)
            state = reorder(subject.module, state, index)
            with traced(subject.module, len(rows)) as after:
                step, _ = decoding.extend(subject.module, tokens[index, 2:3].clone(), state)
        logits = step.detach().double()[:, 0]
        everywhere = torch.ones(len(rows), dtype=torch.bool, device=logits.device)
        size, place = largest(logits, subject.logits[index, 2], everywhere)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"after taking rows {rows} the next logits are not those of these rows",
                cause=_what_stayed(before.attentions, after.attentions, index, subject.tolerance),
                where=spot(place[0], 2),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


def _what_stayed(before: list[Attention], after: list[Attention], rows: Tensor, tolerance: float) -> str:
    """Return which attentions still read the keys of the rows as they were."""
    stayed = []
    for old, new in zip(before, after, strict=False):
        n = min(old.key.size(-2), new.key.size(-2))
        kept, moved = old.key[:, :, :n], old.key[rows, :, :n]
        if new.key.shape[:2] != moved.shape[:2] or old.module != new.module:
            continue
        here = new.key[:, :, :n]
        as_it_was = kept.shape == here.shape and float((here - kept).abs().max()) <= tolerance
        if as_it_was and float((here - moved).abs().max()) > tolerance:
            stayed.append(new.module)
    if not stayed:
        return "part of the state is not reordered, or by other rows"
    return f"the keys of {', '.join(stayed[:3])}{', …' if len(stayed) > 3 else ''} are not reordered"


def _scaled_alike(step: Tensor, full: Tensor) -> Tensor:
    """Return the queries of a step, times √K or 1/√K if that brings them to the full ones.

    A fused kernel scales within, plain products scale the queries before or the scores after: steps and the full
    forward may each be computed in another of these ways.
    """
    root = step.size(-1) ** 0.5
    ways: tuple[Tensor, ...] = (step, step * root, step / root)
    return min(ways, key=lambda query: float((full - query).abs().max()))


@check("A cached step is given the position at which its token stands")
def check_positions_under_cache(subject: Subject) -> Finding:
    """Repeat one token, so that position alone tells steps apart, and compare each step's query, keys and scores."""
    _decoding(subject)
    inputs = repeated(subject, "target")
    index = first_of(subject, "target")
    full = subject.trace(inputs).attentions[index]
    steps = _step_attentions(subject, inputs)
    if any(not attentions or attentions[0].query.size(-2) != 1 for attentions in steps):
        raise NotExercised("the self-attention of a step was not seen")
    told = False
    for t, attentions in enumerate(steps):
        step = attentions[0]
        if step.query.shape[:2] != full.query.shape[:2] or step.key.size(-2) <= t:
            raise NotExercised("the self-attention of a step was not seen")
        query = _scaled_alike(step.query, full.query[:, :, t : t + 1])
        distances = (full.query - query).abs().amax(dim=(0, 1, 3))  # [T]
        told = told or float((full.query - full.query[:, :, :1]).abs().max()) > subject.tolerance
        if float(distances[t]) > subject.tolerance:
            place = int(distances.argmin())
            known = float(distances[place]) <= subject.tolerance
            return fail(
                f"the query of step {t} is that of position {place}"
                if known
                else f"the query of step {t} is none of them",
                cause="positions restart at every step" if known and place == 0 else "steps are given other positions",
                where=f"{step.module}, position {t}",
                size=float(distances[t]),
            )
        keys = (full.key[:, :, : t + 1] - step.key[:, :, : t + 1]).abs()
        if float(keys.max()) > subject.tolerance:
            return fail(
                f"the keys cached up to step {t} are others than in the full forward",
                cause="keys are cached with other positions, or in another order",
                where=f"{step.module}, position {t}",
                size=float(keys.max()),
            )
        a, b = full.scores[:, :, t, : t + 1], step.scores[:, :, 0, : t + 1]
        told = told or float((a - a[..., :1]).abs().max()) > subject.tolerance
        if not float((a - b).abs().max()) <= subject.tolerance * max(1.0, float(a.abs().max())):
            return fail(
                f"the scores of step {t} are others, though its query and keys are the same",
                cause="relative positions restart at every step, or the step's mask is another one",
                where=f"{step.module}, position {t}",
            )
    if not told:
        raise NotExercised("positions do not show in the first self-attention")
    return passed()
