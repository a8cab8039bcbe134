"""What is asked of one translation: a text, and what its output must begin with, contain and be without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
        number: of the sentence: what is drawn for it at random depends on this and on the seed alone. Below 0 it is the
            place among the requests of a call.
        where: file and line that ask it, for messages; ``""`` if there are none.
    """

    text: str
    tag: str = ""
    prefix: str = ""
    constraints: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    number: int = -1
    where: str = field(default="", compare=False)


def as_requests(texts: Sequence[str | Request], tag: str | Sequence[str]) -> list[Request]:
    """Return what is asked of each text, all with a number.

    Raises:
        InputError: ``texts`` is one string, holds something else than texts, or there are not as many tags as texts.
    """
    if isinstance(texts, str):
        raise InputError("`texts` must be a list of strings, but is one string; write [text]")
    for place, text in enumerate(texts, start=1):
        if not isinstance(text, str | Request):
            raise InputError(f"text {place} must be a string or a request, but is {text!r}")
    tags = [tag] * len(texts) if isinstance(tag, str) else tag
    if len(tags) != len(texts):
        raise InputError(f"`tag` must be one tag, or as many as there are texts: {len(tags)} for {len(texts)}")
    return [
        Request(text, own, number=place)
        if isinstance(text, str)
        else text
        if text.number >= 0
        else replace(text, number=place)
        for place, (text, own) in enumerate(zip(texts, tags, strict=True))
    ]
