"""What did an unknown token of the output stand for? The word of the source at which the model looked.

Axes: T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from regard.data import TextTokenizer
from regard.protocols import UNK
from regard.translation.words import word_spans


def spelled(tokenizer: TextTokenizer, ids: Sequence[int], unknown: bytes) -> list[bytes]:
    """Return what each id adds to a text, ``unknown`` standing for what UNK adds."""
    unknown = b" " + unknown if tokenizer.unknown_is_word and unknown else unknown
    return [unknown if i == UNK else tokenizer.spellings[i] for i in ids]


def known_by(
    attention: Float[Tensor, "T S"],
    target: Sequence[int],
    source: Sequence[int],
    text: str,
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
        text: the source as text.
        tokenizer: of the source.
        dictionary: source word -> target word; a word that it does not have is copied.
        whole_words: UNK stands for words: it becomes what the source word looked at most becomes. Otherwise it stands
            for characters: those of the unknown source token looked at most, or of any token if all are known.
    """
    found = []
    words = [word for word in text.split(" ") if word]
    spans = word_spans(spelled(tokenizer, source, "\ufffd".encode()))
    surfaces = _surfaces(tokenizer, source, text)
    for look, token in zip(attention, target, strict=False):
        if token != UNK:
            continue
        if whole_words:
            looks = [float(look[span].sum()) for span in spans[: len(words)]]
            word = words[looks.index(max(looks))] if looks else ""
            found.append(dictionary.get(word, word))
            continue
        unknown = [place for place, read in enumerate(source) if read == UNK]
        places = unknown or [place for place, surface in enumerate(surfaces) if surface]
        best = max(places, key=lambda place: float(look[place]), default=None)
        found.append("" if best is None else dictionary.get(surfaces[best], surfaces[best]))
    return found


def _surfaces(tokenizer: TextTokenizer, ids: Sequence[int], text: str) -> list[str]:
    """Return what each token stands for in ``text``, the unknown ones too; nothing from where the text was normalised.

    An unknown token reaches to where the next known one stands; of several in a row each but the last is one letter.
    """
    surfaces = [""] * len(ids)
    space = " " if tokenizer.unknown_is_word else ""
    written = f" {text}" if tokenizer.adds_space else text
    place = 0
    for number, token in enumerate(ids):
        if token != UNK:
            known = tokenizer.spellings[token].decode("utf-8", errors="replace")
            if not written.startswith(known, place):
                break
            end = place + len(known)
        elif ids[number + 1 : number + 2] == [UNK] and not space:
            end = place + 1
        else:
            following = "" if number + 1 == len(ids) else _known(tokenizer, ids[number + 1]) or space
            end = written.find(following, place + 1) if following else len(written)
            if end < 0:
                break
        surfaces[number] = written[place:end].strip(" ")
        place = end
    return surfaces


def _known(tokenizer: TextTokenizer, token: int) -> str:
    return "" if token == UNK else tokenizer.spellings[token].decode("utf-8", errors="replace")
