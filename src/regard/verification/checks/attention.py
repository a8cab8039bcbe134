"""Is attention what it says it is: who is seen, with which weights, at which scale, by which head?

Axes: B rows, H heads, Lq queries, Lk keys, K width of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.verification.findings import Finding, NotExercised, check, fail, judge, passed
from regard.verification.heads import feature_ratio, heads_not_transposed, merged_ratio, merged_without_transpose
from regard.verification.places import spot
from regard.verification.subject import Subject
from regard.verification.trace import Attention


@dataclass(frozen=True)
class View:
    """One attention beside what it should see.

    Attributes:
        kind: ``encoder``, ``decoder`` or ``cross``.
        attention: The attention.
        allowed: [B, Lq, Lk] True where a key should be seen.
        keys: [B, Lk] True where a key is real.
        queries: [B, Lq] True where a query is real, and so worth looking at.
    """

    kind: str
    attention: Attention
    allowed: Tensor
    keys: Tensor
    queries: Tensor

    @property
    def seen(self) -> Tensor:
        """[B, H, Lq, Lk] True where a key has a weight."""
        return self.attention.weights > 0

    def matches(self, pattern: Tensor) -> bool:
        """Return whether exactly ``pattern`` [B, Lq, Lk] is seen, in the rows in which it differs from what should be.

        A row in which the pattern shows nothing says nothing, for there the weights are whatever masking everything
        gives.
        """
        pattern = pattern.expand_as(self.allowed)
        telling = self.queries & pattern.any(dim=-1) & (pattern != self.allowed).any(dim=-1)
        same = (self.seen == pattern[:, None]).all(dim=-1).all(dim=1)
        return bool(telling.any()) and bool(same[telling].all())


def _views(subject: Subject) -> list[View]:
    """Return the attentions whose queries and keys are positions of the inputs.

    Raises:
        NotExercised: there are none.
    """
    views = []
    for kind, attention in subject.attentions:
        keys = subject.inputs.real("target" if kind == "decoder" else "source")
        queries = subject.inputs.real("source" if kind == "encoder" else "target")
        length, width = attention.weights.shape[-2:]
        fitted_queries, fitted_keys = _fit(queries, length), _fit(keys, width)
        if fitted_queries is None or fitted_keys is None or attention.weights.size(0) != subject.inputs.batch:
            continue
        queries, keys = fitted_queries, fitted_keys
        allowed = keys[:, None, :].expand(-1, queries.size(1), -1)
        if kind == "decoder" or (kind == "encoder" and _encoder_is_causal(subject)):
            allowed = allowed & _triangle(queries.size(1), keys.size(1), keys.device)
        views.append(View(kind, attention, allowed, keys, queries))
    if not views:
        raise NotExercised("no attention over the positions of the inputs was seen")
    return views


def _fit(real: Tensor, length: int) -> Tensor | None:
    """Return ``real`` [B, L] with a leading token's place if there is one more position; None if it does not fit."""
    if length == real.size(1) + 1:
        return torch.cat([real.new_ones(len(real), 1), real], dim=1)
    return real if length == real.size(1) else None


def _triangle(queries: int, keys: int, device: torch.device, diagonal: int = 0) -> Tensor:
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(diagonal)


def _encoder_is_causal(subject: Subject) -> bool:
    if subject.adapter.causal_source is not None:
        return subject.adapter.causal_source
    upper = [(a.weights.triu(1) > 0).any() for kind, a in subject.attentions if kind == "encoder"]
    return not any(bool(some) for some in upper)


