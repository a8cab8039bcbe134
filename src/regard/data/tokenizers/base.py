"""What every tokenizer shares: the four specials below its pieces, the tags above them, and how it is stored.

::

    0 <pad>   1 <unk>   2 <s>   3 </s>   4 … text pieces … | tags
                                         └─ _num_pieces ─┘

Text never encodes to a special (UNK for what has no piece excepted) nor to a tag, whatever it spells: tags and specials
have ids but no spelling.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from regard.errors import DamagedError, InputError, nearest
from regard.protocols import SPECIALS, UNK

FIRST = len(SPECIALS)
"""Id of the first piece of text."""

VOCABULARY_FILE = "vocabulary.json"


class TextTokenizer(ABC):
    """Text to ids and back; see ``regard.protocols.Tokenizer``.

    Attributes:
        kind: the word that names it.
        tags: one id each, after the pieces; encoded text cannot hold them.
    """

    kind: str
    unknown_is_word = False
    """Whether UNK stands for a whole word with the space before it; else it stands for characters."""

    def __init__(self, num_pieces: int, tags: Iterable[str] = ()) -> None:
        self.tags = tuple(tags)
        if len(set(self.tags)) < len(self.tags) or "" in self.tags:
            raise InputError(f"tags must differ from each other and not be empty, but are {list(self.tags)}")
        self._num_pieces = num_pieces

    def __len__(self) -> int:
        """Return the vocabulary size, specials and tags included."""
        return FIRST + self._num_pieces + len(self.tags)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of one line, with neither BOS nor EOS."""

    def encode_lines(self, texts: Sequence[str], *, workers: int = 1) -> list[list[int]]:
        """Return ``encode`` of each, by ``workers`` threads where the library underneath has them."""
        return [self.encode(text) for text in texts]

    def encode_sampled(self, text: str, *, seed: int, strength: float) -> list[int]:
        """Return one of several ways to cut ``text`` into pieces, the same for the same ``seed``.

        Raises:
            InputError: this kind of tokenizer knows one way only.
        """
        raise InputError(f"a {self.kind} tokenizer has one way to encode a text; subword sampling needs sentencepiece")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``; specials and tags are left out."""
        return self._decode([i for i in ids if FIRST <= i < FIRST + self._num_pieces])

    def fill(self, ids: Sequence[int], words: Sequence[str]) -> str:
        """Return the text of ``ids`` with the i-th unknown token written as ``words[i]``."""
        fillings = iter(words)
        space = " " if self.unknown_is_word else ""
        spelled = [f"{space}{next(fillings)}".encode() if i == UNK else self.spellings[i] for i in ids]
        text = b"".join(spelled).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.adds_space else text

    def settled(self, ids: Sequence[int]) -> str:
        """Return what the text of ``ids`` and of whatever may follow them begins with: no half of a character."""
        return self.decode(ids).rstrip("\ufffd")

    @cached_property
    def spellings(self) -> tuple[bytes, ...]:
        """What each id adds to a text, in UTF-8, the space before a word included; specials and tags add nothing."""
        pieces = [self._spelling(i) for i in range(FIRST, FIRST + self._num_pieces)]
        return (*[b""] * FIRST, *pieces, *[b""] * len(self.tags))

    @cached_property
    def adds_space(self) -> bool:
        """Whether the first word, too, has a space before it that ``decode`` leaves out again."""
        first = next((i for i, spelled in enumerate(self.spellings) if spelled[:1] == b" " != spelled), None)
        return first is not None and not self.decode([first]).startswith(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a printable name for each id, for people and plots.

        Raises:
            InputError: the vocabulary has no such id.
        """
        if ids and not 0 <= min(ids) <= max(ids) < len(self):
            wrong = next(i for i in ids if not 0 <= i < len(self))
            raise InputError(f"ids must be from 0 to {len(self) - 1:,} in this vocabulary, but one is {wrong:,}")
        first_tag = FIRST + self._num_pieces
        return [
            SPECIALS[i] if i < FIRST else self._piece(i) if i < first_tag else f"<{self.tags[i - first_tag]}>"
            for i in ids
        ]

    def tag_id(self, tag: str) -> int:
        """Return the id of ``tag``.

        Raises:
            InputError: this vocabulary has no such tag.
        """
        if tag not in self.tags:
            known = nearest(tag, self.tags) if self.tags else "; this model was trained without tags"
            raise InputError(f"the vocabulary has no tag {tag!r}{known}")
        return FIRST + self._num_pieces + self.tags.index(tag)

    def to_files(self) -> dict[str, bytes]:
        """Return all that ``load_tokenizer`` needs to make it again, as file names and their bytes."""
        described = {"kind": self.kind, "tags": list(self.tags), **self._described()}
        return {VOCABULARY_FILE: json.dumps(described, ensure_ascii=False, indent=0).encode() + b"\n", **self._files()}

    @abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Decode ids of text pieces only."""

    @abstractmethod
    def _spelling(self, index: int) -> bytes:
        """Return what the id of a text piece adds to a text."""

    @abstractmethod
    def _piece(self, index: int) -> str:
        """Name the id of a text piece."""

    def _described(self) -> dict[str, object]:
        """Return what ``vocabulary.json`` holds beside kind and tags."""
        return {}

    def _files(self) -> dict[str, bytes]:
        """Return further files."""
        return {}


def read_described(files: Mapping[str, bytes]) -> dict[str, object]:
    """Return the content of ``vocabulary.json``.

    Raises:
        DamagedError: it is missing or not a JSON object.
    """
    try:
        described = json.loads(files[VOCABULARY_FILE])
    except KeyError:
        raise DamagedError(f"the tokenizer's {VOCABULARY_FILE} is missing") from None
    except ValueError:
        described = None
    if not isinstance(described, dict):
        raise DamagedError(f"the tokenizer's {VOCABULARY_FILE} is not a JSON object")
    return described


def strings(described: Mapping[str, object], key: str) -> tuple[str, ...]:
    """Return a list of strings from ``vocabulary.json``.

    Raises:
        DamagedError: it is not that.
    """
    value = described.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DamagedError(f"`{key}` in the tokenizer's {VOCABULARY_FILE} must be a list of strings")
    return tuple(value)
