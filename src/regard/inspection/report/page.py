"""How does a report become one HTML file that needs nothing else?

The page is ``page.html`` with the style sheet, the scripts and the data written into it. Every section is plain data
(``type``, ``name`` and what its script reads) in one JSON block; the script of its type draws it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

SCRIPTS = ("page.js", "maps.js", "attention.js", "tree.js", "walk.js", "ledger.js", "beam.js", "signal.js")


@runtime_checkable
class Section(Protocol):
    """One tab of the report."""

    def data(self) -> dict[str, Any]:
        """Return what the page reads, JSON-able: ``type`` names the view, ``name`` the tab."""
        ...


def render_page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """Return a self-contained HTML page of ``sections``: no network, no build step, light and dark.

    All text is escaped: what looks like HTML stays text. ``lead`` is the paragraph below the title.
    """
    parts = {
        "title": html.escape(title),
        "lead": html.escape(lead),
        "css": _asset("page.css"),
        "script": "\n".join(_asset(name) for name in SCRIPTS),
        "data": _script_json({"sections": [section.data() for section in sections]}),
    }
    # one pass, so that text which spells a placeholder is not filled in
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))
    return page.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be written to a file


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _script_json(value: object) -> str:
    """Return JSON that no text inside can end early: ``</script>`` and ``<!--`` need a ``<``."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
