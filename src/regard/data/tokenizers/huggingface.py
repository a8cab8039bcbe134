"""A Hugging Face ``tokenizer.json`` of one's own, through the optional package ``tokenizers``.

Its ids are moved up by four, so that 0-3 stay ours. Its own specials (``[CLS]``, ``</s>``) are neither added nor looked
for: in that library text can spell them, here it cannot. What it does not know is our UNK.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from regard.data.tokenizers.base import FIRST, TextTokenizer
from regard.errors import DataError, MissingExtraError
from regard.protocols import UNK

MODEL_FILE = "huggingface.json"

_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(0x100 + place): byte for place, byte in enumerate(sorted({*range(0x100)} - {*_PRINTABLE}))
}
"""How byte-level vocabularies (Radford et al. 2019) write bytes: printable ones as themselves, the others moved up."""


class HuggingFaceTokenizer(TextTokenizer):
    """A ``tokenizer.json`` with our specials below its ids.

    Args:
        model: the bytes of the file.
        tags: see ``TextTokenizer``.

    Raises:
        MissingExtraError: the package ``tokenizers`` is not installed.
        DataError: the bytes are no such file.
    """

    kind = "huggingface"

    def __init__(self, model: bytes, tags: Iterable[str] = ()) -> None:
        try:
            import tokenizers
        except ImportError:
            raise MissingExtraError("tokenizers", "hf") from None
        self._model = model
        try:
            described: dict[str, Any] = json.loads(model)
            # specials are searched for in the text before the model sees it, and added, padded with, cut to after
            described["added_tokens"] = [t for t in described.get("added_tokens", []) if not t.get("special")]
            described |= {"post_processor": None, "padding": None, "truncation": None}
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(json.dumps(described))
        except Exception as error:  # the library raises bare Exception
            raise DataError(f"this is not a Hugging Face tokenizer.json: {error}") from None
        self._byte_level = (described.get("decoder") or {}).get("type") == "ByteLevel"
        unknown = described["model"].get("unk_token")
        self.unknown_is_word = described["model"].get("type") in ("WordPiece", "WordLevel")
        self._unknown = self._tokenizer.token_to_id(unknown) if isinstance(unknown, str) else None
        ids: list[int] = list(self._tokenizer.get_vocab(with_added_tokens=True).values())
        super().__init__(max(ids, default=-1) + 1, tags)

    def encode(self, text: str) -> list[int]:
        """Return the ids of one line, with none of the file's own specials."""
        return self._renumber(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_lines(self, texts: Sequence[str], *, workers: int = 1) -> list[list[int]]:
        """Return ``encode`` of each; the library decides on threads."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [self._renumber(encoding.ids) for encoding in found]

    def _renumber(self, ids: list[int]) -> list[int]:
        return [UNK if i == self._unknown else FIRST + i for i in ids]

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode([i - FIRST for i in ids], skip_special_tokens=False)
        return text

    def settled(self, ids: Sequence[int]) -> str:
        """Return what the text begins with; the last two words wait, since decoders of this library join words."""
        return " ".join(self.decode(ids).split(" ")[:-2])

    def _spelling(self, index: int) -> bytes:
        if self._byte_level:
            return bytes(_BYTES[letter] for letter in self._piece(index) if letter in _BYTES)
        return self._decode([self._anchor, index]).removeprefix(self._decode([self._anchor])).encode()

    @cached_property
    def _anchor(self) -> int:
        """A piece that others can follow: what they then add to its text is their spelling."""
        return next((i for i in range(FIRST, FIRST + self._num_pieces) if self._decode([i]).strip().isalnum()), FIRST)

    def _piece(self, index: int) -> str:
        return self._tokenizer.id_to_token(index - FIRST) or f"#{index - FIRST}"

    def _files(self) -> dict[str, bytes]:
        return {MODEL_FILE: self._model}
