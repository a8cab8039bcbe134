"""Which source token did each target token look at? The data of the report's attention section.

Axes: N layers, H heads, Lq queries, Lk keys, S source and T target tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.inspection.alignment import aligning_layer
from regard.inspection.attention import SIDES, AttentionMaps, Kind
from regard.inspection.report.page import render_page
from regard.protocols import BOS, SPECIALS

MAX_TOKENS = 512
"""Longest side of an example."""

MAX_WEIGHTS = 2_000_000
"""Weights of one map beyond which its heads are averaged, so that a page stays a few megabytes."""


@dataclass(frozen=True)
class Example:
    """A source, what the model made of it, and where it looked.

    Attributes:
        source: The S source tokens, as they shall be read.
        target: The T tokens written, end of sentence included if the maps have its row.
        maps: Weights by kind, [N, H, Lq, Lk]: ``cross`` [.., T, S], ``encoder`` or ``self`` [.., S, S], ``decoder``
            [.., T, T].
        read: What the decoder had read when it wrote each target token; left out, ``<s>`` and the target before it.
        title: What the list shows; left out, the source.
        output: Second line in the list; left out, the target.
        facts: Name and value pairs shown above the tokens: a reference, a score.
        correct: Whether the output is right, if known.
    """

    source: Sequence[str]
    target: Sequence[str]
    maps: Mapping[Kind, Tensor]
    read: Sequence[str] = ()
    title: str = ""
    output: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    correct: bool | None = None

    def data(self) -> dict[str, Any]:
        """Return the example as the page reads it.

        Raises:
            InputError: it is empty or longer than ``MAX_TOKENS``, or has no maps.
            ShapeError: a map does not fit its tokens.
        """
        read = list(self.read) or [SPECIALS[BOS], *self.target][: len(self.target)]
        name = self.title or _text(self.source)
        if not self.source or not self.maps:
            raise InputError(f"the example {name!r} has no {'maps' if self.source else 'source tokens'} to draw")
        longest = max(len(self.source), len(self.target))
        if longest > MAX_TOKENS:
            raise InputError(
                f"the example that starts with {name[:40]!r} has {longest:,} tokens on one side, more than the "
                f"{MAX_TOKENS} that a page can show; split the sentence"
            )
        sizes = {"source": len(self.source), "target": len(self.target), "read": len(read)}
        for kind, weights in self.maps.items():
            rows, columns = (sizes[side] for side in SIDES[kind])
            if weights.dim() != 4 or weights.shape[-2:] != (rows, columns):
                raise ShapeError(
                    f"the {kind} map of the example {name!r} must be [layers, heads, {rows}, {columns}], but is "
                    f"{list(weights.shape)}"
                )
        return {
            "title": name,
            "output": self.output or _text(self.target),
            "source": list(self.source),
            "target": list(self.target),
            "read": read,
            "facts": [[key, value] for key, value in self.facts.items()],
            "correct": self.correct,
            "maps": {kind: _map_data(weights) for kind, weights in self.maps.items()},
            "aligning": aligning_layer(len(self.maps["cross"])) if "cross" in self.maps else None,
        }


def example_of(
    maps: AttentionMaps,
    source: Sequence[str],
    target: Sequence[str],
    *,
    row: int = 0,
    title: str = "",
    output: str = "",
    facts: Mapping[str, str] | None = None,
    correct: bool | None = None,
) -> Example:
    """Return the example of batch row ``row`` of what was watched; padding beyond the tokens given is cut off."""
    sizes = {"source": len(source), "target": len(target), "read": len(target)}
    cut = {
        kind: maps.layers(kind, row)[..., : sizes[rows], : sizes[columns]]
        for kind, (rows, columns) in SIDES.items()
        if maps.names(kind)
    }
    return Example(source, target, cut, title=title, output=output, facts=facts or {}, correct=correct)


@dataclass(frozen=True)
class AttentionSection:
    """The attention tab.

    Attributes:
        examples: What can be chosen, at least one.
        layer: The layer shown first, from 0; None is the mean over layers.
        head: The head shown first, from 0; None is the mean over heads.
        name: The tab's name.
    """

    examples: Sequence[Example]
    layer: int | None = None
    head: int | None = None
    name: str = "Attention"

    def data(self) -> dict[str, Any]:
        """Return the section as the page reads it. Raises InputError when there is no example."""
        if not self.examples:
            raise InputError("there is no example to draw; give at least one")
        examples = [example.data() for example in self.examples]
        averaged = any(weights["averaged"] for example in examples for weights in example["maps"].values())
        return {
            "type": "attention",
            "name": self.name,
            "layer": self.layer,
            "head": self.head,
            "examples": examples,
            "note": "Heads of long sentences are averaged." if averaged else "",
        }


def attention_page(
    title: str, examples: Sequence[Example], *, lead: str = "", layer: int | None = None, head: int | None = None
) -> str:
    """Return one self-contained HTML page in which the attention of ``examples`` can be explored."""
    return render_page(title, [AttentionSection(examples, layer, head)], lead=lead)


def _map_data(weights: Tensor) -> dict[str, Any]:
    averaged = weights.shape[1] if weights.numel() > MAX_WEIGHTS and weights.shape[1] > 1 else 0
    if averaged:
        weights = weights.mean(dim=1, keepdim=True)
    # The root spends the 256 steps where weights are small: of 1/200 the error is 0.0003, of 1 it is 0.004 at most.
    steps = (weights.detach().float().cpu().nan_to_num(0).clamp(0, 1).sqrt() * 255).round().byte()
    num_layers, num_heads, num_rows, num_columns = weights.shape
    return {
        "layers": num_layers,
        "heads": num_heads,
        "rows": num_rows,
        "columns": num_columns,
        "averaged": averaged,  # of how many heads this is the mean, 0 for none
        "data": base64.b64encode(steps.contiguous().numpy().tobytes()).decode("ascii"),
    }


def _text(tokens: Sequence[str]) -> str:
    words = [token for token in tokens if token not in SPECIALS]
    if any("▁" in word for word in words):  # sentencepiece: the sign stands for a blank
        return "".join(words).replace("▁", " ").strip()
    return ("" if all(len(word) == 1 for word in words) else " ").join(words)
