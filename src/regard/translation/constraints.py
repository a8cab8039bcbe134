"""What requests ask of their outputs, as the controls of a search: text becomes ids."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data import TextTokenizer
from regard.errors import InputError, located
from regard.generation import ForcedPhrases, ForcedPrefix
from regard.generation.controls import Control
from regard.protocols import UNK
from regard.translation.forbidden import ForbiddenText, stands_in
from regard.translation.request import Request
from regard.translation.whole_phrases import WholePhrases


class Constraints:
    """The controls for some requests, known by their numbers.

    Attributes:
        controls: what outputs begin with and are without, and that phrases are whole words.
        phrases: what they contain, None if nothing.

    Args:
        requests: what is asked.
        tokenizer: of the target.

    Raises:
        InputError: a phrase holds what the target vocabulary cannot write, or what the same request forbids, told with
            the place of the request; or two requests share a number, and ask different things of it.
    """

    def __init__(self, requests: Sequence[Request], tokenizer: TextTokenizer) -> None:
        prefixes: dict[int, list[int]] = {}
        self._phrases: dict[int, dict[tuple[int, ...], str]] = {}
        for request in requests:
            with located(request.where):
                _refuse_contradictions(request)
                if request.prefix:
                    prefixes[request.number] = written_ids(request.prefix, "prefix", tokenizer)
                if request.constraints:
                    self._phrases[request.number] = {
                        tuple(written_ids(phrase, "phrase", tokenizer)): phrase for phrase in request.constraints
                    }
        forbidden = {request.number: request.forbidden for request in requests if request.forbidden}
        if (prefixes or forbidden or self._phrases) and len({request.number for request in requests}) < len(requests):
            raise InputError("requests that constrain their outputs must have different numbers")
        self.phrases = (
            ForcedPhrases({number: [*ids] for number, ids in self._phrases.items()}) if self._phrases else None
        )
        self.controls: list[Control] = [ForcedPrefix(prefixes)] if prefixes else []
        if self._phrases:
            self.controls.append(WholePhrases(tokenizer.spellings, self._phrases))
        if forbidden:
            self.controls.append(ForbiddenText(tokenizer.spellings, forbidden))

    def named(self, number: int, missing: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
        """Return the phrases of a request that ``missing`` are the ids of."""
        return tuple(self._phrases[number][ids] for ids in missing)


def _refuse_contradictions(request: Request) -> None:
    for phrase in request.forbidden:
        asked = [text for text in request.constraints if stands_in(phrase, text)]
        if request.prefix and stands_in(phrase, request.prefix, goes_on=True):
            asked.append(request.prefix)
        if asked:
            raise InputError(f"{asked[0]!r} is asked for, but {phrase!r} is forbidden")


def written_ids(text: str, name: str, tokenizer: TextTokenizer) -> list[int]:
    """Return the ids of a text that an output must have.

    Args:
        text: a phrase.
        name: what it is called in messages.
        tokenizer: of the target.

    Raises:
        InputError: there are none, or the vocabulary cannot write it.
    """
    ids = tokenizer.encode(text)
    if UNK in ids or not ids:
        reason = "is empty" if not ids else "holds what the target vocabulary of the model cannot write"
        raise InputError(f"the {name} {text!r} that an output must have {reason}")
    return ids


def named_token(name: str, tokenizer: TextTokenizer) -> int:
    """Return the id of a token of text, called as the vocabulary calls it (``▁Hund``) or by what it adds to a text.

    Raises:
        InputError: no token is called so; the message tells how the vocabulary writes it as a text.
    """
    ids = [i for i, spelled in enumerate(tokenizer.spellings) if spelled]
    pieces, spelled = tokenizer.pieces(ids), name.encode(errors="surrogateescape")
    if name in pieces:
        return ids[pieces.index(name)]
    if name and spelled in tokenizer.spellings:
        return tokenizer.spellings.index(spelled)
    written = tokenizer.encode(name)
    if UNK in written or not written:
        told = "and cannot be written with it"
    else:
        which = "that" if len(written) == 1 else "one of these"
        told = f"but as text it is {' '.join(tokenizer.pieces(written))}; name {which}"
    raise InputError(f"{name!r} is no token of the target vocabulary, {told}")
