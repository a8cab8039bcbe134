"""One self-contained HTML page that shows what a model does."""

from regard.inspection.report.attention import AttentionSection, Example, attention_page, example_of
from regard.inspection.report.beam import Beam, BeamSection
from regard.inspection.report.ledger import LedgerSection
from regard.inspection.report.page import Section, render_page
from regard.inspection.report.signal import SignalSection, SignalView
from regard.inspection.report.walk import WalkSection

__all__ = [
    "AttentionSection",
    "Beam",
    "BeamSection",
    "Example",
    "LedgerSection",
    "Section",
    "SignalSection",
    "SignalView",
    "WalkSection",
    "attention_page",
    "example_of",
    "render_page",
]
