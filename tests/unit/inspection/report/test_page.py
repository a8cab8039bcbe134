"""The page as a text: whole, escaped, small, and asking nobody for anything."""

from __future__ import annotations

import base64
import json
import re

import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.inspection import AttentionMaps
from regard.inspection.report import AttentionSection, Example, attention_page, example_of

S, T, N, H = 5, 3, 2, 7


def example(**changes: object) -> Example:
    fields: dict[str, object] = {
        "source": [*"word", "</s>"],
        "target": ["W", "ER", "D"],
        "maps": {"cross": torch.rand(N, H, T, S).softmax(-1)},
    }
    return Example(**{**fields, **changes})  # type: ignore[arg-type]


def data_of(page: str) -> dict[str, object]:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_weights_come_back_out_of_the_page_as_they_went_in() -> None:
    weights = torch.rand(N, H, T, S).softmax(-1)
    [section] = data_of(attention_page("Words", [example(maps={"cross": weights})]))["sections"]
    packed = section["examples"][0]["maps"]["cross"]
    assert (packed["layers"], packed["heads"], packed["rows"], packed["columns"]) == (N, H, T, S)
    steps = torch.frombuffer(bytearray(base64.b64decode(packed["data"])), dtype=torch.uint8)
    # half a step of the root is 1/510, so the error is at most 2·√w/510 + 1/510²
    torch.testing.assert_close((steps.float() / 255).square().view_as(weights), weights, rtol=0, atol=0.004)


def test_text_that_spells_html_or_placeholders_stays_text() -> None:
    nasty = "</script><script>alert(1)</script><!--{{css}} & \u2028"
    page = attention_page(
        nasty, [example(source=[nasty, *"abc", "\ud7ff"], facts={nasty: nasty}, title=nasty)], lead=nasty
    )
    assert len(re.findall(r"<script", page)) == 2
    assert len(re.findall(r"</script", page)) == 2
    assert "<!--" not in page
    assert data_of(page)["sections"][0]["examples"][0]["source"][0] == nasty
    assert "&lt;/script&gt;" in page.split("<style>")[0]


def test_the_page_asks_nobody_and_its_own_code_is_small() -> None:
    page = attention_page("Words", [example()])
    code = page.replace(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1], "")
    assert len(code.encode()) < 60_000
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert "innerHTML" not in page
    assert "{{" not in code


def test_six_layers_of_eight_heads_and_thirty_tokens_stay_under_two_megabytes() -> None:
    tokens = [f"token{i}" for i in range(30)]
    weights = torch.rand(6, 8, 30, 30)
    page = attention_page("Base", [Example(tokens, tokens, dict.fromkeys(("cross", "encoder", "decoder"), weights))])
    assert len(page.encode()) < 300_000


def test_numbers_and_signs_that_no_file_can_hold_do_no_harm() -> None:
    weights = torch.full((1, 1, T, S), float("nan"))
    page = attention_page("x", [example(maps={"cross": weights}, title="\ud800")])
    [section] = data_of(page.encode("utf-8").decode())["sections"]
    assert section["examples"][0]["title"] == "?"
    assert set(base64.b64decode(section["examples"][0]["maps"]["cross"]["data"])) == {0}


def test_heads_of_a_very_long_sentence_are_averaged_and_the_page_says_so() -> None:
    tokens = ["a"] * 400
    weights = torch.rand(2, 13, 400, 400)
    [section] = data_of(attention_page("Long", [Example(tokens, tokens, {"encoder": weights})]))["sections"]
    assert section["examples"][0]["maps"]["encoder"]["heads"] == 1
    assert section["examples"][0]["maps"]["encoder"]["averaged"] == 13
    assert section["note"] == "Heads of long sentences are averaged."


def test_what_cannot_be_drawn_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="has 10,000 tokens on one side, more than the 512"):
        attention_page("x", [example(source=["a"] * 10_000)])
    with pytest.raises(InputError, match="has no source tokens"):
        attention_page("x", [example(source=[])])
    with pytest.raises(InputError, match="has no maps"):
        attention_page("x", [example(maps={})])
    with pytest.raises(InputError, match="no example to draw"):
        attention_page("x", [])
    with pytest.raises(ShapeError, match=r"cross map .* must be \[layers, heads, 3, 5\], but is \[2, 7, 5, 3\]"):
        attention_page("x", [example(maps={"cross": torch.rand(N, H, S, T)})])


def test_the_list_names_examples_as_people_write_them() -> None:
    shown = [
        example().data(),
        example(source=["▁A", "▁do", "g", ".", "</s>"]).data(),
        example(source=["one", "two", "3", "4", "</s>"], output="said").data(),
    ]
    assert [(each["title"], each["output"]) for each in shown] == [
        ("word", "W ER D"),
        ("A dog.", "W ER D"),
        ("one two 3 4", "said"),
    ]
    assert shown[0]["read"] == ["<s>", "W", "ER"]


def test_an_example_is_cut_out_of_what_was_watched() -> None:
    maps = AttentionMaps("Model")
    for layer in range(N):
        maps.hear(f"encoder.layers.{layer}.self_attention", torch.rand(2, H, S + 2, S + 2))
        maps.hear(f"decoder.layers.{layer}.cross_attention", torch.rand(2, H, T + 1, S + 2))
    found = example_of(maps, [*"word", "</s>"], ["W", "ER", "D"], row=1, correct=True)
    assert {kind: list(weights.shape) for kind, weights in found.maps.items()} == {
        "cross": [N, H, T, S],
        "encoder": [N, H, S, S],
    }
    assert torch.equal(found.maps["cross"][1], maps["decoder.layers.1.cross_attention"][0][1, :, :T, :S])
    assert AttentionSection([found]).data()["examples"][0]["correct"] is True
