"""Which heads does a person mean, and which words do they align?

Axes: H heads, Lq queries, Lk keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.inspection import align_words, aligning_layer, to_pharaoh
from regard.inspection.names import counted
from regard.runs.looking.look import Attention
from regard.runs.looking.parts import fitting


def heads_of(attentions: Sequence[Attention], pattern: str) -> list[tuple[str, Attention, Float[Tensor, "Lq Lk"]]]:
    """Return the name, attention and weights [Lq, Lk] of what ``pattern`` means: heads, or means of heads.

    Args:
        attentions: Those heard.
        pattern: ``decoder.layer:3.cross.head:2``, ``layer:3.head:2``, ``layer:3``; or the path of the attention in
            Python, which counts from 0, in place of the layer.

    Raises:
        InputError: No attention was heard, or none has that name.
    """
    if not attentions:
        raise InputError("no attention was heard in this module, so there are no weights to show")
    named: dict[str, tuple[Attention, Tensor]] = {}
    spelled: dict[str, str] = {}  # however a part is spelled -> its one name
    for attention in attentions:
        address = attention.address
        named[address] = attention, attention.weights.mean(dim=0)
        named |= {f"{address}.head:{head}": (attention, one) for head, one in enumerate(attention.weights, 1)}
        for spelling in (address, counted(attention.path), attention.path):
            heads = ("", *(f".head:{head}" for head in range(1, len(attention.weights) + 1)))
            spelled |= {spelling + head: address + head for head in heads}
    whole = [
        attention.address
        for attention in attentions
        if attention.address.rpartition(".")[0] in {pattern, f"encoder.{pattern}", f"decoder.{pattern}"}
    ]
    names = dict.fromkeys(whole or [spelled[spelling] for spelling in fitting(pattern, spelled)])
    return [(name, *named[name]) for name in names]


def aligning_look(attentions: Sequence[Attention], pattern: str | None = None) -> Attention:
    """Return the look that words are aligned by, as an attention with a single head.

    Args:
        attentions: Those heard.
        pattern: Which head, or heads: their mean is taken. Left out, all heads of the layer that
            `regard.inspection.aligning_layer` names.

    Raises:
        InputError: There is no cross-attention, or none of that name.
    """
    if pattern is None:
        cross = [attention for attention in attentions if attention.address.endswith(".cross")]
        if not cross:
            raise InputError("no cross-attention was heard in this module, so nothing can be aligned")
        aligning = cross[aligning_layer(len(cross))]
        return replace(aligning, weights=aligning.weights.mean(dim=0, keepdim=True))
    chosen = [(attention, weights) for _, attention, weights in heads_of(attentions, pattern)]
    if strange := [attention.address for attention, _ in chosen if not attention.address.endswith(".cross")]:
        raise InputError(f"{strange[0]} is no cross-attention, so nothing can be aligned by it")
    return replace(chosen[0][0], weights=torch.stack([weights for _, weights in chosen]).mean(dim=0, keepdim=True))


def alignment(look: Attention) -> str:
    """Return which source word became which target word, as ``0-0 1-2``."""
    return to_pharaoh(align_words(look.weights[0], look.column_words, look.row_words))
