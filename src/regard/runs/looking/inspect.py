"""What does `regard inspect` show? What is asked for, of what is looked at: as text, JSON or a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.device import best_device
from regard.errors import InputError
from regard.inspection import flatness
from regard.inspection.alignment import doubt_of_flat
from regard.models import Transformer
from regard.runs.looking.as_json import as_json
from regard.runs.looking.costs import Costs, Sizes, cost_lines, costs_of
from regard.runs.looking.heads import aligning_look, alignment
from regard.runs.looking.in_terminal import gradient_lines, value_lines, walk_lines
from regard.runs.looking.look import Look, look_at_module, look_at_text
from regard.runs.looking.on_page import check_page_length, page
from regard.runs.looking.subjects import is_code, made
from regard.runs.saying import Say
from regard.runs.translating.output import refuse_output, write_result
from regard.translator import load

_MORE = (
    "more: --html FILE (one page to click through), --value decoder.layer:1.cross.head:1 (the numbers of a head), "
    "--alignments, --backward (gradients), --ledger (parameters, memory, work), --depth 2 (a shorter walk), --json"
)
"""What a person who has seen the walk may not know of."""


@dataclass(frozen=True)
class InspectOptions:
    """What shall be shown; the walk, if nothing is asked for.

    Attributes:
        ledger: Parameters, memory and work.
        sizes: What the ledger is of; left out, the lengths of what is looked at, or 30 tokens on each side.
        value: Heads whose weights are printed, see `heads_of`.
        backward: Gradients.
        alignments: Which source word became which target word.
        align_by: By which heads.
        depth: How deep walk and ledger go; left out, the walk all the way and the ledger 2.
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

    @property
    def of_example(self) -> bool:
        """Whether something is asked for that only an example shows."""
        return bool(self.value) or self.backward or self.alignments


def inspect(
    subject: str,
    text: str | None,
    options: InspectOptions,
    *,
    translation: str | None = None,
    beam: int | None = None,
    tag: str = "",
    device: str = "auto",
    say: Say,
) -> Iterator[str]:
    """Look into a model, and yield what is asked for, line by line.

    Args:
        subject: A model or run folder; or ``package.module:name``, as for `regard.runs.looking.verify.verify`.
        text: A sentence for the model of a folder; a module gets an example that is drawn for it.
        options: What to show.
        translation: What the decoder reads; left out, what a search finds.
        beam: Of the search; left out, the model's own.
        tag: Put before the text.
        device: Where to compute; a module stays where it is.
        say: Told what is missing in a page, and where it is.

    Raises:
        InputError: The subject, the text or a part cannot be used.
    """
    refuse_output(options.html, [])
    look: Look | None = None
    if is_code(subject):
        if text is not None or translation is not None:
            raise InputError(f"{subject} has no tokenizer and reads no text; it is shown an example drawn for it")
        model, _ = made(subject)
        only_ledger = options.ledger and not (options.of_example or options.html)
        look = None if only_ledger else look_at_module(model, backward=options.backward)
    else:
        translator = load(subject, best_device(device))
        model = translator.model
        if text is not None:
            if options.html is not None:
                check_page_length(translator.source_tokenizer.encode(text))
            look = look_at_text(
                translator, text, translation=translation, beam=beam, tag=tag, backward=options.backward
            )
        elif not options.ledger:
            raise InputError(f'give a sentence to look at, as in: regard inspect {subject} "some text"; or --ledger')
    if look is None and options.of_example:
        raise InputError(f'this needs a sentence to look at, as in: regard inspect {subject} "some text"')
    costs = None
    if options.ledger or options.html is not None:
        longest = model.spec.max_len if isinstance(model, Transformer) else 30
        lengths = (min(30, longest),) * 2 if look is None else (len(look.source), len(look.target))
        costs = costs_of(model, options.sizes or (1, *lengths))
    if options.html is not None:
        if look is not None and look.example() is None:
            say("no attention was heard in this module, so the page has no tab for it")
        report, told = page(look, costs)
        write_result(options.html, report.encode())
        say(f"{options.html}: {told}; open it in a browser")
    if options.as_json:
        found = as_json(look, costs, values=options.value, align_by=options.align_by, align=options.alignments)
        yield json.dumps(found, ensure_ascii=False, allow_nan=False)
        return
    yield from _asked(look, costs, options, say)


def _asked(look: Look | None, costs: Costs | None, options: InspectOptions, say: Say) -> Iterator[str]:
    if look is not None:
        for pattern in options.value:
            yield from value_lines(look, pattern, width=options.width)
        if options.alignments:
            aligning = aligning_look(look.attentions, options.align_by)
            yield alignment(aligning)
            if (sentence := doubt_of_flat(flatness(aligning.weights[0]))) is not None:
                say(sentence)
        if options.backward:
            yield from gradient_lines(look)
        if options.html is None and not (options.of_example or options.ledger):
            yield from walk_lines(look, depth=99 if options.depth is None else options.depth, width=options.width)
            say(_MORE)
    if options.ledger and costs is not None:
        yield from cost_lines(costs, depth=2 if options.depth is None else options.depth)
