"""Where does each attention of a model look?

Axes: B batch, H heads, Lq queries, Lk keys, N layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import InputError, nearest
from regard.inspection.listeners import attach

Kind = Literal["encoder", "decoder", "cross", "self"]
"""Encoder self-attention, decoder self-attention, decoder over encoder, or self-attention of neither."""

SIDES: Mapping[Kind, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
    "cross": ("target", "source"),
    "self": ("source", "source"),
}
"""Of which tokens queries and keys are; ``read`` is what the decoder had read when it wrote each target token."""

_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|multihead_attn|src_attn|memory|source")


class AttentionMaps(Mapping[str, list[Tensor]]):
    """The weights heard, by the path of the attention: one [B, H, Lq, Lk] per forward, float32, on the CPU.

    Paths are in the order in which the attentions were first called. ``kinds`` maps path patterns to kinds, where paths
    do not tell them.

    Raises:
        InputError: a kind is unknown, or, when it is looked up, nothing was heard at a path.
    """

    def __init__(self, model_name: str, kinds: Mapping[str, str] | None = None) -> None:
        for kind in (kinds or {}).values():
            if kind not in get_args(Kind):
                raise InputError(f"unknown kind of attention {kind!r}{nearest(kind, get_args(Kind))}")
        self._model_name = model_name
        self._kinds = {pattern: cast(Kind, kind) for pattern, kind in (kinds or {}).items()}
        self._heard: dict[str, list[Tensor]] = {}

    def hear(self, name: str, weights: Float[Tensor, "B H Lq Lk"]) -> None:
        """Keep the weights of one forward of the attention at path ``name``."""
        self._heard.setdefault(name, []).append(weights.detach().float().cpu())

    def clear(self) -> None:
        """Forget what was heard so far."""
        self._heard.clear()

    def __getitem__(self, name: str) -> list[Tensor]:
        if not self._heard:
            raise InputError(_nothing_heard(self._model_name))
        if name not in self._heard:
            raise InputError(f"no attention named {name!r} was heard{nearest(name, self._heard)}")
        return self._heard[name]

    def __contains__(self, name: object) -> bool:
        return name in self._heard

    def __iter__(self) -> Iterator[str]:
        return iter(self._heard)

    def __len__(self) -> int:
        return len(self._heard)

    def kind(self, name: str) -> Kind:
        """Return what kind of attention ``name`` is: as given by the caller, else read from its path."""
        given = [kind for pattern, kind in self._kinds.items() if fnmatchcase(name, pattern)]
        return given[0] if given else kind_from_path(name)

    def names(self, kind: Kind | None = None) -> list[str]:
        """Return the paths heard, all or those of one kind."""
        return [name for name in self._heard if kind is None or self.kind(name) == kind]

    def stacked(self, name: str) -> Float[Tensor, "B H Lq Lk"]:
        """Return what ``name`` said as one map: the rows of all its forwards, below each other.

        Made for generation, where each step adds one row; a shorter row is filled with zeros on the right. For several
        independent forwards take ``maps[name][i]``.

        Raises:
            InputError: the batch changed on the way, so that rows of different sentences would meet.
        """
        calls = self[name]
        if len({weights.shape[:2] for weights in calls}) > 1:
            raise InputError(
                f"the batch of {name!r} changed from one forward to the next, so its rows cannot be stacked; "
                "generate one sentence at a time, or watch one forward over the finished output"
            )
        width = max(weights.shape[-1] for weights in calls)
        return torch.cat([F.pad(weights, (0, width - weights.shape[-1])) for weights in calls], dim=-2)

    def layers(self, kind: Kind, row: int = 0) -> Float[Tensor, "N H Lq Lk"]:
        """Return the maps of all attentions of one kind for batch row ``row``, a layer each.

        Raises:
            InputError: none of this kind was heard, or their heads or lengths differ.
        """
        names = self.names(kind)
        if not names:
            heard = ", ".join(f"{name} ({self.kind(name)})" for name in self._heard)
            raise InputError(f"no attention of kind {kind!r} was heard; heard: {heard or 'none at all'}")
        maps = [self.stacked(name)[row] for name in names]
        if len({weights.shape for weights in maps}) > 1:
            shapes = ", ".join(f"{name} {list(weights.shape)}" for name, weights in zip(names, maps, strict=True))
            raise InputError(f"the attentions of kind {kind!r} differ in shape, take them one by one: {shapes}")
        return torch.stack(maps)


@contextmanager
def watch_attention(model: nn.Module, *, kinds: Mapping[str, str] | None = None) -> Iterator[AttentionMaps]:
    """Collect the attention weights of every forward of ``model`` inside the ``with`` block.

    The model computes what it always does, bit for bit: weights are worked out aside (see ``listeners.py``). Works for
    any module that has ``listen`` (Regard's own), ``torch.nn.MultiheadAttention``, and whatever calls
    ``scaled_dot_product_attention`` or a softmax of its own (Hugging Face models in both their ways).
    While beams are reordered a row of the batch is not one hypothesis: to look at what a search found, watch one
    forward over its result.

    Args:
        model: Any module that contains attention.
        kinds: Path patterns (``blocks.*.mix``) and what kind of attention they are, where paths do not say it.

    Raises:
        InputError: when the block ends and no attention was heard, or a kind is unknown.

    ::

        with watch_attention(model) as maps:
            model(source, target)
        maps["decoder.layers.0.cross_attention"][0]     # [B, H, T, S]
    """
    maps = AttentionMaps(type(model).__name__, kinds)
    with attach(model, maps.hear):
        yield maps
    if not maps:
        raise InputError(_nothing_heard(type(model).__name__))


def kind_from_path(path: str) -> Kind:
    """Return the kind of an attention as its path tells: ``decoder.layers.0.cross_attention`` is ``cross``."""
    *parents, own = path.lower().split(".")
    if _CROSS.search(own) or any(_CROSS.search(parent) for parent in parents):
        return "cross"
    if any("decoder" in parent for parent in parents):
        return "decoder"
    if any("encoder" in parent for parent in parents):
        return "encoder"
    return "self"


def _nothing_heard(model_name: str) -> str:
    return (
        f"no attention was heard from {model_name}: it was not called while watched, was compiled, or has none; heard "
        "are modules with `listen`, torch.nn.MultiheadAttention, and calls of scaled_dot_product_attention or softmax"
    )
