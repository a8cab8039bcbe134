"""What is asked of one translation: a text, and what its output must begin with, contain and be without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from regard.errors import InputError, listed


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

    Raises:
        InputError: what should be a text is none, or phrases are no list of texts.
    """

    text: str
    tag: str = ""
    prefix: str = ""
    constraints: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    number: int = -1
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for name in ("text", "tag", "prefix"):
            if not isinstance(value := getattr(self, name), str):
                raise InputError(f"`{name}` must be a text, but is {value!r}")
        for name in ("constraints", "forbidden"):
            phrases = listed(getattr(self, name), name, "phrase")
            if strange := [phrase for phrase in phrases if not isinstance(phrase, str)]:
                raise InputError(f"`{name}` must be a list of phrases, but one is {strange[0]!r}")
            object.__setattr__(self, name, tuple(phrases))  # a generator would be gone after one look


def as_requests(texts: Iterable[str | Request], tag: str | Sequence[str]) -> list[Request]:
    """Return what is asked of each text, all with a number.

    Raises:
        InputError: ``texts`` is one string, or holds something else than texts; or there are not as many tags as texts.
    """
    asked = listed(texts, "texts", "text")
    for place, text in enumerate(asked, start=1):
        if not isinstance(text, str | Request):
            raise InputError(f"text {place} must be a string or a request, but is {text!r}")
    tags = [tag] * len(asked) if isinstance(tag, str) else listed(tag, "tag", "tag")
    if len(tags) != len(asked):
        raise InputError(f"`tag` must be one tag, or as many as there are texts: {len(tags)} for {len(asked)}")
    return [
        Request(text, own, number=place)
        if isinstance(text, str)
        else text
        if text.number >= 0
        else replace(text, number=place)
        for place, (text, own) in enumerate(zip(asked, tags, strict=True))
    ]