def _mistake(view: View) -> tuple[str, bool]:
    """Return in words which mask would give what is seen, and whether it is an inverted one."""
    keys = view.keys[:, None, :]
    num_queries, num_keys = view.allowed.shape[-2:]
    everything = torch.ones_like(view.allowed)
    triangle = _triangle(num_queries, num_keys, keys.device)
    shifted = {d: _triangle(num_queries, num_keys, keys.device, d) for d in (-1, 1)}
    name = {"encoder": "the encoder's self-attention", "decoder": "the decoder's self-attention"}.get(
        view.kind, "cross-attention"
    )
    causal = view.kind == "decoder"
    if not keys.all():
        if view.matches(~keys & everything):
            return f"the padding mask is inverted in {name}: only padding is seen", True
        if not causal and view.matches(everything):
            return f"the padding mask is not passed to {name}", False
    if causal:
        for what, pattern in (("", ~triangle), (" with the diagonal", ~shifted[-1])):
            if view.matches(pattern & everything) or view.matches(pattern & keys):
                return f"the causal mask is inverted: only later tokens are seen{what}", True
        if view.matches(everything) or view.matches(keys & everything):
            return "there is no causal mask", False
        if view.matches(shifted[1] & everything) or view.matches(shifted[1] & keys):
            return "the causal mask is shifted by one: each position also sees the next", False
        if view.matches(shifted[-1] & everything) or view.matches(shifted[-1] & keys):
            return "the causal mask is shifted by one: no position sees itself", False
    elif view.matches(triangle & keys) or view.matches(triangle & everything):
        return f"{name} is given a causal mask", False
    seen = view.seen.any(dim=1)
    if bool((seen & ~view.allowed)[view.queries].any()):
        if bool((view.seen.all(dim=-1).any(dim=1) & ~view.allowed.all(dim=-1))[view.queries].all()):
            return f"nothing is masked in {name}: the mask has no effect on its weights", False
        return f"the mask of {name} lies on the wrong axis, rows or ids", False
    return f"the mask of {name} hides keys that should be seen", False


@check("Weights sum to one over the keys that may be seen, and are zero elsewhere")
def check_attention_rows(subject: Subject) -> Finding:
    """Look at each attention's weights as the values meet them, in the rows of real queries."""
    worst = 0.0
    for view in _views(subject):
        weights, where = view.attention.weights, view.attention.module
        rows = view.queries[:, None].expand(weights.shape[:3])
        off = torch.where(rows & view.allowed.any(dim=-1)[:, None], (weights.sum(dim=-1) - 1).abs(), 0.0)
        size = float(off.nan_to_num(nan=math.inf).max())
        if not size <= subject.exactness:
            row, head, query = (int(i) for i in (~(off <= subject.exactness)).nonzero()[0])
            return judge(
                size,
                subject.exactness,
                detail=f"the weights of a query sum to {float(weights[row, head, query].sum()):.4g}",
                cause=_why_not_one(view) if bool(weights[row, head, query].sum() > 0) else _mistake(view)[0],
                where=f"{where}, head {head}, {spot(row, query)}",
            )
        wrong = (view.seen != view.allowed[:, None]) & rows[..., None]
        if wrong.any():
            row, head, query, key = (int(i) for i in wrong.nonzero()[0])
            rule = "may not be seen" if view.seen[row, head, query, key] else "may be seen"
            return fail(
                f"key {key} has weight {float(weights[row, head, query, key]):.3g} but {rule}",
                cause=_mistake(view)[0],
                where=f"{where}, head {head}, {spot(row, query)}",
                size=float(weights[row, head, query, key]),
            )
        worst = max(worst, size)
    return judge(worst, subject.exactness)


def _why_not_one(view: View) -> str:
    axis = view.attention.axis
    if axis != -1:
        return f"the softmax runs over axis {axis} of the scores, the keys are axis -1"
    return "the weights were changed after the softmax: masked without making up for it, or used transposed"


@check("No mask is inverted: what should be seen is, and what should not is not")
def check_mask_polarity(subject: Subject) -> Finding:
    """Compare what each attention sees with the opposite of what it should see."""
    views = _views(subject)
    for view in views:
        words, inverted = _mistake(view)
        if inverted:
            return fail("exactly the wrong keys are seen", cause=words, where=view.attention.module)
    if all(bool(view.allowed.all()) for view in views):
        raise NotExercised("nothing is masked: no padding is known, and nothing is causal")
    return passed()


