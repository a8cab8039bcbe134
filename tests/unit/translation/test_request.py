"""What is asked of a translation: lists where several are meant, texts where text is."""

from __future__ import annotations

from typing import Any

import pytest

from regard.errors import InputError
from regard.translation import Request
from regard.translation.request import as_requests


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"constraints": "Hund"}, r"`constraints` must be a list of phrases, but is one string; write \[phrase\]"),
        ({"forbidden": "Hund"}, r"`forbidden` must be a list of phrases, but is one string; write \[phrase\]"),
        ({"forbidden": None}, "`forbidden` must be a list of phrases, but is None"),
        ({"constraints": ["Hund", 7]}, "`constraints` must be a list of phrases, but one is 7"),
        ({"prefix": ["Ein"]}, r"`prefix` must be a text, but is \['Ein'\]"),
        ({"tag": None}, "`tag` must be a text, but is None"),
    ],
)
def test_a_phrase_is_no_list_of_letters(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}$"):
        Request("a dog", **given)


@pytest.mark.usefixtures("unchecked")
def test_whatever_can_be_gone_through_is_a_list() -> None:
    request = Request("a dog", constraints=(phrase for phrase in ["Hund", "ein"]))  # type: ignore[arg-type]
    assert request.constraints == ("Hund", "ein") and hash(request) == hash(Request("a dog", "", "", ("Hund", "ein")))
    made = as_requests((text for text in ["a", "b", "c"]), (tag for tag in ["x", "y", "z"]))  # type: ignore[arg-type]
    assert [(one.text, one.tag, one.number) for one in made] == [("a", "x", 0), ("b", "y", 1), ("c", "z", 2)]
    for texts, found in (("a dog", r"one string; write \[text\]"), (b"a", r"one string; write \[text\]"), (7, "7")):
        with pytest.raises(InputError, match=f"^`texts` must be a list of texts, but is {found}$"):
            as_requests(texts, "")  # type: ignore[arg-type]
