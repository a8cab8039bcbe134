"""How does what was seen look in a terminal? The walk with all that belongs to it, gradients, the numbers of heads.

Axes: T target, S source.
"""

from __future__ import annotations

from collections.abc import Iterator

from regard.inspection import draw_choices, draw_gradients, draw_masks, draw_table, draw_walk, draw_weights
from regard.inspection.names import COUNTED, IN_WALK
from regard.plural import plural
from regard.runs.looking.heads import aligning_look, heads_of
from regard.runs.looking.look import Look

_LOOKED_AT = 3
"""Source tokens told of each token written; the numbers of all are in --value."""


def walk_lines(look: Look, *, depth: int = 99, width: int | None = None) -> Iterator[str]:
    """Yield the walk for a terminal.

    What went in and came out, every step, the masks, how logits became tokens, where each token looked, and where the
    parameters sit.
    """
    yield from _heading(look)
    yield draw_walk(look.walk, depth=depth, width=width)
    yield IN_WALK
    if look.walk.masks:
        yield ""
        yield "Masks: a row may attend to the columns marked ■"
        yield draw_masks(look.walk.masks)
    if look.choices:
        yield ""
        yield "From logits to tokens"
        yield draw_choices(look.choices, width=width)
    yield from _attention_lines(look)
    yield from _parameter_lines(look)


def gradient_lines(look: Look) -> Iterator[str]:
    """Yield the gradient of each parameter for a terminal."""
    yield from _heading(look)
    yield f"Gradients of the {look.loss}"
    yield draw_gradients(look.walk)
    yield COUNTED


def value_lines(look: Look, pattern: str, *, width: int | None = None) -> Iterator[str]:
    """Yield the weights of the heads that ``pattern`` means, for a terminal.

    Raises:
        InputError: No attention has that name.
    """
    for name, attention, weights in heads_of(look.attentions, pattern):
        yield name + ("" if ".head:" in name else f", mean of its {plural(len(attention.weights), 'head')}")
        rows, columns = _SIDES.get(attention.address.rpartition(".")[2], _SIDES["self"])
        yield f"a row: {rows}; a column: {columns}; a row adds up to 1"
        yield draw_weights(weights, attention.rows, attention.columns, width=width)
        yield ""


_SIDES = {
    "cross": ("the token that is written", "the source token it looks at"),
    "self": ("the token that looks", "the token it looks at"),
}


def _heading(look: Look) -> Iterator[str]:
    yield look.title + (f" → {look.output}" if look.output else "")
    if (searched := look.searched) is not None:
        found = searched.found
        ending = "" if found.finished else ", cut at the longest length"
        yield f"score {found.score:.4f}, log-probability {found.log_prob:.4f}, {plural(found.length, 'token')}{ending}"
        yield searched.score
    yield ""


def _attention_lines(look: Look) -> Iterator[str]:
    """Yield the source tokens that each written token looked at most, in the layer that aligns."""
    if not any(attention.address.endswith(".cross") for attention in look.attentions):
        return
    attention = aligning_look(look.attentions)
    table = [["written", "looked at"]]
    for token, row in zip(attention.rows, attention.weights[0], strict=True):
        best = row.topk(min(_LOOKED_AT, len(row)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        table.append([token, "   ".join(f"{attention.columns[i]} {100 * share:.0f} %" for i, share in pairs)])
    yield ""
    count = len(attention.columns)
    yield (
        f"Where each token looked: {min(_LOOKED_AT, count)} of {plural(count, 'source token')}, in the mean "
        f"head of {attention.address}"
    )
    yield draw_table(table, left=(0, 1))


def _parameter_lines(look: Look) -> Iterator[str]:
    """Yield how many parameters there are and in which parts of the model."""
    whole, *rest = look.walk.visits
    parts = {visit.path: visit for visit in rest if visit.depth == whole.depth + 1 and visit.num_parameters}
    if not whole.num_parameters:
        return
    told = ", ".join(f"{visit.name} {visit.num_parameters:,}" for visit in parts.values())
    shared = sum(visit.num_parameters for visit in parts.values()) > whole.num_parameters
    yield ""
    yield f"{whole.num_parameters:,} parameters: {told}" + (" (some are shared, and counted in each)" if shared else "")
