"""Does decoding with a cache give what a full forward gives?

Axes: N rows being decoded, T target positions, M rows after a reordering.
"""

from __future__ import annotations

from dataclasses import replace
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
    """Decode each token from the cache; do it twice, so that nothing is left over from the first time."""
    _decoding(subject)
    real = subject.inputs.real("target")
    steps = list(range(1, real.size(1) + 1))
    worst = 0.0
    for attempt in (1, 2):
        size, place = largest(_decode(subject, subject.inputs, steps), subject.logits, real)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"the logits of step {place[1]} are others with the cache"
                + " when a second batch is decoded" * (attempt == 2),
                cause="something is kept on the module between batches" if attempt == 2 else _what_is_seen(subject),
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
    """Decode in chunks of two and three tokens on top of a cache."""
    if not _decoding(subject).chunks:
        raise NotExercised("it decodes one token at a time only")
    real = subject.inputs.real("target")
    T = real.size(1)
    worst = 0.0
    for cuts in ([1, 3, T], [2, T], [T]):
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
    """Decode two tokens, permute, repeat or drop rows, and decode the third."""
    decoding = _decoding(subject)
    reorder = decoding.reorder
    if reorder is None:
        raise NotExercised("it does not say how to reorder rows")
    inputs = subject.inputs
    tokens = inputs.side("target")
    worst = 0.0
    for rows in ([2, 0, 1], [1, 1, 0, 2], [0, 2]):
        index = torch.tensor(rows, device=tokens.device)
        with subject.guard(inputs):
            state: Any = decoding.start(subject.module, inputs)
            for t in range(2):
                _, state = decoding.extend(subject.module, tokens[:, t : t + 1].clone(), state)
            state = reorder(subject.module, state, index)
            logits, _ = decoding.extend(subject.module, tokens[index, 2:3].clone(), state)
        logits = logits.detach().double()[:, 0]
        expected = subject.logits[index, 2]
        size, place = largest(logits, expected, torch.ones(len(rows), dtype=torch.bool, device=logits.device))
        if not size <= subject.tolerance:
            cause = (
                _what_stayed(subject, logits, index)
                if len(rows) == inputs.batch
                else "rows are not repeated or dropped"
            )
            return judge(
                size,
                subject.tolerance,
                detail=f"after taking rows {rows} the next logits are not those of these rows",
                cause=cause,
                where=spot(place[0], 2),
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)


def _what_stayed(subject: Subject, logits: Tensor, rows: Tensor) -> str:
    """Return which part of the state was not reordered, found by full forwards over the mixtures that would follow."""
    inputs = subject.inputs
    tokens = inputs.side("target")[:, :3]
    old_past = torch.cat([tokens[:, :2], tokens[rows, 2:]], dim=1)
    moved = inputs.rows(rows.tolist())
    # lengths of the target differ from row to row; three tokens are real in all of them
    three = None if inputs.target_lengths is None else torch.full_like(inputs.target_lengths, 3)

    def full(of: Inputs, target: Tensor) -> Tensor:
        return subject.run(replace(of, target_in=target, target_out=None, target_lengths=three))[:, 2]

    hypotheses = [("the cache is not reordered", inputs, old_past)]
    if subject.adapter.source is not None:
        hypotheses += [
            ("the target's keys and values are not reordered, though the source is", moved, old_past),
            ("the source is not reordered, though the target's keys and values are", inputs, tokens[rows]),
        ]
    for words, of, target in hypotheses:
        if float((full(of, target) - logits).abs().max()) <= subject.tolerance:
            return words
    return "part of the cache is not reordered, or by other rows"


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
        distances = (full.query - step.query).abs().amax(dim=(0, 1, 3))  # [T]
        told = told or float((full.query - full.query[:, :, :1]).abs().max()) > subject.tolerance
        if float(distances[t]) > subject.tolerance:
            place = int(distances.argmin())
            known = float(distances[place]) <= subject.tolerance
            return fail(
                f"the query of step {t} is that of position {place}"
                if known
                else f"the query of step {t} is none of them",
                cause="positions restart at every step" if known and place == 0 else "steps are given other positions",
                where=f"{step.module}, {spot(position=t)}",
                size=float(distances[t]),
            )
        keys = (full.key[:, :, : t + 1] - step.key[:, :, : t + 1]).abs()
        if float(keys.max()) > subject.tolerance:
            return fail(
                f"the keys cached up to step {t} are others than in the full forward",
                cause="keys are cached with other positions, or in another order",
                where=f"{step.module}, {spot(position=t)}",
                size=float(keys.max()),
            )
        a, b = full.scores[:, :, t, : t + 1], step.scores[:, :, 0, : t + 1]
        told = told or float((a - a[..., :1]).abs().max()) > subject.tolerance
        if not float((a - b).abs().max()) <= subject.tolerance * max(1.0, float(a.abs().max())):
            return fail(
                f"the scores of step {t} are others, though its query and keys are the same",
                cause="relative positions restart at every step, or the step's mask is another one",
                where=f"{step.module}, {spot(position=t)}",
            )
    if not told:
        raise NotExercised("positions do not show in the first self-attention")
    return passed()
