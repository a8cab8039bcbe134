"""How is a recipe written as TOML? Deterministically: the same tables give the same bytes.

Only what a recipe can hold: text, whole numbers, numbers, true/false, lists of these, tables, lists of tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def write_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return ``tables`` as TOML text that `tomllib` reads back equal.

    Args:
        tables: section name to keys and values. Inside a section a list of tables becomes ``[[section.key]]``, any
            other table is written inline. What is None is left out, and so is an empty section.
    """
    sections = []
    for name, table in without_none(tables).items():
        lists = {key: value for key, value in table.items() if _is_list_of_tables(value)}
        lines = _assignments({key: value for key, value in table.items() if key not in lists})
        if lines:
            sections.append("\n".join([f"[{_key(name)}]", *lines]))
        for key, entries in lists.items():
            sections += ["\n".join([f"[[{_key(name)}.{_key(key)}]]", *_assignments(entry)]) for entry in entries]
    return "\n\n".join(sections) + "\n"


def without_none(value: Any) -> Any:
    """Return ``value`` without the keys of tables that are None, for which TOML has no word; tuples become lists."""
    if isinstance(value, Mapping):
        return {key: without_none(inner) for key, inner in value.items() if inner is not None}
    return [without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


def _assignments(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml_value(value)}" for key, value in table.items()]


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and all(isinstance(entry, Mapping) for entry in value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def toml_value(value: Any) -> str:
    """Return one value as TOML writes it: ``true``, ``0.3``, ``"tiny"``, ``[1, 3]``.

    Raises:
        TypeError: no recipe can hold a value of this type.
    """
    if isinstance(value, bool):  # before int: True is an int to Python
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(_assignments(value)) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(toml_value(entry) for entry in value) + "]"
    raise TypeError(f"a recipe cannot hold a {type(value).__name__}")


def _text(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(sign) or _printable(sign) for sign in text) + '"'


def _printable(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x20 or ord(sign) == 0x7F else sign
