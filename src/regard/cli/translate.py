"""The verb ``translate``: a filter. One line out for each line in, in order, as soon as the input pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli import search as words
from regard.cli.options import Beam, Device, ModelOptions, Models, Quiet, Threads, one_or_more_models


def translate(
    models: Models = None,
    model_options: ModelOptions = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Lines to translate.", show_default="stdin")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where results go.", show_default="stdout")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="text|nbest|jsonl|fairseq", help="Of results.", show_default="text, or nbest"),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="A JSON object a line: source, translation, score.", show_default=False)
    ] = False,
    json_input: Annotated[
        bool,
        typer.Option(
            "--json-input", help="Lines in are objects too: text, tag, prefix, constraints, forbid.", show_default=False
        ),
    ] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="With --jsonl: tell the tokens, for `score`.", show_default=False)
    ] = False,
    nbest: words.Nbest = None,
    beam: Beam = None,
    length_penalty: words.LengthPenalty = None,
    coverage_penalty: words.CoveragePenalty = None,
    max_len: words.MaxLen = None,
    max_len_ratio: words.MaxLenRatio = None,
    max_len_margin: words.MaxLenMargin = None,
    min_len: words.MinLen = None,
    min_len_ratio: words.MinLenRatio = None,
    groups: words.Groups = None,
    diversity: words.Diversity = None,
    no_repeat: words.NoRepeat = None,
    repetition_penalty: words.RepetitionPenalty = None,
    suppress_unknown: words.SuppressUnknown = None,
    samples: words.Samples = None,
    temperature: words.Temperature = None,
    top_k: words.TopK = None,
    top_p: words.TopP = None,
    min_p: words.MinP = None,
    seed: words.Seed = None,
    mbr: words.LeastRisk = None,
    tag: Annotated[str, typer.Option(help="Put before every line, for models with tags.", show_default=False)] = "",
    alignments: Annotated[
        bool, typer.Option("--alignments", "--alignment", help="Tell which words belong together.", show_default=False)
    ] = False,
    alignment_threshold: Annotated[
        float | None, typer.Option(help="Link all words with this share of attention.", show_default="the best one")
    ] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Unknown words are copied from the source.", show_default=False)
    ] = False,
    dictionary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TSV: what they become instead.", show_default=False)
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TSV: phrases and what they must become.", show_default=False)
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="No output has this phrase; may be repeated.")
    ] = None,
    suppress: Annotated[
        list[str] | None,
        typer.Option(metavar="TOKEN", help="Never choose this token, as the vocabulary has it; may be repeated."),
    ] = None,
    bias: Annotated[
        list[str] | None,
        typer.Option(metavar="TOKEN=NATS", help="Make a token, as the vocabulary has it, likelier; may be repeated."),
    ] = None,
    paragraphs: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Translate sentence by sentence.", show_default=False)
    ] = None,
    average: words.Average = "log",
    weight: words.Weights = None,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes, each with the models.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Translate lines: one out for each one in.

    An empty line gives an empty line; order is kept; what is there is written whenever the input pauses. Several
    models are searched as one.
    """
    folders = one_or_more_models(models, model_options)
    values = {
        "beam": beam,
        "nbest": nbest,
        "length_penalty": length_penalty,
        "coverage_penalty": coverage_penalty,
        "max_length": max_len,
        "max_length_ratio": max_len_ratio,
        "max_length_margin": max_len_margin,
        "min_length": min_len,
        "min_length_ratio": min_len_ratio,
        "groups": groups,
        "diversity": diversity,
        "no_repeat": no_repeat,
        "repetition_penalty": repetition_penalty,
        "suppress_unknown": suppress_unknown,
        "samples": samples,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    if jsonl and form not in (None, "jsonl"):
        raise typer.BadParameter("--jsonl is --format jsonl; give one", param_hint="--format")
    several = (nbest or 1) > 1 or ((samples or 1) > 1 and mbr is None)
    form_name: Literal["text", "nbest", "jsonl", "fairseq"] = words.one_of(
        "--format",
        form or ("jsonl" if jsonl else "nbest" if several else "text"),
        ("text", "nbest", "jsonl", "fairseq"),
    )
    if ids and form_name != "jsonl":
        raise typer.BadParameter("goes with --jsonl", param_hint="--ids")
    averaged = words.averaged(average)
    biases = tuple(map(words.token_and_nats, bias or ()))
    overrides = words.given(values, mbr)  # no longer words alone: it loads numpy

    from regard.runs.translating.output import refuse_output

    refuse_output(output_file, [input_file or "-", glossary, dictionary])
    from regard.cli.machine import set_up
    from regard.cli.pauses import pauses
    from regard.runs.saying import say_nothing, say_on_stderr
    from regard.runs.translating.filter import FilterOptions
    from regard.runs.translating.translate import translate as run
    from regard.translation import read_glossary

    options = FilterOptions(
        models=tuple(map(str, folders)),
        weights=tuple(weight) if weight else None,
        average=averaged,
        overrides=overrides,
        tag=tag,
        json_input=json_input or (input_file is not None and ".jsonl" in input_file.suffixes),
        form=form_name,
        ids=ids,
        align=alignments or alignment_threshold is not None,
        threshold=alignment_threshold,
        replace_unknown=replace_unknown,
        dictionary=None if dictionary is None else read_glossary(dictionary, "dictionary"),
        glossary=None if glossary is None else read_glossary(glossary),
        forbid=tuple(forbid or ()),
        suppress=tuple(suppress or ()),
        bias=biases,
        paragraphs=paragraphs,
    )
    set_up(threads, device)
    run(
        options,
        source=input_file or "-",
        output=output_file,
        workers=workers,
        device=device,
        threads=threads,
        pauses=pauses,
        say=say_nothing if quiet else say_on_stderr,
    )
