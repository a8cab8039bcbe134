"""Paragraphs are parted where sentences end, and are the same again when put together."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.translation.sentences import check_language, split_paragraph
from unit.data.nasty import NASTY

CASES = [
    ("en", "Dr. Smith came.|He said: “No.”|Then (really!) he left.|What?|OK"),
    ("en", "See fig. 3 and no. 5 by J. R. Miller, e.g. The U.S. Army."),
    ("en", "He said no.|It was I.|Wait... what?|“Why?”|Yes! so it was."),
    ("de", "Am 3. Mai kam z. B. Herr Dr. Meier.|Er ging usw.|Danach nichts."),
    ("fr", "M. Dupont est là.|C'est l'art.|« Oui. »"),
    ("es", "El Sr. Gil vive aquí.|¿Dónde?|¡Aquí!|Vale."),
    ("ru", "Это г. Москва.|Да.|«Нет», сказал он."),
    ("zh", "你好。|我是「学生。」|对吗？|好"),
    ("ja", "はい。|「え？」|3です。"),
    ("hi", "वह गया।|फिर आया।"),
    ("any", "Dr.|Smith came."),
]


@pytest.mark.parametrize(("language", "parted"), CASES)
def test_where_sentences_end(language: str, parted: str) -> None:
    space = "" if language in ("zh", "ja") else " "
    paragraph = split_paragraph(parted.replace("|", space), language)
    assert paragraph.sentences == tuple(parted.split("|"))
    assert set(paragraph.gaps[1:-1]) <= {space}


@given(
    text=st.sampled_from(NASTY) | st.text(st.sampled_from(" \t\u3000aB1.?!。…\"')”\n")),
    language=st.sampled_from(["en", "de", "zh"]),
)
def test_nothing_is_lost(text: str, language: str) -> None:
    paragraph = split_paragraph(text, language)
    pieces = [paragraph.gaps[0]]
    for sentence, gap in zip(paragraph.sentences, paragraph.gaps[1:], strict=True):
        pieces += [sentence, gap]
        assert sentence == sentence.strip()
    assert "".join(pieces) == text
    assert all(paragraph.sentences) or paragraph.sentences == ("",)


def test_spacing_comes_back_and_chinese_gets_some() -> None:
    assert split_paragraph("  A b.  Cc.\tD.\n", "en").joined(["X.", "Y.", "Z."]) == "  X.  Y.\tZ.\n"
    chinese = split_paragraph("你好。再见。好。", "zh")
    assert chinese.joined(["Hi.", "Bye.", "Fine."]) == "Hi. Bye. Fine."
    assert chinese.joined(["はい。", "", "え。"]) == "はい。え。"
    assert split_paragraph(" ", "en").joined([""]) == " "


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="no language 'dee'; did you mean 'de'"):
        check_language("dee")


def test_marks_at_the_end_stay_together() -> None:
    assert split_paragraph("好！！", "zh").sentences == ("好！！",)
    assert split_paragraph("他说：「好。」", "zh").sentences == ("他说：「好。」",)


@pytest.mark.usefixtures("unchecked")  # signatures are checked once a mark, which takes longer than the rest
@pytest.mark.parametrize("unit", ["Yes. ", "z. B. ", ".", ".a", "“ ", "a.b"])
def test_a_line_of_a_megabyte_takes_a_second_or_so(unit: str) -> None:
    text = "A" + unit * ((1 << 20) // len(unit)) + "B"
    began = time.process_time()
    split_paragraph(text, "de")
    assert time.process_time() - began < 10  # a machine that does much else; the square of a megabyte takes minutes
