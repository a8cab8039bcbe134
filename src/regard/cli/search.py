"""Options that change the search of a model, for all verbs that search."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import typer

from regard.errors import nearest

_RECIPE = "the model's recipe"

Nbest = Annotated[
    int | None,
    typer.Option(
        "--nbest",
        "-n",
        min=1,
        max=1000,
        help="List so many outputs a line; widens the recipe's beam.",
        show_default=False,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option("--length-penalty", "--lenpen", help="Higher favours longer outputs.", show_default=_RECIPE),
]
MaxLen = Annotated[int | None, typer.Option("--max-len", min=1, help="Most tokens of an output.", show_default=_RECIPE)]
MaxLenRatio = Annotated[
    float | None,
    typer.Option("--max-len-ratio", "--max-len-a", min=0, help="Most tokens per source token.", show_default=_RECIPE),
]
MaxLenMargin = Annotated[
    int | None,
    typer.Option("--max-len-margin", "--max-len-b", min=0, help="Tokens on top of the ratio.", show_default=_RECIPE),
]
MinLen = Annotated[
    int | None, typer.Option("--min-len", min=0, help="Fewest tokens of an output.", show_default=_RECIPE)
]
MinLenRatio = Annotated[
    float | None, typer.Option("--min-len-ratio", min=0, help="Fewest tokens per source token.", show_default=_RECIPE)
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option("--coverage-penalty", min=0, help="Cost of source words never attended to.", show_default=_RECIPE),
]
Groups = Annotated[
    int | None,
    typer.Option(
        "--groups", "--diverse-beam-groups", min=1, help="Groups of the beam that differ.", show_default=_RECIPE
    ),
]
Diversity = Annotated[
    float | None, typer.Option("--diversity", min=0, help="How much groups avoid each other.", show_default=_RECIPE)
]
NoRepeat = Annotated[
    int | None,
    typer.Option(
        "--no-repeat",
        "--no-repeat-ngram-size",
        min=0,
        help="No run of so many tokens occurs twice.",
        show_default=_RECIPE,
    ),
]
RepetitionPenalty = Annotated[
    float | None, typer.Option("--repetition-penalty", help="Above 1 repeats less.", show_default=_RECIPE)
]
SuppressUnknown = Annotated[
    bool | None,
    typer.Option("--suppress-unknown/--allow-unknown", help="Choose no unknown tokens.", show_default=_RECIPE),
]
Samples = Annotated[
    int | None,
    typer.Option("--samples", min=1, max=100_000, help="Draw so many outputs at random.", show_default=False),
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", min=0, help="Of drawing: below 1 prefers likely words.", show_default=False),
]
TopK = Annotated[int | None, typer.Option("--top-k", min=1, help="Draw among so many best words.", show_default=False)]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", help="Draw among the best words of this total probability.", show_default=False),
]
MinP = Annotated[
    float | None,
    typer.Option("--min-p", help="Draw among words at least this likely, as a share of the best.", show_default=False),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Of what is drawn.", show_default=False)]
LeastRisk = Annotated[
    int | None,
    typer.Option(
        "--mbr", min=1, max=100_000, metavar="N", help="Draw N, take the one most like all others.", show_default=False
    ),
]
Average = Annotated[str, typer.Option("--average", metavar="log|linear", help="How several models are averaged.")]
Weights = Annotated[
    list[float] | None,
    typer.Option("--weight", help="Of each model, in their order; may be repeated.", show_default="equal"),
]


def given(values: dict[str, Any], least_risk: int | None = None) -> dict[str, Any]:
    """Return the values that are not None, and those that a number for ``--mbr`` stands for.

    Raises:
        InputError: two contradict each other.
    """
    from regard.generation.options import check_changes

    named = {name: value for name, value in values.items() if value is not None}
    if least_risk is not None:
        if "samples" in named:
            raise typer.BadParameter("--mbr says how many are drawn; leave out --samples", param_hint="--mbr")
        named = {"least_risk": True, "samples": least_risk, **named}
    check_changes(named, lambda name: "--mbr" if name == "least_risk" else f"--{name.replace('_', '-')}")
    return named


WordT = TypeVar("WordT", bound=str)


def one_of(option: str, word: str, words: tuple[WordT, ...]) -> WordT:
    """Return ``word``, which must be one of ``words``."""
    for known in words:
        if word == known:
            return known
    raise typer.BadParameter(f"{word!r} is unknown{nearest(word, words)}", param_hint=option)


def averaged(word: str) -> Literal["log", "linear"]:
    """Return what ``--average`` says."""
    return one_of("--average", word, ("log", "linear"))


def token_and_nats(text: str) -> tuple[str, float]:
    """Return what ``Hund=-1.5`` says."""
    token, sign, nats = text.rpartition("=")
    try:
        if not sign:
            raise ValueError
        return token, float(nats)
    except ValueError:
        raise typer.BadParameter(f"must be like TOKEN=1.5, but is {text!r}", param_hint="--bias") from None
