"""One self-contained HTML page that shows what a model does."""

from regard.inspection.report.attention import AttentionSection, Example, attention_page, example_of
from regard.inspection.report.page import Section, render_page

__all__ = ["AttentionSection", "Example", "Section", "attention_page", "example_of", "render_page"]
