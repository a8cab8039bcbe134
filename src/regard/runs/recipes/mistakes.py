"""How does a mistake in a recipe become a sentence? Here alone pydantic is asked, and its answers are reworded.

pydantic checks names and types against the dataclasses, strictly: ``"3"`` is no number and ``true`` no count. What a
dataclass refuses by itself (ranges, contradictions) arrives through pydantic too, so all mistakes are told at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from regard.errors import RecipeError, nearest

KindT = TypeVar("KindT")
Place = tuple[str | int, ...]

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # making one takes longer than a hundred uses

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false, without quotes",
    "tuple_type": "a list",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "mapping_type": "a table",
}


def validated(
    kind: type[KindT], tables: Mapping[str, Any], where: str, *, keys: Mapping[str, Collection[str]]
) -> KindT:
    """Return ``tables`` as an object of the dataclass ``kind``, whose fields are dataclasses: the sections.

    Args:
        kind: the schema.
        tables: section -> key -> value, of the types that TOML has.
        where: the name of the file, for messages.
        keys: section -> its keys, where those are not the fields of its dataclass.

    Raises:
        RecipeError: all mistakes, each with its key.
    """
    try:
        # as JSON: a list may then stand for a tuple, and nothing else is converted
        made: KindT = _adapter(kind).validate_json(json.dumps(tables, default=str))
        return made
    except ValidationError as error:
        sentences = list(dict.fromkeys(_sentences(kind, tables, error.errors(), keys)))
    if len(sentences) == 1:
        raise RecipeError(f"{where}: {sentences[0]}")
    raise RecipeError(f"{where}: {len(sentences)} mistakes\n" + "\n".join(f"  {sentence}" for sentence in sentences))


def _sentences(
    kind: type, tables: Mapping[str, Any], errors: Sequence[ErrorDetails], keys: Mapping[str, Collection[str]]
) -> Iterator[str]:
    by_place: dict[Place, list[ErrorDetails]] = {}
    for error in errors:
        by_place.setdefault(_place(error["loc"], tables), []).append(error)
    for place, found in by_place.items():
        first = found[0]
        match first["type"]:
            case "unexpected_keyword_argument":
                yield f"{_key(place)} is unknown{_remedy(kind, place, keys)}"
            case "value_error":
                error = first["ctx"]["error"]
                for sentence in error.mistakes if isinstance(error, RecipeError) else [str(error)]:
                    yield _with_section(place, sentence)
            case "literal_error":
                words = first["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
                yield f"{_key(place)} = {first['input']!r} is unknown{nearest(str(first['input']), words)}"
            case "missing_argument" | "unexpected_positional_argument" | "too_short" | "too_long":
                yield f"{_key(place)} must have another number of values, but is {_shown(first['input'])}"
            case "json_invalid":
                yield "a text holds half of a surrogate pair, which is no character"
            case _:
                wanted = " or ".join(dict.fromkeys(_WANTED.get(error["type"], error["msg"]) for error in found))
                yield f"{_key(place)} must be {wanted}, but is {_shown(first['input'])}"


def _place(loc: Place, tables: Any) -> Place:
    """Return the part of pydantic's location that leads through ``tables``; the rest names branches of a union."""
    place: list[str | int] = []
    node = tables
    for part in loc:
        keys = node.keys() if isinstance(node, Mapping) else range(len(node) if isinstance(node, list | tuple) else 0)
        if part not in keys:
            break
        node = node[part]
        place.append(part)
    return tuple(place)


def _key(place: Place) -> str:
    """Return ``data.corpora[2].weight`` for that key of the second corpus."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _with_section(place: Place, message: str) -> str:
    """Say which table a message of a dataclass is about, unless it does so itself."""
    section = _key(place)
    return message if not section or message.startswith((f"{section}.", f"`{section}.")) else f"[{section}] {message}"


def _remedy(kind: type, place: Place, keys: Mapping[str, Collection[str]]) -> str:
    """Say where an unknown key belongs, or which valid one is nearest."""
    *tables, key = place
    sections = {**{name: _names(_dataclass_at(kind, [name])) for name in _names(kind)}, **keys}
    owner = next((section for section, names in sections.items() if key in names), None)
    if owner is not None and tables != [owner]:
        return f"; it belongs in [{owner}]"
    return nearest(str(key), _names(_dataclass_at(kind, tables)))


def _names(table: Any) -> Collection[str]:
    return [item.name for item in fields(table)]


def _dataclass_at(kind: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        if isinstance(part, str):
            kind = next(inner for inner in _flat(get_type_hints(kind)[part]) if is_dataclass(inner))
    return kind


def _flat(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _flat(inner)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
