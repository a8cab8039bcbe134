"""Scores of files: every figure of a search is found again, from files as it wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

import regard.runs.translating.score as scoring
from regard.errors import DataError, InputError
from regard.protocols import EOS
from regard.runs.translating.filter import FilterOptions
from regard.runs.translating.score import Outputs, score
from regard.runs.translating.translate import translate
from regard.translator import load_ensemble
from unit.runs.toys import write_bundle

LINES = ["12", "", "345 6", "0a1b", "7777"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_bundle(tmp_path_factory.mktemp("model") / "m"))


@pytest.mark.parametrize(
    ("average", "weights", "overrides"),
    [
        ("log", (1.0,), {}),
        ("log", (1.0,), {"coverage_penalty": 0.3}),
        ("log", (1.0,), {"length_penalty": 1.5}),
        ("log", (3.0, 1.0), {}),
        ("linear", (1.0, 5.0), {"coverage_penalty": 0.3}),
    ],
)
def test_scores_of_a_search_are_found_again(
    model: str,
    tmp_path: Path,
    average: Literal["log", "linear"],
    weights: tuple[float, ...],
    overrides: dict[str, float],
) -> None:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    models = (model, str(write_bundle(tmp_path / "partner", seed=5)))[: len(weights)]
    options = FilterOptions(models, weights, average, {"nbest": 3, **overrides}, form="jsonl", ids=True)
    translate(options, source=tmp_path / "in", output=tmp_path / "found.jsonl", device="cpu")
    score(
        models,
        Outputs(translations=tmp_path / "found.jsonl"),
        weights=weights,
        average=average,
        overrides=overrides,
        jsonl=True,
        output=tmp_path / "scores",
        device="cpu",
    )
    found = [
        one for line in (tmp_path / "found.jsonl").read_text().split("\n")[:-1] for one in json.loads(line)["nbest"]
    ]
    again = [json.loads(line) for line in (tmp_path / "scores").read_text().split("\n")[:-1]]
    assert len(found) == len(again) == 13
    for one, forced in zip(found, again, strict=True):
        assert forced["log_prob"] == pytest.approx(one["log_prob"], abs=1e-5)
        assert forced["score"] == pytest.approx(one["score"], abs=1e-5)
        assert forced["target"] == one["translation"]


def test_tokens_add_up_to_their_line(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text("12\n345\n")
    (tmp_path / "t").write_text("1 2\n\n")
    said: list[str] = []
    score([model], Outputs(tmp_path / "s", tmp_path / "t"), tokens=True, device="cpu", say=said.append)
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [[cell.split(" ")[0] for cell in row[1:]] for row in rows] == [["1", "␣", "2", "</s>"], ["</s>"]]
    for total, *cells in rows:
        assert float(total) == pytest.approx(sum(float(cell.split(" ")[1]) for cell in cells), abs=1e-5)
    assert said[-1].startswith("5 tokens: log-probability -")
    score([model], Outputs(tmp_path / "s", tmp_path / "t"), device="cpu", normalized=True, say=said.append)
    normalized = [float(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    for figure, (total, *cells) in zip(normalized, rows, strict=True):  # Wu et al. with 0.6, by hand
        assert figure == pytest.approx(float(total) / ((5 + len(cells)) / 6) ** 0.6, abs=1e-5)


def test_what_cannot_be_scored_is_told_with_its_place(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.runs.translating.score._CHUNK", 1)  # a place is that in the file, not in a chunk
    (tmp_path / "s").write_text("1\n2\n")
    (tmp_path / "t").write_text("1\n" + "2" * 40 + "\n")
    (tmp_path / "x.jsonl").write_text('{"source": "1", "ids": [5]}\n{"source": "2", "ids": [5, 999]}\n')
    for outputs, sentence in [
        (Outputs(tmp_path / "s", tmp_path / "t"), "t:2: an output has 40 tokens, and the model writes 28"),
        (Outputs(translations=tmp_path / "x.jsonl"), "x.jsonl:2: ids must be from 0 to"),
    ]:
        with pytest.raises(InputError, match=sentence):
            score([model], outputs, output=tmp_path / "out", device="cpu")
    with pytest.raises(InputError, match=r"^the vocabulary has no tag 'de'"):
        score([model], Outputs(tmp_path / "s", tmp_path / "s"), tag="de", device="cpu")


def test_one_file_for_both_sides_is_doubted(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.runs.translating.score._CHUNK", 2)
    (tmp_path / "s").write_text("12\n3\n45\n")
    (tmp_path / "t").write_text("12\n4\n45 \n")
    said: list[str] = []
    for target in ("s", "t"):
        score([model], Outputs(tmp_path / "s", tmp_path / target), output=tmp_path / "o", device="cpu", say=said.append)
    assert [sentence.split("; ")[0] for sentence in said if "same text" in sentence] == [
        "source and target are the same text in 100% of the pairs"
    ]


def test_a_model_that_is_sure_of_something_else(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A perplexity of e^5000 is no number."""
    translator = load_ensemble([model])
    translator.model.output.bias.data[EOS] = 5e3
    monkeypatch.setattr(scoring, "load_ensemble", lambda *_, **__: translator)
    (tmp_path / "s").write_text("12\n")
    said: list[str] = []
    score([model], Outputs(tmp_path / "s", tmp_path / "s"), output=tmp_path / "o", device="cpu", say=said.append)
    assert any(sentence.endswith("each, perplexity inf") for sentence in said)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for line, sentence in [
        ('{"source": "a"}', "x.jsonl:1: neither `ids`"),
        ('{"source": "a", "ids": [1.5]}', "x.jsonl:1: neither `ids`"),
        ('{"source": "a", "nbest": [3]}', "x.jsonl:1: neither"),
        (
            "junk",
            r'x.jsonl:1: not JSON; expected {"source": "…", "translation": "…"}, as translate --jsonl writes it; l',
        ),
    ]:
        path.write_text(line + "\n")
        with pytest.raises(DataError, match=sentence):
            list(Outputs(translations=path).read(""))
    with pytest.raises(DataError, match="--source needs its --target"):
        Outputs(source=path)
    for outputs in ({}, {"pairs": path, "translations": path}):
        with pytest.raises(DataError, match="say what to score"):
            Outputs(**outputs)
