"""What is a model shown of a text? Its ids, a tag before them if there is one, the end mark behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data import TextTokenizer
from regard.errors import located
from regard.protocols import EOS, UNK
from regard.translation.request import Request


@dataclass(frozen=True)
class Source:
    """A text as a model reads it.

    Attributes:
        text: the line.
        ids: at most as many as the model reads, ended by EOS.
        cut: the text has more.
    """

    text: str
    ids: Sequence[int]
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether there is nothing to translate."""
        return len(self.ids) == 1

    @property
    def unknown(self) -> int:
        """How many of its tokens the model does not know."""
        return self.ids.count(UNK)


def read(request: Request, tokenizer: TextTokenizer, longest: int) -> Source:
    """Return what a model that reads ``longest`` tokens and the end mark is shown; of a blank text the end mark alone.

    Raises:
        InputError: the tag is unknown to the model.
    """
    ids = tokenizer.encode(request.text) if request.text.strip() else []  # letters and words have a token for a space
    if request.tag and ids:
        with located(request.where):
            ids = [tokenizer.tag_id(request.tag), *ids]
    return Source(request.text, [*ids[:longest], EOS], len(ids) > longest)
