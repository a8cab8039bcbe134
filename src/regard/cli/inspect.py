"""The verb ``inspect``: what goes on inside a model."""

from __future__ import annotations

import sys
from json import dumps
from os import environ
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated

import typer

from regard.cli.options import Beam, Device, Quiet, Threads


def inspect(
    subject: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, or package.module:name.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="A sentence to look at; not for modules.", show_default=False)
    ] = None,
    translation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this translation.", show_default="the model's own")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it as one page.", show_default=False)
    ] = None,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Print parameters, memory and work.", show_default=False)
    ] = False,
    sizes: Annotated[
        tuple[int, int, int] | None,
        typer.Option(metavar="B S T", help="Of so many rows, source and target tokens.", show_default="the text's"),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Print a head's weights: decoder.layer:3.cross.head:2.", show_default=False),
    ] = None,
    backward: Annotated[bool, typer.Option("--backward", help="Print gradients.", show_default=False)] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Print which words became which.", show_default=False)
    ] = False,
    align_by: Annotated[
        str | None,
        typer.Option(metavar="PART", help="By these heads.", show_default="the last cross-attention but one"),
    ] = None,
    best_head: Annotated[
        Path | None,
        typer.Option(
            metavar="LINKS",
            help="Rank heads by how near they align the test files to this file of lines like 0-0 1-2.",
            show_default=False,
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Compare on test files without: layer:3.head:2, positions, ..."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--source", "--src", "-s", metavar="FILE", help="Test source.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", "--tgt", "-t", metavar="FILE", help="Test target.", show_default=False)
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Measure translations too: bleu, chrf, wer, ...; may be repeated.", show_default=False),
    ] = None,
    beam: Beam = None,
    tag: Annotated[str, typer.Option(help="Put before the text, as in training.", show_default=False)] = "",
    depth: Annotated[int | None, typer.Option(min=0, help="How deep to go.", show_default="walk all, ledger 2")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)] = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """See inside a model: where it looks, what happens to its tensors, where its parameters sit.

    Prints the walk of a sentence through the model, or what is asked for. Any torch.nn.Module can be looked at, with an
    example that is drawn for it.
    """
    from regard.cli.machine import set_up
    from regard.runs.saying import say_nothing, say_on_stderr

    files = without is not None or source is not None or target is not None
    if files and (source is None or target is None or text is not None):
        raise typer.BadParameter(
            "test files take --source and --target, and no TEXT beside them", param_hint="--source, --target"
        )
    if best_head is not None and not files:
        raise typer.BadParameter("needs the files of the pairs too: --source and --target", param_hint="--best-head")
    if files and [bool(without), alignments, best_head is not None].count(True) != 1:
        raise typer.BadParameter(
            "test files are for one of --without PART, --alignments and --best-head LINKS", param_hint="--source"
        )
    for flag, has_no_use, needed in (
        ("--metric", bool(metric) and not without, "--without PART"),
        ("--align-by", bool(align_by) and not alignments, "--alignments"),
    ):
        if has_no_use:
            raise typer.BadParameter(f"is for {needed} alone", param_hint=flag)
    unused: dict[str, object] = {
        "--html": html,
        "--ledger": ledger,
        "--sizes": sizes,
        "--value": value,
        "--backward": backward,
        "--depth": depth is not None,
    }
    unused |= {"--translation": translation, "--beam": beam, "--tag": tag, "--json": as_json and alignments}
    for flag, given in unused.items() if files else ():
        if given:
            raise typer.BadParameter("has no meaning for test files as they are asked for", param_hint=flag)
    set_up(threads, device)
    say = say_nothing if quiet else say_on_stderr
    if files:
        from regard.device import best_device
        from regard.runs.looking.align import aligned_lines, ranked_heads, ranking_lines
        from regard.runs.looking.without import compare_without, comparison_lines
        from regard.translator import load

        assert source is not None and target is not None
        translator = load(subject, best_device(device))
        if best_head is not None:
            ranking = ranked_heads(translator, source, target, best_head, say=say)
            for line in [dumps([one.to_json() for one in ranking])] if as_json else ranking_lines(ranking):
                typer.echo(line)
            return
        if not without:
            for line in aligned_lines(translator, source, target, align_by, say=say):
                typer.echo(line)
            return
        rows = list(compare_without(translator, without, source, target, metrics=metric or (), say=say))
        for line in [dumps([row.to_json() for row in rows])] if as_json else comparison_lines(rows):
            typer.echo(line)
        return

    from regard.runs.looking.inspect import InspectOptions, inspect

    options = InspectOptions(
        ledger=ledger,
        sizes=sizes,
        value=tuple(value or ()),
        backward=backward,
        alignments=alignments,
        align_by=align_by,
        depth=depth,
        html=html,
        as_json=as_json,
        width=get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in environ else None,
    )
    for line in inspect(subject, text, options, translation=translation, beam=beam, tag=tag, device=device, say=say):
        typer.echo(line)
