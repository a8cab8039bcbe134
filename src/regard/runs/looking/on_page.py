"""How does what was seen become a page that needs nothing else?"""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError
from regard.inspection.report import AttentionSection, BeamSection, LedgerSection, Section, WalkSection, render_page
from regard.inspection.report.attention import MAX_TOKENS
from regard.runs.looking.costs import Costs
from regard.runs.looking.look import Look


def page(look: Look | None, costs: Costs | None) -> str:
    """Return the report: one HTML file with a tab for each thing that was looked at.

    Raises:
        InputError: A sentence is too long to be drawn.
    """
    sections: list[Section] = []
    title, lead = "Ledger", ""
    if look is not None:
        check_page_length(look.source)
        title, lead = look.title, look.output
        if (example := look.example()) is not None:
            sections.append(AttentionSection([example]))
        sections.append(WalkSection(look.walk, look.choices))
    if costs is not None:
        sections.append(LedgerSection(costs.ledger, note=" ".join(costs.sentences())))
    if look is not None and (searched := look.searched) is not None and searched.steps:
        sections.append(BeamSection(searched.steps, searched.won, searched.score))
    return render_page(title, sections, lead=lead)


def check_page_length(source: Sequence[str] | Sequence[int]) -> None:
    """Refuse what a page cannot show, before it is computed."""
    if len(source) > MAX_TOKENS:
        raise InputError(
            f"the sentence has {len(source):,} tokens, and a page shows at most {MAX_TOKENS}; shorten it, or leave out "
            "--html"
        )
