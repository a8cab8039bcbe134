"""What can be asked of a translator beyond text: constraints, streams, scores, several models, minimum risk, words."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data import train_exact, train_sentencepiece
from regard.data.tokenizers.base import TextTokenizer
from regard.errors import InputError
from regard.evaluation import likeness
from regard.generation import SamplingOptions, SearchOptions
from regard.models import build
from regard.translation import Attended, Request
from regard.translator import Translator, load_ensemble
from unit.data.nasty import NASTY
from unit.runs.toys import small_model, tokenizer, write_bundle

BEAM = SearchOptions(beam=4, nbest=3, max_length=9)
TEXTS = ["12", "345 6", "", "0a1b", "7777", "c 9"]


def translator(target: TextTokenizer | None = None, seed: int = 3) -> Translator:
    model = small_model(seed)
    if target is not None:
        torch.manual_seed(seed)
        model = build(replace(model.spec, target_vocab=len(target)))
    model.output.bias.data[3] = 0.5  # some end early
    return Translator(model, tokenizer(), target or tokenizer(), BEAM)


@pytest.fixture(scope="module")
def ours() -> Translator:
    return translator()


def subwords() -> TextTokenizer:
    return train_sentencepiece(["12 345", "0 ab ba é水"] * 9, vocab_size=290, exact_size=False).tokenizer


# ---- requests --------------------------------------------------------------------------------------------------------


def test_outputs_begin_with_contain_and_lack_what_is_asked(ours: Translator) -> None:
    requests = [
        Request("12", prefix="3a", number=5),
        Request("345", constraints=("9 9", "b"), number=9),
        Request("6", forbidden=("1", "0 0"), number=2),
        Request("7", number=11),
    ]
    begun, forced, lacking, free = ours.translate(requests)
    assert all(one.text.startswith("3a") for one in begun)
    assert "9 9" in forced[0].text and "b" in forced[0].text and not forced[0].missing
    for one in forced:  # what was cut may lack some, and says which
        assert set(one.missing) == {phrase for phrase in ("9 9", "b") if phrase not in one.text}
    assert not any("1" in one.text.split(" ") or "0 0" in one.text for one in lacking)
    assert [one.ids for one in free] == [one.ids for one in ours.translate(["7"])[0]]


def test_what_is_impossible_is_named(ours: Translator) -> None:
    (found,) = ours.translate([Request("12", constraints=("1234567890", "b"))], replace(BEAM, nbest=1, max_length=4))
    assert "1234567890" in found[0].missing and not found[0].finished
    (nothing,) = ours.translate([Request("", constraints=("b",))])
    assert (nothing[0].text, nothing[0].missing) == ("", ("b",))
    with pytest.raises(InputError, match="'é' that an output must have holds what"):
        ours.translate([Request("1", constraints=("é",))])
    with pytest.raises(InputError, match=r"^line 3: '9 b' is asked for, but 'b' is forbidden$"):
        ours.translate([Request("1", constraints=("a", "9 b"), forbidden=("b",), where="line 3")])
    with pytest.raises(InputError, match="'3 b 1' is asked for, but 'b' is forbidden"):
        ours.translate([Request("1", prefix="3 b 1", forbidden=("b",))])
    ours.translate([Request("1", prefix="3 b", constraints=("9 bb",), forbidden=("b",))])  # it may become 3 bb
    with pytest.raises(InputError, match="different numbers"):
        ours.translate([Request("1", prefix="2", number=5), Request("3", prefix="4", number=5)])
    both = ours.translate([Request("1", prefix="2"), Request("3", prefix="4")])
    assert [found[0].text[0] for found in both] == ["2", "4"]


def test_draws_follow_the_number_of_a_request_and_nothing_else(ours: Translator) -> None:
    search = replace(BEAM, sampling=SamplingOptions(samples=3, seed=5))
    requests = [Request(text, number=10 + place) for place, text in enumerate(TEXTS)]
    together = ours.translate(requests, search)
    for request, found in zip(requests, together, strict=True):
        (alone,) = ours.translate([request], search)
        assert [one.ids for one in alone] == [one.ids for one in found]
    assert ours.translate([replace(requests[0], number=99)], search)[0] != together[0]


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_scores_of_a_search_are_found_again(ours: Translator, penalty: float, batch: int) -> None:
    search = replace(BEAM, beam=5, nbest=5, coverage_penalty=penalty)
    found = ours.translate(TEXTS, search)
    flat = [(text, one) for text, of_one in zip(TEXTS, found, strict=True) for one in of_one]
    random.Random(3).shuffle(flat)
    for start in range(0, len(flat), batch):
        part = flat[start : start + batch]
        again = ours.score(
            [text for text, _ in part], [one.ids for _, one in part], search, finished=[one.finished for _, one in part]
        )
        for (_, one), forced in zip(part, again, strict=True):
            assert forced.log_prob == pytest.approx(one.log_prob, abs=1e-5) and one.log_prob <= 0
            assert forced.score == pytest.approx(one.score, abs=1e-5)
            assert forced.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)
            assert (forced.text, forced.ids, forced.finished) == (one.text, one.ids, one.finished)


def test_scoring_at_once_is_scoring_step_by_step(ours: Translator) -> None:
    """One model is scored in one pass; two, though they are the same, word by word."""
    twice = Translator(ours.model, ours.source_tokenizer, ours.target_tokenizer, BEAM, partners=[ours.model])
    outputs = ["1", "", "a b", "345", "999999999", "0"]
    for one, two in zip(ours.score(TEXTS, outputs), twice.score(TEXTS, outputs), strict=True):
        assert two.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


def test_what_cannot_be_scored_is_refused(ours: Translator) -> None:
    with pytest.raises(InputError, match="target 2: an output has 29 tokens, and the model writes 28"):
        ours.score(["1", "2"], ["1", "1" * 29])
    with pytest.raises(InputError, match="1 target for 2 texts"):
        ours.score(["1", "2"], ["1"])
    with pytest.raises(InputError, match="target 2: ids must be from 0 to"):
        ours.score(["1", "2"], [[7], [10**6]])
    with pytest.raises(InputError, match="1 target for 1 text, 2 marks of `finished`"):
        ours.score(["1"], ["2"], finished=[True, False])


@pytest.mark.usefixtures("unchecked")
def test_one_target_or_none_is_no_list(ours: Translator) -> None:
    with pytest.raises(InputError, match=r"`targets` must be a list of texts, but is one string; write \[text\]"):
        ours.score(["1", "2", "3"], "123")
    with pytest.raises(InputError, match="target 2: `target` must be a list of token ids, but is None"):
        ours.score(["1", "2"], ["1", None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="`texts` must be a list of texts, but is None"):
        ours.translate(None)  # type: ignore[arg-type]
    assert ours(text for text in ["12", "345"]) == ours(["12", "345"])


# ---- several models --------------------------------------------------------------------------------------------------


def test_models_are_searched_as_one(ours: Translator, tmp_path: Path) -> None:
    other = translator(seed=5).model
    both = Translator(
        ours.model,
        ours.source_tokenizer,
        ours.target_tokenizer,
        BEAM,
        partners=[other],
        weights=[3, 1],
        average="linear",
    )
    found = both.translate(TEXTS)
    again = both.score(TEXTS, [of_one[0].ids for of_one in found], finished=[of_one[0].finished for of_one in found])
    for one, forced in zip(found, again, strict=True):
        assert forced.score == pytest.approx(one[0].score, abs=1e-5)
    heavy = Translator(
        ours.model,
        ours.source_tokenizer,
        ours.target_tokenizer,
        BEAM,
        partners=[other],
        weights=[1e9, 1],
        average="linear",
    )
    assert [of_one[0].ids for of_one in heavy.translate(TEXTS)] == [of_one[0].ids for of_one in ours.translate(TEXTS)]
    folders = [write_bundle(tmp_path / "a"), write_bundle(tmp_path / "b")]
    assert load_ensemble(folders)(TEXTS) == load_ensemble(folders[:1])(TEXTS)
    with pytest.raises(InputError, match="1 weight for 2 models"):
        load_ensemble(folders, weights=[1.0])


# ---- minimum risk ----------------------------------------------------------------------------------------------------


def test_the_output_most_like_the_others_comes_first(ours: Translator) -> None:
    drawn = replace(BEAM, sampling=SamplingOptions(samples=11, seed=2))
    (samples,) = ours.translate(["345"], drawn)
    assert drawn.sampling is not None
    (ranked,) = ours.translate(["345"], replace(drawn, sampling=replace(drawn.sampling, least_risk=True)))
    texts = [one.text for one in samples]
    expected = {text: sum(likeness(text, other) for other in texts) / 11 for text in texts}
    assert ranked[0].score == pytest.approx(max(expected.values()))
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    assert {one.text for one in ranked} == set(texts)


# ---- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["char", "word", "byte", "sentencepiece"])
@pytest.mark.parametrize("beam", [1, 4])
def test_the_pieces_are_the_translation(kind: str, beam: int) -> None:
    target = subwords() if kind == "sentencepiece" else train_exact(kind, ["12 é水 a 👍🏽 b"])
    streaming = translator(target, seed=7)
    search = replace(BEAM, beam=beam, nbest=1, min_length=7, max_length=17)
    several = 0
    for text in ["12", "345 6", "0a1b", "7", "c 9", "", *NASTY[4:7]]:
        pieces = list(streaming.stream(text, search))
        ((best,),) = streaming.translate([text], search)
        assert "".join(pieces) == best.text and all(pieces)
        several += len(pieces) > 2
    assert several or beam > 1


def test_a_stream_can_be_stopped_and_left(ours: Translator) -> None:
    search = replace(BEAM, beam=1, nbest=1, min_length=5)
    seen: list[str] = []
    pieces = list(ours.stream("345", search, stop=lambda text: (seen.append(text), len(text) >= 3)[1]))
    assert "".join(pieces) == seen[-1] and len(seen[-1]) == 3
    for piece in ours.stream("345", search):
        assert piece
        break
    assert [*ours.stream("", search)] == []
    with pytest.raises(InputError, match="drawn at random"):
        next(ours.stream("1", replace(search, sampling=SamplingOptions())))


# ---- attention -------------------------------------------------------------------------------------------------------


def test_alignments_link_words_of_both_lines() -> None:
    aligning = translator(subwords())
    found = aligning.translate(["12 3 4", "a  b", ""], attended=Attended(align=True))
    for text, of_one in zip(["12 3 4", "a  b", ""], found, strict=True):
        for one in of_one:
            if not text:
                assert one.alignment is None
                continue
            assert one.alignment is not None
            sources, targets = text.split(), [word for word in one.text.split(" ") if word]
            assert {target for _, target in one.alignment} <= set(range(len(targets)))
            assert {source for source, _ in one.alignment} <= set(range(len(sources)))
            assert len({target for _, target in one.alignment}) == len(targets)
    many = aligning.translate(["12 3 4"], attended=Attended(align=True, threshold=1e-9))[0][0]
    assert many.alignment is not None
    assert len(many.alignment) == 3 * len([word for word in many.text.split(" ") if word])
    with pytest.raises(InputError, match="threshold"):
        Attended(align=True, threshold=0.0)


def test_unknown_words_are_left_out_told_and_replaced() -> None:
    target = train_exact("word", ["x y z"])
    model = translator(target)
    model.model.output.bias.data[1] = 3.0
    ((plain, *_),) = model.translate(["12 34"])
    assert plain.unknown and plain.ids.count(1) == plain.unknown
    ((filled, *_),) = model.translate(["12 34"], attended=Attended(dictionary={}))
    assert len(filled.text.split(" ")) == len(filled.ids) and {"12", "34"} & {*filled.text.split(" ")}
    ((named, *_),) = model.translate(["12 34"], attended=Attended(dictionary={"12": "A", "34": "B"}))
    assert named.text == filled.text.replace("12", "A").replace("34", "B")
    assert model.translate(["1é"])[0][0].source_unknown == 1
