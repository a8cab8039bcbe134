"""What did an unknown token of the output stand for? The word of the source at which the model looked.

Axes: T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from regard.data import TextTokenizer
from regard.inspection.alignment import word_spans
from regard.protocols import UNK
from regard.translation.source import Source

_UNKNOWN = "\ufffd".encode()
"""Stands for what an unknown token adds to a text."""


def spelled_source(tokenizer: TextTokenizer, source: Source) -> list[bytes]:
    """Return what each token of a source adds to its text, unknown ones too."""
    known = zip(source.ids, surfaces(tokenizer, source), strict=True)
    return [(surface.encode() or _UNKNOWN) if i == UNK else tokenizer.spellings[i] for i, surface in known]


def spelled_target(tokenizer: TextTokenizer, ids: Sequence[int], *, filled: bool) -> list[bytes]:
    """Return what each token of an output adds to its text; an unknown one only if it was ``filled``."""
    unknown = (b" " if tokenizer.unknown_is_word else b"") + _UNKNOWN if filled else b""
    return [unknown if i == UNK else tokenizer.spellings[i] for i in ids]


def known_by(
    attention: Float[Tensor, "T S"],
    target: Sequence[int],
    source: Source,
    tokenizer: TextTokenizer,
    dictionary: Mapping[str, str],
    *,
    whole_words: bool,
) -> list[str]:
    """Return what the unknown tokens of an output stand for, one after the other.

    Args:
        attention: where the model looked as it wrote each token.
        target: the output, UNK among it.
        source: what the model read.
        tokenizer: of the source.
        dictionary: source word -> target word; a word that it does not have is copied.
        whole_words: UNK stands for words: it becomes what the source word looked at most becomes. Otherwise it stands
            for characters: those of the unknown source token looked at most, or of any token if all are known.
    """
    found = []
    words = [word for word in source.text.split(" ") if word]
    spans = word_spans(spelled_source(tokenizer, source))[: len(words)]
    pieces = [surface.strip(" ") for surface in surfaces(tokenizer, source)]
    unknown = [place for place, read in enumerate(source.ids) if read == UNK and pieces[place]]
    places = unknown or [place for place, piece in enumerate(pieces) if piece]
    for look, token in zip(attention, target, strict=False):  # the row of the end mark is nobody's
        if token != UNK:
            continue
        if whole_words:
            best = max(range(len(spans)), key=lambda word: float(look[spans[word]].sum()), default=None)
            copied = "" if best is None else words[best]
        else:
            best = max(places, key=lambda place: float(look[place]), default=None)
            copied = "" if best is None else pieces[best]
        found.append(dictionary.get(copied, copied))
    return found


def surfaces(tokenizer: TextTokenizer, source: Source) -> list[str]:
    """Return what each token stands for in the text, unknown ones too; nothing from where the text was normalised.

    An unknown token reaches to where the next known one stands; of several in a row each but the last is one letter.
    """
    found = [""] * len(source.ids)
    space = " " if tokenizer.unknown_is_word else ""
    written = f" {source.text}" if tokenizer.adds_space else source.text
    place = 0
    for number, token in enumerate(source.ids):
        if token != UNK:
            known = _known(tokenizer, token)
            if not written.startswith(known, place):
                break
            end = place + len(known)
        elif list(source.ids[number + 1 : number + 2]) == [UNK] and not space:
            end = place + 1
        else:
            following = "" if number + 1 == len(source.ids) else _known(tokenizer, source.ids[number + 1]) or space
            end = written.find(following, place + 1) if following else -1
            end = place + 1 if end < 0 and source.cut else len(written) if end < 0 else end
        found[number] = written[place:end]
        place = end
    return found


def _known(tokenizer: TextTokenizer, token: int) -> str:
    return "" if token == UNK else tokenizer.spellings[token].decode("utf-8", errors="replace")
