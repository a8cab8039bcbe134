"""Who may attend to whom, at random: settings of masks, and what they mean, spelled out pair by pair.

Axes: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import Visibility

WIDTH = 5
"""Of a head."""


@dataclass(frozen=True)
class Setting:
    """One way in which queries are kept from keys.

    Attributes:
        kind: ``self`` (as many queries as keys), ``cross`` (any number of either) or ``cached`` (``past`` keys before
            the first query).
        lengths: Real keys per row, perhaps none at all; or nothing is padded.
        causal: No query sees a key behind it.
        axes: Those of a further boolean mask, if there is one.
        share: Of pairs that this mask allows.
        emptied: Some of its queries see nothing.
        bias: A relative bias is added to the scores.
    """

    kind: Literal["self", "cross", "cached"]
    batch: int
    heads: int
    queries: int
    keys: int
    lengths: Sequence[int] | None
    causal: bool
    axes: Literal["", "TS", "BTS", "B11S", "B1TS", "BHTS"]
    share: float
    emptied: bool
    bias: bool
    seed: int

    @property
    def past(self) -> int:
        """Keys before the first query."""
        return self.keys - self.queries if self.kind == "cached" else 0

    def further(self) -> Tensor | None:
        """Return the further mask, with its own axes."""
        if not self.axes:
            return None
        sizes = {"B": self.batch, "H": self.heads, "T": self.queries, "S": self.keys, "1": 1}
        generator = torch.Generator().manual_seed(self.seed)
        mask = torch.rand([sizes[axis] for axis in self.axes], generator=generator) < self.share
        if self.emptied:
            mask[..., 0, :] = False
        return mask

    def visible(self) -> Visibility:
        """Return the setting in the library's words."""
        return Visibility(
            key_lengths=None if self.lengths is None else torch.tensor(self.lengths),
            causal=self.causal,
            allowed=self.further(),
        )

    @cached_property
    def pairs(self) -> Tensor:
        """[B, H, T, S], whether each query may attend to each key, decided pair by pair."""
        allowed = torch.ones(self.batch, self.heads, self.queries, self.keys, dtype=torch.bool)
        further = self.further()
        if further is not None:
            # axes that are left out are those of size one
            place = {"TS": (None, None, ...), "BTS": (slice(None), None, ...)}.get(self.axes, (...,))
            allowed &= further[place]
        for row in range(self.batch):
            for query in range(self.queries):
                for key in range(self.keys):
                    padded = self.lengths is not None and key >= self.lengths[row]
                    later = self.causal and key > self.past + query
                    if padded or later:
                        allowed[row, :, query, key] = False
        return allowed


@st.composite
def mask_settings(draw: st.DrawFn) -> Setting:
    kind = draw(st.sampled_from(["self", "cross", "cached"]))
    batch, heads = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 3]))
    queries = draw(st.sampled_from([1, 2, 3, 5, 7]))
    keys = {
        "self": queries,
        "cross": draw(st.sampled_from([1, 2, 5, 11])),
        "cached": queries + draw(st.sampled_from([1, 3, 5])),
    }[kind]
    padded = st.lists(st.integers(0, keys), min_size=batch, max_size=batch)
    return Setting(
        kind=kind,
        batch=batch,
        heads=heads,
        queries=queries,
        keys=keys,
        lengths=draw(st.none() | padded),
        causal=kind != "cross" and draw(st.booleans()),
        axes=draw(st.sampled_from(["", "TS", "BTS", "B11S", "B1TS", "BHTS"])),
        share=draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])),
        emptied=draw(st.booleans()),
        bias=kind != "cross" and draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )
