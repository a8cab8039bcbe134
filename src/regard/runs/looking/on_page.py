"""How does what was seen become a page that needs nothing else?"""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError
from regard.inspection import aligning_layer
from regard.inspection.report import AttentionSection, BeamSection, LedgerSection, WalkSection, render_page
from regard.inspection.report.attention import MAX_TOKENS
from regard.runs.looking.costs import Costs
from regard.runs.looking.look import Look


def page(look: Look | None, costs: Costs | None) -> tuple[str, str]:
    """Return the report, one HTML file with a tab for each thing that was looked at, and what it holds in words.

    Raises:
        InputError: A sentence is too long to be drawn.
    """
    sections: list[AttentionSection | WalkSection | LedgerSection | BeamSection] = []
    title, lead = "Ledger", ""
    if look is not None:
        check_page_length(look.source)
        title, lead = look.title, look.output
        if (example := look.example()) is not None:
            cross = example.maps.get("cross")
            sections.append(AttentionSection([example], layer=None if cross is None else aligning_layer(len(cross))))
        sections.append(WalkSection(look.walk, look.choices))
    if costs is not None:
        sections.append(LedgerSection(costs.ledger, note=" ".join(costs.sentences())))
    if look is not None and (searched := look.searched) is not None and searched.steps:
        sections.append(BeamSection(searched.steps, searched.won, searched.score))
    *tabs, last = (section.name.lower() for section in sections)
    return render_page(title, sections, lead=lead), f"{', '.join(tabs)} and {last}" if tabs else last


def check_page_length(source: Sequence[str] | Sequence[int]) -> None:
    """Refuse what a page cannot show, before it is computed."""
    if len(source) > MAX_TOKENS:
        raise InputError(
            f"the sentence has {len(source):,} tokens, and a page shows at most {MAX_TOKENS}; shorten it, or leave out "
            "--html"
        )
