"""Which source word became which target word, and what does each head do? Numbers read off attention weights.

Axes: N layers, H heads, T target and S source pieces, L pieces of one sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, ShapeError

Link = tuple[int, int]
"""Source word, target word, both from 0."""

ALIGNING_LAYER = -2
"""Which cross-attention of a decoder aligns words where nobody chose one: the last but one, see `aligning_layer`."""

FLAT = 0.9
"""Share of the largest possible entropy from which on a look says nothing about which word was meant."""


def aligning_layer(num_layers: int) -> int:
    """Return the layer, from 0, whose mean head aligns words where nobody chose: the last but one, or the only one.

    The last layer is busy with what comes next (Garg et al. 2019, "Jointly Learning to Align and Translate with
    Transformer Models", section 4.1); measured in ``docs/decisions/0023-the-last-layer-but-one-aligns.md``.
    """
    return max(0, num_layers + ALIGNING_LAYER)


def word_spans(spellings: Sequence[bytes]) -> list[list[int]]:
    """Return the indices of the tokens of each word, words being what spaces part, whatever the tokens are.

    Args:
        spellings: What each token adds to the text, such as ``b" do"``; one that adds nothing, as an end mark, belongs
            to no word, one that holds a space may belong to two.
    """
    spans: list[list[int]] = []
    inside = False
    for index, spelled in enumerate(spellings):
        for place, part in enumerate(spelled.split(b" ")):
            inside = inside and place == 0
            if part:
                if not inside:
                    spans.append([])
                    inside = True
                spans[-1].append(index)
    return spans


def word_weights(
    weights: Float[Tensor, "T S"], source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> Float[Tensor, "words_T words_S"]:
    """Return how much each target word looks at each source word.

    A look at any piece of a source word is a look at the word (sum); the pieces of a target word have one say each
    (mean).

    Args:
        weights: The map.
        source: Which columns are each source word, see `word_spans`.
        target: Which rows are each target word.

    Raises:
        ShapeError: The map has not so many rows or columns.
    """
    for side, words, size in (("target", target, weights.shape[0]), ("source", source, weights.shape[1])):
        if (last := max((index for word in words for index in word), default=-1)) >= size:
            raise ShapeError(f"the {side} words reach to piece {last + 1}, but `weights` is {list(weights.shape)}")
    rows = [weights[list(word)].mean(dim=0) for word in target]
    columns = [torch.stack(rows, dim=0)[:, list(word)].sum(dim=1) for word in source] if rows else []
    return torch.stack(columns, dim=1) if columns else weights.new_zeros(len(rows), 0)


def align_words(
    weights: Float[Tensor, "T S"],
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    *,
    threshold: float | None = None,
) -> list[Link]:
    """Return the alignment that cross-attention draws between the words of a sentence and of its translation.

    Each target word is linked to the source word it looks at most; with ``threshold``, to all words that have at least
    this share of its look and to none when none has.

    Args:
        weights: Cross-attention of one layer and head, or a mean over some.
        source: Which columns are each source word, see `word_spans`.
        target: Which rows are each target word.
        threshold: Smallest share of a link, in (0, 1].

    Raises:
        ShapeError: As ``word_weights``.
    """
    table = word_weights(weights, source, target)
    if table.numel() == 0:
        return []
    if threshold is None:
        return sorted((int(best), row) for row, best in enumerate(table.argmax(dim=1)))
    return sorted((int(column), int(row)) for row, column in (table >= threshold).nonzero().tolist())


def to_pharaoh(links: Collection[Link]) -> str:
    """Return links as ``0-0 1-2``: source-target, words counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def from_pharaoh(line: str) -> list[Link]:
    """Return the links of a line such as ``0-0 1-2``. Raises InputError when it has another form."""
    found = [re.fullmatch(r"(\d+)-(\d+)", item) for item in line.split()]
    if None in found:
        raise InputError(f"an alignment must be like '0-0 1-2' (source-target), but is {line.strip()!r}")
    return [(int(match[1]), int(match[2])) for match in found if match]


def alignment_error_rate(
    found: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """Return 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over all sentences: 0 is perfect (Och and Ney 2003, section 5).

    Args:
        found: Links of each sentence.
        sure: Links a person is sure of.
        possible: Links that may be, the sure ones need not be repeated; left out, the sure ones alone.
    """
    good = total = 0
    for i, (ours, certain) in enumerate(zip(found, sure, strict=True)):
        a, s = set(ours), set(certain)
        p = s | set(possible[i]) if possible is not None else s
        good += len(a & s) + len(a & p)
        total += len(a) + len(s)
    return 1 - good / total if total else 0.0


@dataclass(frozen=True)
class HeadChoice:
    """How well a head aligns: its layer and number, from 0, and its error rate; no head is the mean of its layer."""

    layer: int
    head: int | None
    error_rate: float


def rank_heads(
    maps: Sequence[Float[Tensor, "..."]],
    sources: Sequence[Sequence[Sequence[int]]],
    targets: Sequence[Sequence[Sequence[int]]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> list[HeadChoice]:
    """Return every cross-attention head and mean of a layer's heads, nearest first to how people align the sentences.

    Args:
        maps: Per sentence the cross-attention [N, H, T, S].
        sources: Source words per sentence, see ``align_words``.
        targets: Target words per sentence.
        sure: See ``alignment_error_rate``.
        possible: Likewise.

    Raises:
        InputError: There is no sentence.
        ShapeError: As ``word_weights``.
    """
    if not maps:
        raise InputError("`maps` must hold at least one sentence, but is empty")
    num_layers, num_heads = maps[0].shape[:2]
    choices = []
    for layer in range(num_layers):
        for head in (None, *range(num_heads)):
            chosen = [m[layer].mean(dim=0) if head is None else m[layer, head] for m in maps]
            found = [align_words(m, s, t) for m, s, t in zip(chosen, sources, targets, strict=True)]
            choices.append(HeadChoice(layer, head, alignment_error_rate(found, sure, possible)))
    return sorted(choices, key=lambda choice: choice.error_rate)


def flatness(weights: Float[Tensor, "T S"]) -> float:
    """Return the mean entropy of the rows as a share of the largest possible: 0 looks at one piece, 1 at all alike.

    Rows that see nothing are left out; of a single piece there is nothing to choose, and the share is 0.
    """
    seeing = weights[weights.sum(dim=-1) > 0].double()
    if weights.shape[-1] < 2 or not len(seeing):
        return 0.0
    return float(torch.special.entr(seeing).sum(dim=-1).mean()) / math.log(weights.shape[-1])


def doubt_of_flat(share: float) -> str | None:
    """Return what to say of alignments by looks of this mean `flatness`, or None if all is well."""
    if share < FLAT:
        return None
    return (
        f"this attention looks at all words nearly alike (entropy {100 * share:.0f} % of the largest possible), so its "
        "alignments mean little; `regard inspect` finds a better head by --best-head, and aligns by it with --align-by"
    )


@dataclass(frozen=True)
class HeadSummary:
    """What a head does on average over its queries; queries with nothing to look at are left out.

    Attributes:
        layer: From 0.
        head: From 0.
        entropy: Bits; 0 looks at one token, log2 of the length at all alike.
        distance: Σ weight · |query − key|, in tokens.
        peak: The largest weight.
    """

    layer: int
    head: int
    entropy: float
    distance: float
    peak: float


def summarise_heads(weights: Float[Tensor, "N H Lq Lk"]) -> list[HeadSummary]:
    """Return one summary per layer and head."""
    _, _, num_queries, num_keys = weights.shape
    w = weights.double()
    seeing = w.sum(dim=-1) > 0
    count = seeing.sum(dim=-1).clamp(min=1)
    away = (torch.arange(num_queries)[:, None] - torch.arange(num_keys)).abs().to(w)

    def mean(per_query: Tensor) -> list[list[float]]:
        means: list[list[float]] = (per_query.masked_fill(~seeing, 0.0).sum(dim=-1) / count).tolist()
        return means

    entropy = mean(torch.special.entr(w).sum(dim=-1) / math.log(2))
    distance = mean((w * away).sum(dim=-1))
    peak = mean(w.amax(dim=-1))
    return [
        HeadSummary(layer, head, entropy[layer][head], distance[layer][head], peak[layer][head])
        for layer in range(weights.shape[0])
        for head in range(weights.shape[1])
    ]


def attention_rollout(weights: Float[Tensor, "N H L L"], *, residual: float = 0.5) -> Float[Tensor, "L L"]:
    """Return how much of each input token reaches each output position through a stack of self-attention layers.

    A layer passes on ``residual`` of what was there and the rest as its mean head looks; layers multiply (Abnar and
    Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3). What a target token saw of the input is its
    row of cross-attention times the rollout of the encoder.

    Raises:
        InputError: ``residual`` is no share.
    """
    if not 0 <= residual <= 1:
        raise InputError(f"`residual` must be between 0 and 1, but is {residual}")
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    flow = identity
    for layer in weights.mean(dim=1):
        flow = (residual * identity + (1 - residual) * layer) @ flow
    return flow
