"""What is asked of one translation: a text, and what its output must begin with, contain and be without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError


@dataclass(frozen=True)
class Request:
    """One line to translate.

    Attributes:
        text: the line.
        tag: put before it, for models trained with tags.
        prefix: what the output begins with.
        constraints: phrases that the output contains.
        forbidden: phrases that the output does not contain as whole words.
        number: of the sentence: what is drawn for it at random depends on this and on the seed alone. Two requests of
            one call must not share a number.
    """

    text: str
    tag: str = ""
    prefix: str = ""
    constraints: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    number: int = 0


def as_requests(texts: Sequence[str | Request], tag: str | Sequence[str]) -> list[Request]:
    """Return what is asked of each text; what is text alone is numbered by its place.

    Raises:
        InputError: ``texts`` is one string, or there are not as many tags as texts.
    """
    if isinstance(texts, str):
        raise InputError("`texts` must be a list of strings, but is one string; write [text]")
    tags = [tag] * len(texts) if isinstance(tag, str) else tag
    if len(tags) != len(texts):
        raise InputError(f"`tag` must be one tag, or as many as there are texts: {len(tags)} for {len(texts)}")
    return [
        Request(text, own, number=number) if isinstance(text, str) else text
        for number, (text, own) in enumerate(zip(texts, tags, strict=True))
    ]
