"""Whatever is fed to the commands: a sentence and the right exit code, never a traceback, and lines out = lines in."""

from __future__ import annotations

import io
import os
import pickle
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli import run
from regard.data import read_lines
from regard.runs.recipes.toml import write_toml
from regard.storage import reseal
from unit.data.nasty import NASTY
from unit.runs.toys import write_bundle, write_corpus

LINE = st.one_of(
    st.sampled_from([line for line in NASTY if len(line) < 100]).map(lambda line: line.encode()),
    st.binary(max_size=7),
    st.sampled_from(
        [b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"a\tb", b"a\tb\tc", b'"', b'{"source": "a", "target": 3}', b"\r"]
    ),
)
CONTENT = st.one_of(
    st.lists(LINE, max_size=7).map(lambda lines: b"\n".join(lines)),
    st.lists(LINE, max_size=7).map(lambda lines: b"".join(line + b"\n" for line in lines)),
    st.just(b"\x1f\x8b broken gzip"),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder to be in, with a model, a corpus and a recipe."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        write_corpus(Path(name))
        write_bundle(Path(name) / "model")
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def call(words: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run a command; return exit code, stdout, stderr, after the checks that hold for every command."""
    out, err = io.TextIOWrapper(io.BytesIO(), newline="\n"), io.StringIO()
    with redirected(stdin), redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    out.flush()
    said, printed = err.getvalue(), out.buffer.getvalue()  # type: ignore[attr-defined]
    assert "Traceback" not in said and "fault in regard" not in said, (words, said)
    assert code in (0, 1, 2), (words, code)
    if code:
        assert said.startswith(("regard: ", "Usage")) or "\nregard: " in said, (words, said)
    return code, printed, said


@contextmanager
def redirected(data: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
    try:
        yield
    finally:
        sys.stdin = before


@settings(max_examples=60)
@given(content=CONTENT)
def test_translate_whatever_comes_in(place: Path, content: bytes) -> None:
    code, printed, said = call(["translate", "model", "-b", "1", "--max-len", "2"], content)
    if code == 0:
        Path("content").write_bytes(content)
        assert printed.count(b"\n") == sum(1 for _ in read_lines("content"))
    else:
        assert code == 2 and "standard input" in said


@settings(max_examples=60)
@given(source=CONTENT, target=CONTENT, ending=st.sampled_from(["txt", "tsv", "jsonl", "txt.gz"]))
def test_train_on_whatever_files(place: Path, source: bytes, target: bytes, ending: str) -> None:
    Path(f"s.{ending}").write_bytes(source)
    Path("t.txt").write_bytes(target)
    words = ["--pairs", f"s.{ending}"] if ending in ("tsv", "jsonl") else ["-s", f"s.{ending}", "-t", "t.txt"]
    code, printed, said = call(["train", *words, "--dump"])
    assert (code == 0) == bool(printed)
    if code:
        assert f"s.{ending}" in said or "t.txt" in said


@settings(max_examples=40)
@given(source=CONTENT, reference=CONTENT)
def test_evaluate_on_whatever_files(place: Path, source: bytes, reference: bytes) -> None:
    Path("source").write_bytes(source)
    Path("reference").write_bytes(reference)
    code, printed, _ = call(["evaluate", "model", "-s", "source", "-r", "reference", "-b", "1", "--metric", "exact"])
    assert (code == 0) == bool(printed)


VALUE: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-3, 10**12),
        st.floats(),
        st.sampled_from(["tiny", "char", "", "x\u0000y", "best", "bleu", "rotary"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["kind", "source", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = {
    "data": ["source", "target", "pairs", "corpora", "columns", "filters", "noise", "valid_pairs", "temperature", "x"],
    "tokenizer": ["kind", "joint", "vocab_size", "source_model", "model_type", "x"],
    "model": ["preset", "d_model", "num_heads", "positions", "dropout", "tie", "max_len", "norm_eps", "x"],
    "training": ["updates", "minutes", "betas", "seed", "average", "schedule", "metric", "learning_rate", "x"],
    "generation": ["beam", "nbest", "max_length", "score", "groups", "x"],
    "evaluation": ["metrics", "bleu_tokenize", "lowercase", "x"],
    "extra": ["x"],
}
TABLES = st.dictionaries(st.sampled_from(sorted(KEYS)), st.just(None), max_size=3).flatmap(
    lambda sections: st.fixed_dictionaries(
        {name: st.dictionaries(st.sampled_from(KEYS[name]), VALUE, max_size=3) for name in sections}
    )
)


@settings(max_examples=100)
@given(tables=TABLES)
def test_train_by_whatever_recipe(place: Path, tables: dict[str, dict[str, Any]]) -> None:
    Path("odd.toml").write_text(write_toml(tables), encoding="utf-8")
    code, printed, said = call(["train", "odd.toml", "-s", "train.src", "-t", "train.tgt", "--dump"])
    assert (code == 0) == bool(printed)
    assert code != 1
    if code:
        assert "odd.toml" in said


WORDS_OF_COMMANDS = (
    "model nowhere train.src . recipe.toml - -- -m -i -o -s -t -b -n --beam --nbest --max-len --lenpen --tag --jsonl "
    "--source --target --pairs --valid --out --data --preset --updates --minutes --seed --dump --last --best --json "
    "--reference --metric --lowercase --quiet --debug --version --device cpu warp 0 -1 3 1e9 nan x"
)
WORDS = st.sampled_from(WORDS_OF_COMMANDS.split()) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5
)


@settings(max_examples=100)
@given(
    verb=st.sampled_from(["translate", "evaluate", "average", "reseal", "trains", ""]),
    words=st.lists(WORDS, max_size=5),
)
def test_whatever_words(place: Path, verb: str, words: list[str]) -> None:
    code, printed, _ = call([verb, *words] if verb else words[:1], b"12\n")
    assert code == 0 or not printed


class Canary:
    """Sings when it is unpickled: there is a file afterwards."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("sung"),)


DOORS = {
    "model/model.safetensors": ["translate", "model"],
    "model/config.json": ["translate", "model"],
    "model/joint.vocabulary.json": ["translate", "model"],
    "x.safetensors": ["train", "--replay", "x.safetensors"],
    "x.toml": ["train", "x.toml"],
    "train.src": ["train", "-s", "train.src", "-t", "train.tgt", "--dump"],
    "own.model": ["train", "own.toml", "--dry-run"],
    "own.json": ["train", "own.toml", "--dry-run"],
    **{f"signals.{kind}": ["train", "own.toml"] for kind in ("npz", "npy", "csv", "ts")},
}


@pytest.mark.parametrize("made", ["pickle", "torch.save"])
@pytest.mark.parametrize("door", DOORS)
def test_nothing_that_is_read_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str, made: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    write_bundle(tmp_path / "model")
    text = f'[data]\nsource = "train.src"\ntarget = "train.tgt"\n[tokenizer]\nsource_model = "{door}"\n'
    signals = f'[data]\nkind = "signals"\ntrain = "{door}"\n'
    Path("own.toml").write_text(signals if door.startswith("signals") else text)
    cage = [Canary(), bytes(100_003)]  # as large as a model may be
    if made == "pickle":
        Path(door).write_bytes(pickle.dumps(cage))
    else:
        torch.save(cage, door)
    if door.startswith("model/"):
        reseal(Path("model"))
    code, printed, said = call(DOORS[door])
    assert code and not printed and Path(door).name.removeprefix("joint.") in said
    assert not Path("sung").exists()
    pickle.loads(pickle.dumps(cage))
    assert Path("sung").exists(), "the canary was not able to sing"


def test_a_line_of_a_megabyte(place: Path) -> None:
    line = bytes(random.Random(7).choices(b"0123456789 ", k=1 << 20))
    code, printed, said = call(["translate", "model", "-b", "1", "--max-len", "2"], line + b"\n1\n")
    assert (code, printed.count(b"\n")) == (0, 2)
    assert "1 line was longer than the model reads" in said
