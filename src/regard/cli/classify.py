"""The verb ``classify``: a file of signals in, a label for each case out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, Labels, Lengths, Threads, X
from regard.plural import plural


def classify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or the folder of a run.")],
    signals: Annotated[Path, typer.Argument(metavar="FILE", help="Signals: .npz, .npy, .csv or .ts.")],
    x: X = None,
    labels: Labels = None,
    lengths: Lengths = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print JSON lines with all probabilities.", show_default=False)
    ] = False,
    explain: Annotated[
        Path | None,
        typer.Option(metavar="PAGE.html", help="Write a page that shows what counted.", show_default=False),
    ] = None,
    first: Annotated[int, typer.Option(min=1, max=1000, help="How many cases are on that page.")] = 20,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Classify signals: one label a line, in the order of the file. Labels in the file are left aside."""
    from regard.runs.translating.output import refuse_output

    refuse_output(explain, [signals])
    from regard.cli.machine import set_up
    from regard.device import best_device
    from regard.runs.evaluating.classify import answers, read_cases, write_explanations
    from regard.signals.classifier import load_classifier
    from regard.signals.readers import naming

    set_up(threads, device)
    classifier = load_classifier(model, best_device(device))
    cases = read_cases(classifier, signals, {"x": x, "labels": labels, "lengths": lengths})
    with naming(signals):
        if explain is not None:
            count = write_explanations(classifier, cases, explain, first=first)
            typer.echo(f"{explain}: what counted in {plural(count, 'case')}", err=True)
        for line in answers(classifier, cases, jsonl=jsonl):
            typer.echo(line)
