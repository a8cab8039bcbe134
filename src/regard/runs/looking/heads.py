"""Which heads does a person mean, and which words do they align?

Axes: H heads, Lq queries, Lk keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.inspection import align_words, to_pharaoh
from regard.runs.looking.look import Attention
from regard.runs.looking.parts import fitting


def heads_of(attentions: Sequence[Attention], pattern: str) -> list[tuple[str, Attention, Float[Tensor, "Lq Lk"]]]:
    """Return the name, attention and weights [Lq, Lk] of what ``pattern`` means: heads, or means of heads.

    Args:
        attentions: Those heard.
        pattern: ``decoder.layer:3.cross.head:2``, ``layer:3.head:2``, ``layer:3``; or the path of the attention in the
            model in place of the layer.

    Raises:
        InputError: No attention was heard, or none has that name.
    """
    if not attentions:
        raise InputError("no attention was heard in this module, so there are no weights to show")
    named: dict[str, tuple[Attention, Tensor]] = {}
    for attention in attentions:
        for name in (attention.address, attention.path):
            named[name] = attention, attention.weights.mean(dim=0)
            for head, weights in enumerate(attention.weights, 1):
                named[f"{name}.head:{head}"] = attention, weights
    wholes = [attention.address for attention in attentions]
    whole = [
        name for name in wholes if name.rpartition(".")[0] in {pattern, f"encoder.{pattern}", f"decoder.{pattern}"}
    ]
    names = whole or fitting(pattern, named)
    if any(name in wholes or name.partition(".head:")[0] in wholes for name in names):  # not each under its path too
        names = [name for name in names if name.partition(".head:")[0] in wholes]
    return [(name, *named[name]) for name in names]


def alignment(attentions: Sequence[Attention], pattern: str | None = None) -> str:
    """Return which source word became which target word, as ``0-0 1-2``.

    Args:
        attentions: Those heard.
        pattern: Which head, or heads: their mean is taken. Left out, all heads of the last cross-attention but one,
            which align best in most models (Garg et al. 2019, section 4.1).

    Raises:
        InputError: There is no cross-attention, or none of that name.
    """
    if pattern is None:
        cross = [attention for attention in attentions if attention.address.endswith(".cross")]
        if not cross:
            raise InputError("no cross-attention was heard in this module, so nothing can be aligned")
        chosen = [(cross[-2:][0], cross[-2:][0].weights.mean(dim=0))]
    else:
        chosen = [(attention, weights) for _, attention, weights in heads_of(attentions, pattern)]
        if strange := [attention.address for attention, _ in chosen if not attention.address.endswith(".cross")]:
            raise InputError(f"{strange[0]} is no cross-attention, so nothing can be aligned by it")
    weights = torch.stack([weights for _, weights in chosen]).mean(dim=0)
    return to_pharaoh(align_words(weights, chosen[0][0].columns, chosen[0][0].rows))
