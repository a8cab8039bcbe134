"""What does `regard inspect` show? Walk, numbers of a head, gradients, alignments, ledger; as text, JSON or page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.inspection import (
    draw_choices,
    draw_gradients,
    draw_masks,
    draw_walk,
    draw_weights,
)
from regard.inspection.report import (
    AttentionSection,
    BeamSection,
    LedgerSection,
    Section,
    WalkSection,
    render_page,
)
from regard.inspection.report.attention import MAX_TOKENS
from regard.models import Transformer
from regard.runs.device import best_device
from regard.runs.looking.costs import Costs, Sizes, cost_lines, costs_of
from regard.runs.looking.heads import alignment, heads_of
from regard.runs.looking.look import Look, look_at_module, look_at_text
from regard.runs.looking.subjects import is_code, made
from regard.runs.saying import Say
from regard.runs.translating.output import refuse_output, write_result
from regard.translator import load


@dataclass(frozen=True)
class Wishes:
    """What shall be shown; the walk, if nothing is asked for.

    Attributes:
        ledger: Parameters, memory and work.
        sizes: What the ledger is of; left out, the lengths of what is looked at, or 30 tokens on each side.
        value: Heads whose weights are printed, see `heads_of`.
        backward: Gradients.
        alignments: Which source word became which target word.
        align_by: By which heads.
        depth: How deep walk and ledger go; left out, the walk all the way and the ledger 3.
        html: A file for all of it, in place of text.
        as_json: JSON in place of text.
        width: Columns of the terminal, if it is one.
    """

    ledger: bool = False
    sizes: Sizes | None = None
    value: tuple[str, ...] = ()
    backward: bool = False
    alignments: bool = False
    align_by: str | None = None
    depth: int | None = None
    html: Path | None = None
    as_json: bool = False
    width: int | None = None


def inspect(
    subject: str,
    text: str | None,
    wishes: Wishes,
    *,
    translation: str | None = None,
    beam: int | None = None,
    tag: str = "",
    device: str = "auto",
    say: Say,
) -> Iterator[str]:
    """Look into a model, and yield what was wished for, line by line.

    Args:
        subject: A model or run folder; or ``package.module:name``, as for `regard.runs.looking.verify.verify`.
        text: A sentence for the model of a folder; a module gets an example that is drawn for it.
        wishes: What to show.
        translation: What the decoder reads; left out, what a search finds.
        beam: Of the search; left out, the model's own.
        tag: Put before the text.
        device: Where to compute; a module stays where it is.
        say: Told what is missing in a page, and where it is.

    Raises:
        InputError: The subject, the text or a part cannot be used.
    """
    refuse_output(wishes.html, [])
    look: Look | None = None
    if is_code(subject):
        if text is not None or translation is not None:
            raise InputError(f"{subject} has no tokenizer and reads no text; it is shown an example drawn for it")
        model, _ = made(subject)
        only_ledger = wishes.ledger and not (wishes.value or wishes.backward or wishes.alignments or wishes.html)
        look = None if only_ledger else look_at_module(model, backward=wishes.backward)
    else:
        translator = load(subject, best_device(device))
        model = translator.model
        if text is not None:
            if wishes.html is not None:
                check_page_length(translator.source_tokenizer.encode(text))
            look = look_at_text(translator, text, translation=translation, beam=beam, tag=tag, backward=wishes.backward)
        elif not wishes.ledger:
            raise InputError(f'give a sentence to look at, as in: regard inspect {subject} "some text"; or --ledger')
    if look is None and (wishes.value or wishes.backward or wishes.alignments):
        raise InputError(f'this needs a sentence to look at, as in: regard inspect {subject} "some text"')
    costs = None
    if wishes.ledger or wishes.html is not None:
        longest = model.spec.max_len if isinstance(model, Transformer) else 30
        lengths = (min(30, longest),) * 2 if look is None else (len(look.source), len(look.target))
        costs = costs_of(model, wishes.sizes or (1, *lengths))
    if wishes.html is not None:
        if look is not None and look.example() is None:
            say("no attention was heard in this module, so the page has no tab for it")
        write_result(wishes.html, page(look, costs).encode())
        say(f"{wishes.html}: open it in a browser")
    if wishes.as_json:
        yield json.dumps(as_json(look, costs, wishes), ensure_ascii=False, allow_nan=False)
        return
    yield from _asked(look, costs, wishes)


def _asked(look: Look | None, costs: Costs | None, wishes: Wishes) -> Iterator[str]:
    if look is not None:
        for pattern in wishes.value:
            yield from value_lines(look, pattern)
        if wishes.alignments:
            yield alignment(look.attentions, wishes.align_by)
        if wishes.backward:
            yield from gradient_lines(look)
        asked = wishes.value or wishes.alignments or wishes.backward or wishes.ledger
        if wishes.html is None and not asked:
            yield from walk_lines(look, depth=99 if wishes.depth is None else wishes.depth, width=wishes.width)
    if wishes.ledger and costs is not None:
        yield from cost_lines(costs, depth=3 if wishes.depth is None else wishes.depth)


# ---- text ------------------------------------------------------------------------------------------------------------


def walk_lines(look: Look, *, depth: int = 99, width: int | None = None) -> Iterator[str]:
    """Yield the walk for a terminal: what went in and came out, every step, the masks, and how logits became tokens."""
    yield from _heading(look)
    yield draw_walk(look.walk, depth=depth, width=width)
    if look.walk.masks:
        yield ""
        yield "Masks: a row may attend to the columns marked ■"
        yield draw_masks(look.walk.masks)
    if look.choices:
        yield ""
        yield "From logits to tokens"
        yield draw_choices(look.choices)


def gradient_lines(look: Look) -> Iterator[str]:
    """Yield the gradient of each parameter for a terminal."""
    yield from _heading(look)
    yield f"Gradients of the {look.loss}"
    yield draw_gradients(look.walk)


def _heading(look: Look) -> Iterator[str]:
    yield look.title + (f" → {look.output}" if look.output else "")
    if look.found is not None:
        ending = "" if look.found.finished else ", cut at the longest length"
        yield f"score {look.found.score:.4f}, log-probability {look.found.log_prob:.4f}{ending}"
    yield ""


def value_lines(look: Look, pattern: str) -> Iterator[str]:
    """Yield the weights of the heads that ``pattern`` means, for a terminal.

    Raises:
        InputError: No attention has that name.
    """
    for name, attention, weights in heads_of(look.attentions, pattern):
        yield name + ("" if ".head:" in name else ", mean of its heads")
        yield draw_weights(weights, attention.rows, attention.columns)
        yield ""


# ---- page and JSON ---------------------------------------------------------------------------------------------------


def page(look: Look | None, costs: Costs | None) -> str:
    """Return the report: one HTML file with a tab for each thing that was looked at.

    Raises:
        InputError: A sentence is too long to be drawn.
    """
    sections: list[Section] = []
    title, lead = "Ledger", ""
    if look is not None:
        check_page_length(look.source)
        title, lead = look.title, look.output
        if (example := look.example()) is not None:
            sections.append(AttentionSection([example]))
        sections.append(WalkSection(look.walk, look.choices))
    if costs is not None:
        sections.append(LedgerSection(costs.ledger, note=" ".join(costs.sentences())))
    if look is not None and look.beams:
        sections.append(BeamSection(look.beams))
    return render_page(title, sections, lead=lead)


def check_page_length(source: Sequence[str] | Sequence[int]) -> None:
    """Refuse what a page cannot show, before it is computed."""
    if len(source) > MAX_TOKENS:
        raise InputError(
            f"the sentence has {len(source):,} tokens, and a page shows at most {MAX_TOKENS}; shorten it, or leave out "
            "--html"
        )


def as_json(look: Look | None, costs: Costs | None, wishes: Wishes) -> dict[str, Any]:
    """Return all that was seen, of the types that JSON has."""
    found: dict[str, Any] = {}
    if look is not None:
        walk = WalkSection(look.walk, look.choices).data()
        found |= {
            "input": look.title,
            "output": look.output,
            "source": list(look.source),
            "target": list(look.target),
            "visits": walk["visits"],
            "masks": {path: mask.int().tolist() for path, mask in look.walk.masks.items()},
            "choices": walk["choices"],
        }
        if look.found is not None:
            found |= {"score": look.found.score, "log_prob": look.found.log_prob, "finished": look.found.finished}
        if look.loss:
            found |= {"loss": look.loss, "gradients": walk["gradients"]}
        if wishes.value:
            found["values"] = {
                name: {"rows": attention.rows, "columns": attention.columns, "weights": weights.tolist()}
                for pattern in wishes.value
                for name, attention, weights in heads_of(look.attentions, pattern)
            }
        if wishes.alignments:
            found["alignment"] = alignment(look.attentions, wishes.align_by)
        if look.beams:
            found["beam"] = BeamSection(look.beams).data()["steps"]
    if costs is not None:
        found["ledger"] = LedgerSection(costs.ledger).data()["entries"]
        found["sizes"] = dict(zip("BST", costs.sizes, strict=True))
        found["cache_bytes"] = {
            "per_target_token": costs.cache.per_target_token,
            "per_source_token": costs.cache.per_source_token,
        }
        found["training_bytes"] = costs.ledger.training_bytes()
        if costs.step_flops is not None:
            found["step_flops"] = costs.step_flops
    return found
