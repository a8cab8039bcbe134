"""Between text and search: what is asked of a sentence, where its words are, how its translation is put together."""

from regard.translation.attended import Attended
from regard.translation.glossary import Glossary, read_glossary
from regard.translation.looking import Looking
from regard.translation.request import Request
from regard.translation.result import Translation
from regard.translation.sentences import Paragraph, split_paragraph
from regard.translation.source import Source, read

__all__ = [
    "Attended",
    "Glossary",
    "Looking",
    "Paragraph",
    "Request",
    "Source",
    "Translation",
    "read",
    "read_glossary",
    "split_paragraph",
]
