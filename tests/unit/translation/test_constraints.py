"""What is asked of an output becomes ids: a token is what the vocabulary calls so, and no other."""

from __future__ import annotations

import pytest

from regard.data import train_exact, train_sentencepiece
from regard.errors import InputError
from regard.translation.constraints import named_token

LINES = ["t to at two", "hot toad tot", "oath what"] * 7


def test_a_token_is_called_as_in_the_vocabulary_and_no_other_is_meant() -> None:
    subwords = train_sentencepiece(LINES, vocab_size=31, exact_size=False).tokenizer
    for piece in ("t", "▁t"):
        assert subwords.pieces([named_token(piece, subwords)]) == [piece]
    assert subwords.pieces(subwords.encode("t")) == ["▁t"]  # what the text is, which is not what the name says
    assert named_token(" t", subwords) == named_token("▁t", subwords)
    cut = " ".join(subwords.pieces(subwords.encode("what to")))
    with pytest.raises(InputError, match=f"^'what to' is no token of the target vocabulary, but as text it is {cut}; "):
        named_token("what to", subwords)
    assert "▁to" in subwords.pieces(range(len(subwords))) and "to" not in subwords.pieces(range(len(subwords)))
    with pytest.raises(InputError, match=r"'to' is no token .*, but as text it is ▁to; name that"):
        named_token("to", subwords)


@pytest.mark.parametrize(
    ("kind", "name"), [("word", "toad"), ("char", "t"), ("char", " "), ("char", "␣"), ("byte", "t")]
)
def test_what_is_its_own_name(kind: str, name: str) -> None:
    exact = train_exact(kind, LINES)
    assert exact.decode([named_token(name, exact)]) == name.replace("␣", " ")


@pytest.mark.parametrize("name", ["", "ä", "</s>", "<unk>"])
def test_what_is_no_text_has_no_token(name: str) -> None:
    letters = train_exact("char", LINES)
    with pytest.raises(InputError, match="is no token of the target vocabulary, and cannot be written with it"):
        named_token(name, letters)
