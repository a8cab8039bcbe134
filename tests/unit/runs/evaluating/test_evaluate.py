"""Several systems on one test set, model folders and files of outputs alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli import run
from regard.errors import DataError, InputError
from regard.runs.evaluating.evaluate import evaluate
from unit.runs.toys import write_bundle

SOURCES, REFERENCES = ["12345", "3456", "6 7 8", "8901"] * 5, ["54321", "6543", "8 7 6", "1098"] * 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems")
    write_bundle(folder / "model")
    for name, lines in [
        ("source", SOURCES),
        ("reference", REFERENCES),
        ("perfect", REFERENCES),
        ("half", [*REFERENCES[:10], *["x"] * 10]),
        ("short", ["x"]),
    ]:
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_files_of_outputs_are_systems_and_differences_are_tested(place: Path) -> None:
    found = evaluate(
        place / "half",
        place / "perfect",
        place / "half",
        source=place / "source",
        references=[place / "reference"],
        metrics=["exact", "cer"],
        num_worst=2,
    )
    first, second, third = found.reports.values()
    assert (first["exact"], second["exact"], third["exact"]) == (50.0, 100.0, 50.0)
    assert first.figures[0].p is None and third.figures[0].p == 1.0
    assert second.figures[0].p is not None and second.figures[0].p < 0.01
    assert [name.rpartition("/")[2] for name in found.reports] == ["half", "perfect", "half (3)"]
    assert [line.number for line in next(iter(found.worst.values()))] == [11, 12]
    lines = list(found.lines())
    assert lines[0].endswith("half") and lines[1].startswith("  exact 50.00") and "  output     x" in lines
    told = json.loads(found.to_json())["systems"]
    assert told[0]["worst"][0]["source"] == SOURCES[10] and told[1]["figures"][0]["p"] < 0.01
    assert found.lowest("exact") == 50.0
    with pytest.raises(InputError, match="BLEU was not measured; add --metric bleu"):
        found.lowest("BLEU")


def test_a_model_beside_a_file(place: Path) -> None:
    words = {"source": place / "source", "references": [place / "reference"]}
    found = evaluate(place / "model", place / "perfect", **words, beam=1)  # type: ignore[arg-type]
    assert found.first["exact"] < 100
    with pytest.raises(DataError, match="short has 1 line but the test set 20"):
        evaluate(place / "short", **words)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="several systems do not go into one file"):
        evaluate(place / "model", place / "half", output=place / "out", **words)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one system"):
        evaluate(**words)  # type: ignore[arg-type]


def test_outputs_need_references_and_no_source(place: Path) -> None:
    found = evaluate(place / "half", references=[place / "reference"], metrics=["exact"], num_worst=20)
    assert found.first["exact"] == 50.0
    lines = list(found.lines())
    assert "  output     x" in lines and not any("source" in line for line in lines)
    told = json.loads(found.to_json())["worst"]
    assert [line["number"] for line in told] == [*range(11, 21)] and "source" not in told[0]
    with pytest.raises(InputError, match="model translates, so these references need their source"):
        evaluate(place / "half", place / "model", references=[place / "reference"])
    with pytest.raises(InputError, match="the source needs its reference"):
        evaluate(place / "half", source=place / "source")
    with pytest.raises(InputError, match="measured against references"):
        evaluate(place / "half")


def test_a_file_of_outputs_is_no_model_of_an_ensemble(place: Path) -> None:
    with pytest.raises(InputError, match="half is a file of outputs; --together is for models"):
        evaluate((place / "model", place / "half"), references=[place / "reference"])


def test_one_file_for_both_sides_is_doubted(place: Path) -> None:
    said: list[str] = []
    for reference in ("source", "reference"):
        evaluate(
            place / "half", source=place / "source", references=[place / reference], metrics=["exact"], say=said.append
        )
    assert [sentence.split("; ")[0] for sentence in said] == [
        "source and target are the same text in 100% of the pairs"
    ]


@pytest.mark.usefixtures("unchecked")
def test_one_reference_or_metric_is_no_list(place: Path) -> None:
    for name, one, given in (("references", "file", str(place / "reference")), ("metrics", "name", "bleu")):
        with pytest.raises(InputError, match=rf"`{name}` must be a list of {one}s, but is one string; write \[{one}\]"):
            evaluate(place / "half", **{name: given})  # type: ignore[arg-type]


def test_a_floor_for_bleu_ends_with_1(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "-s", str(place / "source"), "-r", str(place / "reference"), "--bleu-tokenize", "char"]
    assert run([*words, str(place / "perfect"), "--min-bleu", "90", "--metric", "exact"]) == 0
    assert (
        run([*words, str(place / "half"), str(place / "perfect"), "--min-bleu", "90", "--test", "randomisation"]) == 1
    )
    told = capsys.readouterr()
    assert "is below 90" in told.err and "exact 100.00" in told.out
    assert run([*words, str(place / "half"), "--test", "coin"]) == 2
