"""The verb ``train``: a model from files or a recipe."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Data, Device, Quiet, Threads


def train(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="A TOML file.", show_default=False)] = None,
    source: Annotated[
        Path | None, typer.Option("--source", "--src", "-s", metavar="FILE", help="Source lines.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", "--tgt", "-t", metavar="FILE", help="Target lines.", show_default=False)
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead of the two: pairs, TSV or JSONL.", show_default=False),
    ] = None,
    valid: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="SOURCE TARGET", help="Validation files.", show_default="a share is set aside"),
    ] = None,
    valid_pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of the two: pairs.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="The folder of the run.", show_default="runs/NAME"),
    ] = None,
    data: Data = None,
    preset: Annotated[
        str | None, typer.Option(metavar="tiny|small|base|big", help="Size of the model.", show_default="by the text")
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Stop after so many updates.", show_default="by the text")] = None,
    epochs: Annotated[int | None, typer.Option(help="Stop after so many passes.", show_default=False)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many minutes, all calls added.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.", show_default=False)] = None,
    init: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Start from this model folder.", show_default=False)
    ] = None,
    said: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other key of a recipe, as training.label_smoothing=0.2; may be repeated.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    dump: Annotated[
        bool, typer.Option("--dump", "--dump-config", help="Print the recipe in effect, and stop.", show_default=False)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what the training would be and take, and stop.", show_default=False)
    ] = False,
    lr_range: Annotated[
        bool, typer.Option("--lr-range", help="Try 100 learning rates, suggest one, and stop.", show_default=False)
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --lr-range: draw its curve.", show_default=False)
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show where a failed update of a run breaks, and stop.", show_default=False),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write curves to RUN/tensorboard.", show_default=False)
    ] = False,
) -> None:
    """Train a model from files or a recipe.

    The text is given as two files, as a file of pairs, or by a recipe; signals by a recipe that says
    ``kind = "signals"`` in ``[data]``. The same command goes on with a stopped run.
    """
    quiet = quiet or os.environ.get("RANK", "0") != "0"  # of several processes the first speaks
    from regard.runs.recipes.changes import read_changes, with_own

    changes = read_changes(said or ())
    if "data.kind" in changes:
        raise typer.BadParameter("data.kind must stand in a recipe: it says what the rest means", param_hint="--set")
    instead = {"--dump": dump, "--dry-run": dry_run, "--lr-range": lr_range, "--replay": replay}
    if len(several := [flag for flag, asked_for in instead.items() if asked_for]) > 1:
        raise typer.BadParameter(f"give {several[0]} or {several[1]}, not both", param_hint=several[1])
    if recipe is not None and _names_signals(recipe):
        senseless: dict[str, object] = {
            "--source": source,
            "--target": target,
            "--pairs": pairs,
            "--valid": valid,
            "--preset": preset,
        }
        senseless |= {"--valid-pairs": valid_pairs, "--init": init, "--plot": plot, "--replay": replay}
        senseless |= {"--dry-run": dry_run, "--lr-range": lr_range, "--tensorboard": tensorboard}
        if strange := [flag for flag, value in senseless.items() if value]:
            raise typer.BadParameter(
                f"{recipe} is of signals, where {strange[0]} has no meaning", param_hint=strange[0]
            )
        limits = {"updates": updates, "epochs": epochs, "minutes": minutes, "seed": seed}
        changes = with_own(changes, {f"training.{name}": limit for name, limit in limits.items()})
        _train_on_signals(recipe, changes, out=out, data=data, device=device, threads=threads, quiet=quiet, dump=dump)
        return
    if valid is not None and valid_pairs is not None:
        raise typer.BadParameter("give --valid or --valid-pairs, not both", param_hint="--valid")
    if plot is not None and not lr_range:
        raise typer.BadParameter("goes with --lr-range", param_hint="--plot")
    if replay is not None:
        _replay(replay, threads, device)
        return
    validation = valid or ((valid_pairs,) if valid_pairs else ())
    from regard.runs.translating.output import refuse_output

    refuse_output(plot, [recipe, source, target, pairs])
    from regard.runs.recipes.plan import plan

    asked = plan(
        recipe,
        source=source,
        target=target,
        pairs=pairs,
        valid=validation,
        out=out,
        data=data,
        preset=preset,
        updates=updates,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        init=init,
        changes=changes,
    )
    asked.corpora()  # mistakes are told before anything large is loaded
    if dump:
        from regard.runs.recipes.recipe import dump as as_toml

        _say(f"reading {asked.files_in_words()} …", quiet)
        effective, chosen = asked.dry()
        _say(chosen, quiet)
        typer.echo(as_toml(effective), nl=False)
        return

    _say("loading PyTorch …", quiet)
    from regard.cli.machine import set_up
    from regard.runs.training.train import train_planned

    set_up(threads, device)
    if dry_run:
        from regard.runs.training.dry_run import dry_run as rehearse

        for part in rehearse(asked, device=device, say=partial(_say, quiet=quiet)):
            typer.echo(part)
        return
    if lr_range:
        from regard.runs.training.rate_test import rate_test

        for line in rate_test(asked, picture=plot, device=device, say=partial(_say, quiet=quiet)):
            typer.echo(line)
        return
    train_planned(asked, device=device, quiet=quiet, tensorboard=tensorboard)


def _replay(path: Path, threads: int | None, device: str) -> None:
    from regard.cli.machine import set_up
    from regard.runs.training.replay import replay_failure

    set_up(threads, device)
    for line in replay_failure(path, device=device):
        typer.echo(line)


def _names_signals(recipe: Path) -> bool:
    """Whether a recipe is of signals, found out without loading what reads recipes; a mistake is for others to tell."""
    from regard.runs.recipes.tables import is_of_signals

    try:
        return is_of_signals(tomllib.loads(recipe.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")))
    except (OSError, ValueError, RecursionError):
        return False


def _train_on_signals(
    recipe: Path,
    changes: Mapping[str, Any],
    *,
    out: Path | None,
    data: Path | None,
    device: str,
    threads: int | None,
    quiet: bool,
    dump: bool,
) -> None:
    if dump:
        from regard.runs.recipes.signal_plan import plan_signals
        from regard.runs.recipes.signal_recipe import dump_signals

        typer.echo(dump_signals(plan_signals(recipe, data=data, changes=changes).recipe), nl=False)
        return
    from regard.cli.machine import set_up
    from regard.runs.training.train_classifier import train_classifier

    set_up(threads, device)
    train_classifier(recipe, changes=changes, out=out, data=data, device=device, quiet=quiet)


def _say(sentence: str, quiet: bool) -> None:
    if not quiet:
        typer.echo(sentence, err=True)
