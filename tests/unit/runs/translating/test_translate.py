"""A stream of lines: forms, chunks, paragraphs, processes; whatever comes, lines out = lines in."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard.runs.translating.translate as translating
from regard.errors import DataError, InputError, RegardError
from regard.runs.translating.filter import Filter, FilterOptions
from regard.runs.translating.translate import translate
from regard.runs.translating.workers import Workers
from regard.translation import read_glossary
from unit.data.nasty import NASTY
from unit.runs.toys import write_bundle

QUICK = {"beam": 2, "max_length": 5}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_bundle(tmp_path_factory.mktemp("model") / "m"))


def results(options: FilterOptions, lines: Sequence[str], folder: Path, **more: Any) -> tuple[list[str], list[str]]:
    """Return the lines written, and what was said."""
    (folder / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    said: list[str] = []
    translate(options, source=folder / "in", output=folder / "out", device="cpu", say=said.append, **more)
    written = (folder / "out").read_bytes().decode()
    assert not written or written.endswith("\n")
    return written.split("\n")[:-1], said


LINES = ["12", "", "345 6", "0a1b", "7777", "c 9", "12"]


def texts(rows: list[str]) -> list[list[str]]:
    """Number and text of n-best lines: the last digit of a score may change with the batch."""
    return [row.split(" ||| ")[:2] for row in rows]


def test_draws_do_not_depend_on_chunks(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = FilterOptions((model,), overrides={"samples": 2, "seed": 3, "max_length": 5}, form="nbest")
    whole = texts(results(options, LINES, tmp_path)[0])
    for size in (1, 2, 3):
        monkeypatch.setattr(translating, "_CHUNK_LINES", size)
        assert texts(results(options, LINES, tmp_path)[0]) == whole
    assert "".join(number for number, _ in whole) == "0012233445566"


def test_json_lists_every_line_and_keeps_what_it_does_not_know(model: str, tmp_path: Path) -> None:
    options = FilterOptions((model,), overrides={"nbest": 3, "max_length": 5}, form="jsonl", json_input=True, ids=True)
    lines = ['{"text": "12", "id": 7, "prefix": "3", "score": "mine"}', '{"text": ""}']
    first, second = (json.loads(line) for line in results(options, lines, tmp_path)[0])
    assert first["id"] == 7 and first["translation"].startswith("3") and isinstance(first["score"], float)
    assert len(first["nbest"]) == 3 and first["nbest"][0]["ids"] == first["ids"]
    assert second["translation"] == "" and second["nbest"] == [
        {"translation": "", "score": 0.0, "log_prob": 0.0, "ids": []}
    ]
    with pytest.raises(DataError, match=r"in:2: not JSON"):
        results(options, [lines[0], ""], tmp_path)


def test_alignments_and_the_lines_of_fairseq(model: str, tmp_path: Path) -> None:
    aligned = FilterOptions((model,), overrides=QUICK, align=True)
    (line,), said = results(aligned, ["12 3"], tmp_path)
    # a model that has learnt nothing looks everywhere alike
    assert len([sentence for sentence in said if "looks at all words nearly alike (entropy 9" in sentence]) == 1
    text, links = line.split(" ||| ")
    assert all(link.split("-")[0] in "01" for link in links.split())
    rows, _ = results(replace(aligned, form="fairseq"), ["12 3", ""], tmp_path)
    assert [row.split("\t")[0] for row in rows] == ["S-0", "H-0", "D-0", "P-0", "A-0", "S-1", "H-1", "D-1", "P-1"]
    assert rows[2].split("\t")[2] == text and len(rows[3].split()) >= len(text)


def test_a_glossary_and_forbidden_words(model: str, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("12\tb c\n")
    options = FilterOptions(
        (model,), overrides={"beam": 4}, glossary=read_glossary(tmp_path / "terms.tsv"), forbid=("7",)
    )
    lines, _ = results(options, ["12 4", "4"], tmp_path)
    assert "b c" in lines[0] and "b c" not in lines[1] and not any("7" in line.split(" ") for line in lines)


def test_a_glossary_without_a_phrase_is_said(model: str, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("\n \n")
    nothing = read_glossary(terms)
    for name, options in {
        "glossary": FilterOptions((model,), overrides=QUICK, glossary=nothing),
        "dictionary": FilterOptions((model,), overrides=QUICK, dictionary=nothing, replace_unknown=True),
    }.items():
        assert f"the {name} is empty, so nothing is asked of it" in results(options, ["1"], tmp_path)[1]
    terms.write_text("1 2\n")
    with pytest.raises(DataError, match=r"terms.tsv:1: a dictionary line must be two phrases"):
        read_glossary(terms, "dictionary")


def test_paragraphs_keep_their_spacing_and_their_draws(model: str, tmp_path: Path) -> None:
    options = FilterOptions((model,), overrides={"samples": 1, "max_length": 5}, paragraphs="en")
    text = "  1 2.  A 3.\t0.  "
    (line, empty, alone), _ = results(options, [text, "", "1 2."], tmp_path)
    assert line.startswith("  ") and line.endswith("  ") and "\t" in line and empty == ""
    with pytest.raises(InputError, match="--alignments speaks of one sentence"):
        replace(options, align=True)
    with pytest.raises(InputError, match="no language 'xx'"):
        replace(options, paragraphs="xx")
    assert alone


def test_tokens_are_suppressed_and_made_likelier(model: str, tmp_path: Path) -> None:
    always = FilterOptions((model,), overrides=QUICK, bias=(("b", 99.0),))
    assert results(always, ["12"], tmp_path)[0] == ["bbbbb"]
    assert "b" not in results(replace(always, suppress=("b",), bias=()), LINES, tmp_path)[0]
    with pytest.raises(
        InputError, match=r"^--suppress: 'ab' is no token of the target vocabulary, but as text it is a b"
    ):
        results(replace(always, suppress=("ab",)), ["1"], tmp_path)
    with pytest.raises(InputError, match=r"^--bias: 'ä' is no token of the target vocabulary, and cannot be written"):
        results(replace(always, bias=(("ä", 1.0),)), ["1"], tmp_path)


def test_most_outputs_empty_is_said_once(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translating, "_CHUNK_LINES", 5)
    said = results(FilterOptions((model,), overrides=QUICK, suppress=tuple("0123456789 abc")), ["12"] * 40, tmp_path)[1]
    assert sum("most outputs are empty" in sentence for sentence in said) == 1
    assert not any(
        "empty" in sentence for sentence in results(FilterOptions((model,), overrides=QUICK), LINES, tmp_path)[1]
    )


def test_one_output_for_all_lines_is_said(model: str, tmp_path: Path) -> None:
    always = FilterOptions((model,), overrides=QUICK, bias=(("b", 99.0),))
    said = results(always, ["12", "345", "6"], tmp_path)[1]
    assert sum("one line after the other gets the same output" in sentence for sentence in said) == 1


def test_what_an_output_cannot_hold_is_told_with_its_place(model: str, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("1\t2\n\n3\tzz\n")
    with pytest.raises(InputError, match=r"terms.tsv:3: the phrase 'zz' that an output must have holds what"):
        results(FilterOptions((model,), glossary=read_glossary(tmp_path / "terms.tsv")), ["1"], tmp_path)
    asks = FilterOptions((model,), overrides=QUICK, json_input=True)
    for line, sentence in [
        ('{"text": "1", "constraints": ["zz"]}', "the phrase 'zz' that an output must have holds what"),
        ('{"text": "1", "constraints": [" "]}', "a phrase in `constraints` is empty"),
        ('{"text": "1", "prefix": "zz"}', "the prefix 'zz' that an output must have holds what"),
        ('{"text": "1", "tag": "de"}', "the vocabulary has no tag 'de'"),
        ('{"text": "1", "avoid": [""]}', "a phrase in `avoid` is empty"),
    ]:
        with pytest.raises(InputError, match=f"in:2: {sentence}"):
            results(asks, ['{"text": "2"}', line], tmp_path)
    with pytest.raises(InputError, match="in:1: `constraints` are of one sentence"):
        results(replace(asks, paragraphs="en"), ['{"text": "1", "constraints": ["2"]}'], tmp_path)
    with pytest.raises(InputError, match=r"^the vocabulary has no tag 'de'"):
        results(FilterOptions((model,), tag="de"), [], tmp_path)
    with pytest.raises(InputError, match="--forbid: a phrase must have at least one letter"):
        FilterOptions((model,), forbid=(" ",))


@pytest.mark.usefixtures("unchecked")
def test_one_phrase_is_no_list(model: str) -> None:
    for name, one in (("forbid", "phrase"), ("suppress", "token")):
        with pytest.raises(InputError, match=f"`{name}` must be a list of {one}s, but is one string"):
            FilterOptions((model,), **{name: "Hund"})  # type: ignore[arg-type]


# ---- whatever comes in -----------------------------------------------------------------------------------------------


def nasty_files(model: str, count: int) -> None:
    work = Filter(FilterOptions((model,), overrides={"beam": 1, "max_length": 2}), "cpu")
    draw = random.Random(7)
    short = [line for line in NASTY if len(line) < 100]
    for _ in range(count):
        lines = [
            draw.choice(short)
            if draw.random() < 0.5
            else "".join(chr(draw.choice([9, 32, 49, 233, 0x2028, 0x6C34, 0x1F44D])) for _ in range(draw.randint(0, 9)))
            for _ in range(draw.randint(0, 12))
        ]
        done = work(0, lines, "x")
        assert len(done.written) == len(lines)
        assert all("\n" not in line and "\r" not in line for line in done.written)
        assert all(written == "" for line, written in zip(lines, done.written, strict=True) if not line.strip())


def test_nasty_lines_give_as_many(model: str) -> None:
    nasty_files(model, 50)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_10000_nasty_files(model: str) -> None:
    nasty_files(model, 10_000)


# ---- processes -------------------------------------------------------------------------------------------------------


def test_processes_give_what_one_gives(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = FilterOptions((model,), overrides={"samples": 2, "seed": 3, "max_length": 5}, form="nbest")
    lines = [str(number) for number in range(100)]
    alone = texts(results(options, lines, tmp_path)[0])
    monkeypatch.setattr(translating, "_CHUNK_OF_WORKER", 3)
    assert texts(results(options, lines, tmp_path, workers=2)[0]) == alone


def test_workers_do_not_hear_control_c(model: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background nobody hears it
    try:
        with Workers(FilterOptions((model,), overrides=QUICK), 1, "cpu", 1) as workers:
            assert workers._processes[0].pid is not None
            os.kill(workers._processes[0].pid, signal.SIGINT)
            assert [len(done.written) for done in [*workers.submit(0, ["12"], "x"), *workers.drain()]] == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_worker_that_dies_is_told_and_mistakes_come_through(model: str) -> None:
    with pytest.raises(InputError, match="there is no model folder nowhere"):
        Workers(FilterOptions(("nowhere",)), 1, "cpu", 1)
    with pytest.raises(InputError, match="no tag 'de'"):
        Workers(FilterOptions((model,), overrides=QUICK, tag="de"), 1, "cpu", 1)
    asks = FilterOptions((model,), overrides=QUICK, json_input=True)
    with Workers(asks, 1, "cpu", 1) as workers, pytest.raises(InputError, match="x:1: the vocabulary has no tag 'de'"):
        list(workers.submit(0, ['{"text": "12", "tag": "de"}'], "x")) + list(workers.drain())
    with Workers(FilterOptions((model,), overrides=QUICK), 2, "cpu", 1) as workers:
        victim = workers._processes[0].pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(RegardError, match=r"worker 1 of 2 has ended by signal SIGKILL"):
            for chunk in range(9):
                list(workers.submit(chunk, ["12"], "x"))
            list(workers.drain())
    assert not any(process.is_alive() for process in workers._processes)
