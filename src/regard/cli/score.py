"""The verb ``score``: how probable a model finds given outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import search as words
from regard.cli.options import Device, ModelOptions, Models, Quiet, Threads, one_or_more_models


def score(
    models: Models = None,
    model_options: ModelOptions = None,
    source: Annotated[
        Path | None, typer.Option("--source", "--src", "-s", metavar="FILE", help="Source lines.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--target", "--tgt", "-t", metavar="FILE", help="Their outputs, line by line.", show_default=False
        ),
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of the two: pairs, TSV or JSONL.", show_default=False)
    ] = None,
    translations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead: what translate --jsonl --ids wrote.", show_default=False),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Tell each token too.", show_default=False)] = False,
    normalized: Annotated[
        bool, typer.Option("--normalized", help="What a search ranks by, not the sum.", show_default=False)
    ] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line.", show_default=False)] = False,
    length_penalty: words.LengthPenalty = None,
    coverage_penalty: words.CoveragePenalty = None,
    average: words.Average = "log",
    weight: words.Weights = None,
    tag: Annotated[str, typer.Option(help="Put before every line, for models with tags.", show_default=False)] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where results go.", show_default="stdout")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Tell how probable a model, or several as one, finds given outputs.

    One line for each pair: the natural-log probability of the output, its end mark included. With --tokens that of
    each token follows, tabs between them.
    """
    folders = one_or_more_models(models, model_options)
    averaged = words.averaged(average)
    from regard.cli.machine import set_up
    from regard.runs.saying import say_nothing, say_on_stderr
    from regard.runs.translating.score import Outputs
    from regard.runs.translating.score import score as run

    outputs = Outputs(source, target, pairs, translations)
    overrides = words.given({"length_penalty": length_penalty, "coverage_penalty": coverage_penalty})
    set_up(threads, device)
    run(
        folders,
        outputs,
        weights=weight,
        average=averaged,
        overrides=overrides,
        tag=tag,
        tokens=tokens,
        normalized=normalized,
        jsonl=jsonl,
        output=output,
        device=device,
        say=say_nothing if quiet else say_on_stderr,
    )
