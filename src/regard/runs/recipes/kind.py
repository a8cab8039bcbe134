"""Is a recipe of text or of signals? The one place that knows by which key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_of_signals(tables: Mapping[str, Any]) -> bool:
    """Whether the tables of a recipe say ``kind = "signals"`` in ``[data]``; they may be anything that TOML holds."""
    data = tables.get("data")
    return isinstance(data, Mapping) and data.get("kind") == "signals"
