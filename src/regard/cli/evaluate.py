"""The verb ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Data, Device, Model, ModelOption, Quiet, Threads, one_model


def evaluate(
    model: Model = None,
    model_option: ModelOption = None,
    source: Annotated[
        Path | None, typer.Option("--source", "--src", "-s", metavar="FILE", help="Source lines.", show_default=False)
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option("--reference", "--ref", "-r", metavar="FILE", help="References; may be repeated."),
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of the two: pairs, TSV or JSONL.", show_default=False)
    ] = None,
    several_answers: Annotated[
        bool | None,
        typer.Option(
            "--several-answers/--one-answer", help="A repeated source lists a further answer.", show_default=False
        ),
    ] = None,
    data: Data = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="bleu, chrf, ter, exact, wer, per, ...; may be repeated.", show_default="the model's recipe"),
    ] = None,
    bleu_tokenize: Annotated[
        str | None, typer.Option("--bleu-tokenize", "--tokenize", help="13a, none, intl, zh, char.", show_default=False)
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--cased", help="Compare without case.", show_default=False)
    ] = None,
    beam: Beam = None,
    signals: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labelled signals, for a classifier.", show_default=False)
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Tell accuracies apart by it; may be repeated.", show_default=False),
    ] = None,
    ceiling: Annotated[
        bool, typer.Option("--ceiling", help="Also the best possible, for generated signals.", show_default=False)
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Pictures of a classifier's results.", show_default=False)
    ] = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Add 95 % intervals.", show_default=False)] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Keep the translations.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)] = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Measure a model on a test set.

    The test set is the files given, else what the model's recipe names.
    """
    folder = one_model(model, model_option)
    of_text = {"--source": source, "--reference": reference, "--pairs": pairs, "--metric": metric, "--beam": beam}
    of_signals = {"--signals": signals, "--group": group, "--ceiling": ceiling, "--plots": plots}
    from regard.bundle import is_classifier
    from regard.cli.machine import set_up

    classifies = is_classifier(folder)
    set_up(threads, device)
    for flag, value in (of_text if classifies else of_signals).items():
        if value:
            kind = "a classifier of signals" if classifies else "a model of text"
            raise typer.BadParameter(f"{folder} is {kind}, where it has no meaning", param_hint=flag)
    if classifies:
        from regard.runs.evaluate_classifier import evaluate_classifier

        found = evaluate_classifier(
            folder,
            signals=signals,
            groups=tuple(group or ()),
            data=data,
            ceiling=ceiling,
            plots=plots,
            device=device,
        )
        for line in [found.report.to_json()] if json else found.lines():
            typer.echo(line)
        return
    from regard.runs.evaluate import evaluate as run

    report = run(
        folder,
        source=source,
        references=reference or (),
        pairs=pairs,
        several_answers=several_answers,
        data=data,
        metrics=metric or (),
        bleu_tokenize=bleu_tokenize,
        lowercase=lowercase,
        beam=beam,
        intervals=intervals,
        output=output,
        device=device,
    )
    for line in [report.to_json()] if json else report.lines():
        typer.echo(line)
