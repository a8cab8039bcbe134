"""How does a line of input become a request? As text, or as a JSON object that says more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from regard.errors import DataError
from regard.translation import Request

_NAMES = {
    "text": "text",
    "source": "text",
    "tag": "tag",
    "prefix": "prefix",
    "target_prefix": "prefix",
    "constraints": "constraints",
    "forbid": "forbidden",
    "avoid": "forbidden",
}
"""Key of a JSON object -> field of a request; some have two names, since other tools call them so."""

_LISTS = {"constraints", "forbidden"}


@dataclass(frozen=True)
class Asked:
    """A request, and what else its line holds.

    Attributes:
        request: what is asked.
        others: keys that a search does not know: they come back with the result.
    """

    request: Request
    others: Mapping[str, Any] = field(default_factory=dict)


def from_json(line: str, where: str, expected: str = '{"text": "…"}') -> Asked:
    """Return what a line such as ``{"text": "a dog", "constraints": ["Hund"]}`` asks.

    Args:
        line: of JSON.
        where: file and line, for messages.
        expected: what should stand there, for messages too.

    Raises:
        DataError: it is no such object, or a key looks like a misspelt one.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON; expected {expected}") from None
    if not isinstance(record, dict):
        raise DataError(f"{where}: not an object; expected {expected}")
    known: dict[str, Any] = {}
    for key, value in record.items():
        if key in _NAMES:
            name = _NAMES[key]
            if name in known:
                raise DataError(f"{where}: `{key}` says again what another key has said")
            known[name] = _texts(value, key, where) if name in _LISTS else _text(value, key, where)
        elif close := get_close_matches(key, _NAMES, n=1, cutoff=0.8):
            raise DataError(f"{where}: `{key}` is unknown; did you mean {close[0]!r}?")
    if "text" not in known:
        raise DataError(f"{where}: `text`, or `source`, is missing; expected {expected}")
    return Asked(Request(**known, where=where), {key: value for key, value in record.items() if key not in _NAMES})


def _texts(value: object, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DataError(f"{where}: `{key}` must be a list of texts, but is {json.dumps(value)[:40]}")
    texts = tuple(_text(item, key, where) for item in value)
    if not all(text.strip() for text in texts):
        raise DataError(f"{where}: a phrase in `{key}` is empty")
    return texts


def _text(value: object, key: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: `{key}` must be a text, but is {json.dumps(value)[:40]}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: `{key}` holds half of a surrogate pair, which is no character") from None
    return value