@check("Scores are the products of queries and keys times 1/√K")
def check_attention_scale(subject: Subject) -> Finding:
    """Measure the factor between the projected queries and keys and the scores, wherever it is applied.

    Lengths of projected vectors are compared with those multiplied (which rotary positions leave alone), and products
    with scores (where a bias that all rows share cancels between two rows).
    """
    wanted = subject.adapter.attention_scale
    if wanted == "any":
        raise NotExercised("the model scales its scores in a way of its own")
    measured = 0
    worst = 0.0
    trace, exactness = subject.base_trace, min(subject.exactness, 1e-3)
    for _, attention in subject.attentions:
        factors = (
            feature_ratio(trace, attention, attention.query, exactness),
            feature_ratio(trace, attention, attention.key, exactness),
            _slope(attention, exactness),
        )
        if any(factor is None for factor in factors):
            continue
        scale = math.prod(factor for factor in factors if factor is not None)
        width = attention.query.size(-1)
        expected = 1 / math.sqrt(width) if wanted is None else float(wanted)
        off = abs(scale / expected - 1)
        if off > 1e-3:
            return judge(
                off,
                1e-3,
                detail=f"scores are products times {scale:.5g}, but should be times {expected:.5g}",
                cause=_why_scaled(scale, width, attention.query.size(1), wanted is None),
                where=attention.module,
            )
        measured += 1
        worst = max(worst, off)
    if not measured:
        raise NotExercised("no attention was seen from its projections to its scores")
    return judge(worst, 1e-3)


def _slope(attention: Attention, exactness: float) -> float | None:
    """Return c if scores are c · product, or that plus a bias that is the same for all rows; else None."""
    visible = (attention.weights > 0) & attention.scores.isfinite() & attention.product.isfinite()
    p, s = attention.product.double(), attention.scores.double()
    pairs = [(p[visible], s[visible])]
    if len(p) > 1:
        both = visible[0] & visible[1]
        pairs.append(((p[0] - p[1])[both], (s[0] - s[1])[both]))
    for x, y in pairs:
        if x.numel() < 2 or not float(y.abs().max()) > 0:
            continue
        c = float((x * y).sum() / (x * x).sum())
        if float((y - c * x).abs().max()) <= exactness * float(y.abs().max()):
            return c
    return None


def _why_scaled(scale: float, width: int, heads: int, standard: bool) -> str:
    guesses = {
        1.0: "scores are not divided by √K",
        1 / math.sqrt(width * heads): "scores are divided by the root of the model's width, not of a head's",
        math.sqrt(width): "scores are multiplied by √K, not divided",
        1 / width: "scores are divided by √K twice",
    }
    for value, words in guesses.items():
        if abs(scale / value - 1) < 1e-3:
            hint = (
                " (if that is meant, say so in the adapter: attention_scale=1.0)" if value == 1.0 and standard else ""
            )
            return words + hint
    return "the factor is not the one that is meant"


@check("Each head keeps all positions, and each position gets its own heads back")
def check_head_layout(subject: Subject) -> Finding:
    """Follow the lengths of vectors from projections into heads and from heads into the output projection.

    A reshape without the transpose deals a position's features out to other positions.
    """
    trace, batch, exactness = subject.base_trace, subject.inputs.batch, min(subject.exactness, 1e-3)
    lengths = {subject.inputs.side(side).size(1) + leading for side in subject.adapter.sides for leading in (0, 1)}
    followed = 0
    for _, attention in subject.attentions:
        if attention.weights.size(0) != batch:
            continue
        heads, length, width = attention.weights.shape[1:]
        if heads in lengths and length == width and length not in lengths:
            return fail(
                "each position's heads attend to one another, and no position to another",
                cause="[B, L, H, K] was not transposed to [B, H, L, K]",
                where=attention.module,
            )
        if heads > 1 and width > 1 and bool((attention.weights[:, 1:] == attention.weights[:, :1]).all()):
            return fail(
                "all heads have the same weights", cause="one head's vectors are used by all", where=attention.module
            )
        for name in ("query", "key", "value"):
            x = getattr(attention, name)
            if x is None:
                continue
            if feature_ratio(trace, attention, x, exactness) is not None:
                followed += 1
            elif heads > 1 and heads_not_transposed(trace, attention, x, exactness):
                return fail(
                    f"the {name} of a position is made of features of several positions",
                    cause="[B, L, D] was reshaped to [B, H, L, K] directly: view as [B, L, H, K], then transpose",
                    where=attention.module,
                )
        if merged_ratio(trace, attention, exactness) is not None:
            followed += 1
        elif heads > 1 and merged_without_transpose(trace, attention):
            return fail(
                "what attention gives a position is made of the sums of several positions",
                cause="[B, H, L, K] was reshaped to [B, L, D] directly: transpose back first",
                where=attention.module,
            )
    if not followed:
        raise NotExercised("no attention was seen between its projections")
    return passed()
