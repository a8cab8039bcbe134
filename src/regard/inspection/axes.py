"""Which axis is which? Sizes get the letters of the paper's legend, as far as a model and its inputs tell them.

Axes: B batch, S source length, T target length, D width, H heads, K = D / H, F inner width, V vocabulary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import chain, repeat
from typing import Any

from torch import Tensor, nn

from regard.inspection.attention import kind_from_path

_SIDES = re.compile(r"(source|src|memory|encoder)|target|tgt|trg|decoder")
_ATTENTION = re.compile(r"(source|src|memory|enc|encoder)_?att[^.]*")  # stands in a decoder, whatever it looks at
_LOOKED_UP = re.compile(r"(^|_)(k|v|kv|keys?|values?)(_|$)")


def infer_sizes(model: nn.Module, inputs: Sequence[object]) -> dict[str, int]:
    """Return the sizes of the axes of ``model`` called with ``inputs``: source [B, S, …], then target [B, T, …]."""
    sizes: dict[str, int] = {}
    tensors = [x for x in inputs if isinstance(x, Tensor) and x.dim() >= 2]
    if tensors:
        sizes["B"], sizes["S"] = tensors[0].shape[:2]
    targets = [x for x in tensors[1:] if x.dim() == tensors[0].dim() and x.dtype == tensors[0].dtype]  # not the masks
    if targets:
        sizes["T"] = targets[0].shape[1]

    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    widths = Counter(
        module.normalized_shape[-1] for module in model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)
    )
    if widths:
        d = sizes["D"] = widths.most_common(1)[0][0]
        inner = Counter(module.in_features for module in linears if module.out_features == d != module.in_features)
        if inner:
            sizes["F"] = inner.most_common(1)[0][0]
        counts = (vars(module).get("num_heads") for module in model.modules())
        heads = Counter(count for count in counts if isinstance(count, int) and d % count == 0)
        if heads:
            sizes["H"] = heads.most_common(1)[0][0]
            sizes["K"] = d // sizes["H"]
    tables = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)]
    if tables:
        outputs = [module.out_features for module in linears if module.out_features in tables]
        sizes["V"] = outputs[-1] if outputs else max(tables)
    return sizes


def looked_up(path: str) -> bool:
    """Return whether ``path`` ends in the keys or values of a cross-attention."""
    return kind_from_path(path) == "cross" and _LOOKED_UP.search(path.rpartition(".")[2].lower()) is not None


def side_of(path: str, name: str = "") -> str:
    """Return which side a tensor is of, S or T, or nothing where its names do not tell.

    Args:
        path: The module that it enters or leaves.
        name: The argument it enters by.
    """
    path = path.lower()
    if looked_up(path) or looked_up(f"{path}.{name}"):
        return "S"
    words = [*_SIDES.finditer(name.lower())] or [*_SIDES.finditer(_ATTENTION.sub("", path))]
    return "" if not words else "S" if words[-1][1] else "T"


def sides_of_arguments(
    path: str, method: Callable[..., Any], args: Sequence[object], named: Mapping[str, object]
) -> list[tuple[object, str]]:
    """Return each argument of a call with its side.

    Of a whole model the arguments whose names do not tell are the source's if another is the target's; else the first
    is.
    """
    try:
        names = list(signature(method).parameters)
    except (TypeError, ValueError):  # compiled
        names = []
    given = [*zip(args, chain(names, repeat("")), strict=False), *((value, name) for name, value in named.items())]
    sides = [side_of(path, name) for _, name in given]
    if not path:
        sides = [side or ("S" if "T" in sides or place == 0 else "") for place, side in enumerate(sides)]
    return [(value, side) for (value, _), side in zip(given, sides, strict=True)]


def name_axes(shape: Sequence[int], sizes: Mapping[str, int], *, side: str = "", scores: str = "") -> str:
    """Return ``B=2, T=7, D=512`` for ``[2, 7, 512]``; an axis whose size fits none of the letters stays a number.

    Args:
        shape: The sizes of a tensor.
        sizes: Sizes by letter.
        side: S or T: which of the two to read where both have the same size.
        scores: For what attention has between queries and keys: the side of each, ``TS`` for cross-attention.
    """
    lengths = "ST" if side == "S" else "TS"
    if len(shape) == 4 and scores:
        wanted = ["B", "H", scores[0] + lengths, scores[1] + lengths]
    elif len(shape) == 4:  # heads, as attention has them
        wanted = ["B", "H" + lengths, lengths + "H", "K" + lengths]
    else:
        wanted = ["B" if len(shape) > 1 else lengths + "DFV", *[lengths] * (len(shape) - 2), "DFVK" + lengths]
        wanted = wanted[: len(shape)]
    named = []
    for size, letters in zip(shape, wanted, strict=True):
        letter = next((letter for letter in letters if sizes.get(letter) == size), "")
        named.append(f"{letter}={size}" if letter else str(size))
    return ", ".join(named)
