"""The verb ``evaluate``: systems measured on a test set."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Beam, Device, Labels, Lengths, ModelOptions, Quiet, Threads, X, one_or_more_models
from regard.cli.search import one_of


def evaluate(
    systems: Annotated[
        list[Path] | None,
        typer.Argument(metavar="MODEL...", help="Model or run folders, or files of outputs.", show_default=False),
    ] = None,
    model_options: ModelOptions = None,
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
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where relative paths of the recipe start.", show_default="the current folder"
        ),
    ] = None,
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
    together: Annotated[
        bool, typer.Option("--together", help="Search all models as one system, an ensemble.", show_default=False)
    ] = False,
    signals: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labelled signals, for a classifier.", show_default=False)
    ] = None,
    x: X = None,
    labels: Labels = None,
    lengths: Lengths = None,
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
    significance: Annotated[
        str, typer.Option("--test", metavar="bootstrap|randomisation", help="How a difference is tested.")
    ] = "bootstrap",
    num_worst: Annotated[int, typer.Option("--worst", min=0, help="List so many of the worst lines.")] = 0,
    min_bleu: Annotated[float | None, typer.Option(help="End with 1 if a system has less.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Keep the translations.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)] = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Measure one or several systems on a test set.

    The test set is the files given, else what the recipe of the first model names. The others are compared with the
    first: p is how likely a difference like theirs is by chance.
    """
    given = one_or_more_models(systems, model_options)
    if min_bleu is not None and not isfinite(min_bleu):
        raise typer.BadParameter("must be a number", param_hint="--min-bleu")
    test: Literal["bootstrap", "randomisation"] = one_of("--test", significance, ("bootstrap", "randomisation"))
    from regard.folders import is_classifier  # neither this nor what follows loads torch: mistakes are told at once
    from regard.runs.translating.output import refuse_output, refuse_output_folder

    of_text: dict[str, object] = {"--source": source, "--reference": reference, "--pairs": pairs, "--metric": metric}
    of_text |= {"--beam": beam, "--several-answers": several_answers, "--lowercase": lowercase, "--output": output}
    of_text |= {"--bleu-tokenize": bleu_tokenize, "--intervals": intervals or None, "--worst": num_worst or None}
    of_text |= {"--min-bleu": min_bleu, "--together": together or None}
    said = {"x": x, "labels": labels, "lengths": lengths}
    of_signals: dict[str, object] = {"--signals": signals, "--group": group, "--plots": plots}
    of_signals |= {"--ceiling": ceiling or None, **{f"--{key}": name for key, name in said.items()}}
    classifies = is_classifier(given[0])
    for flag, value in (of_text if classifies else of_signals).items():
        if value is not None:
            kind = "a classifier of signals" if classifies else "a model of text"
            raise typer.BadParameter(f"{given[0]} is {kind}, where it has no meaning", param_hint=flag)
    if classifies:
        if len(given) > 1:
            raise typer.BadParameter("classifiers are measured one at a time", param_hint="MODEL")
        if signals is None and (stray := [key for key, name in said.items() if name is not None]):
            raise typer.BadParameter("says how the file of --signals is laid out", param_hint=f"--{stray[0]}")
        if plots is not None:
            refuse_output_folder(plots)
        from regard.cli.machine import set_up
        from regard.runs.evaluating.evaluate_classifier import evaluate_classifier

        set_up(threads, device)
        measured = evaluate_classifier(
            given[0],
            signals=signals,
            said=said,
            groups=tuple(group or ()),
            data=data,
            ceiling=ceiling,
            plots=plots,
            device=device,
        )
        for line in [measured.report.to_json()] if json else measured.lines():
            typer.echo(line)
        return
    metrics = [*(metric or ())]
    if metrics and min_bleu is not None and "bleu" not in metrics:
        metrics.append("bleu")
    wishes = {"metrics": metrics, "bleu_tokenize": bleu_tokenize}
    from regard.runs.recipes.recipe import check

    check({"evaluation": {name: wish for name, wish in wishes.items() if wish}}, "the evaluation")
    if pairs is not None and (source or reference):
        raise typer.BadParameter("holds source and references: give it alone", param_hint="--pairs")
    if output is not None and len(given) > 1 and not together:
        raise typer.BadParameter("takes the outputs of one system", param_hint="--output")
    refuse_output(output, [source, *(reference or ()), pairs, *given])
    from regard.cli.machine import set_up
    from regard.runs.evaluating.evaluate import evaluate as run
    from regard.runs.saying import say_nothing, say_on_stderr

    say = say_nothing if quiet else say_on_stderr
    set_up(threads, device)
    found = run(
        *([tuple(given)] if together else given),
        source=source,
        references=reference or (),
        pairs=pairs,
        several_answers=several_answers,
        data=data,
        metrics=metrics,
        bleu_tokenize=bleu_tokenize,
        lowercase=lowercase,
        beam=beam,
        intervals=intervals,
        test=test,
        num_worst=num_worst,
        output=output,
        device=device,
        say=say,
    )
    for line in [found.to_json()] if json else found.lines():
        typer.echo(line)
    if min_bleu is not None and (lowest := found.lowest("BLEU")) < min_bleu:
        typer.echo(f"regard: BLEU {lowest:.2f} is below {min_bleu:g}", err=True)
        raise typer.Exit(1)
