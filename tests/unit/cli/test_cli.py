"""The command line in this process: exit codes, streams, flags, and that each verb does what its words say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import regard.runs.training.train
from regard import __version__
from regard.cli import run
from regard.errors import RegardError
from regard.runs.recipes.recipe import check
from regard.runs.recipes.tables import read_tables
from unit.runs.toys import write_bundle, write_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_bundle(tmp_path_factory.mktemp("model") / "m"))


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_help_version_and_unknown_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == run(["-h"]) == run(["train", "--help"]) == 0
    assert "translate" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {__version__}\n"
    assert run([]) == 2
    assert "Commands:" in capsys.readouterr().err
    assert run(["trian"]) == 2
    assert capsys.readouterr().err.startswith("regard: No such command 'trian'. Did you mean 'train'")
    assert run(["translate", "--beem", "3"]) == 2
    assert "--beam" in capsys.readouterr().err


def test_one_line_out_for_each_line_in(
    model: str, stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin("\ufeff123\r\n\n7\u20287\n0".encode())
    assert run(["translate", model]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 4 and out.endswith("\n") and out.split("\n")[1] == ""


def test_files_in_and_out_and_flags_of_other_tools(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("12\n345\n")
    for beam, limit in (("-b", "--max-len"), ("--beam-size", "--max_len"), ("--beam_size", "--max-len")):
        words = [
            "-m",
            model,
            "-i",
            str(tmp_path / "in"),
            "-o",
            str(tmp_path / "out"),
            beam,
            "1",
            limit,
            "3",
            "--lenpen",
            "1",
        ]
        assert run(["translate", *words, "--threads", "1", "--device", "cpu", "-q"]) == 0
        assert (tmp_path / "out").read_text().count("\n") == 2
    assert capsys.readouterr() == ("", "")


def test_nbest_lists_are_those_of_moses(
    model: str, stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(b"12\n\n3\n")
    assert run(["translate", model, "--nbest", "3"]) == 0
    rows = [line.split(" ||| ") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "0", "1", "2", "2", "2"]
    assert all(len(row) == 4 and row[2].startswith("logprob= ") for row in rows)
    totals = [float(row[3]) for row in rows[:3]]
    assert totals == sorted(totals, reverse=True)


def test_jsonl(model: str, stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]) -> None:
    stdin("1ä2\n".encode())
    assert run(["translate", model, "--jsonl", "--nbest", "2"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["source"] == "1ä2" and facts["translation"] == facts["nbest"][0]["translation"]
    assert facts["score"] >= facts["nbest"][1]["score"]
    stdin(b"  \n")
    assert run(["translate", model, "--jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"source": "  ", "translation": "", "score": 0.0, "log_prob": 0.0}


def test_every_flag_of_the_search_is_understood(
    model: str, stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (
        "--samples 2 --temperature 0.9 --top-k 5 --top-p 0.9 --min-p 0.01 --seed 3 --no-repeat 3 --suppress-unknown "
        "--repetition-penalty 1.1 --max-len-a 2 --max-len-b 3 --min-len 1 --min-len-ratio 0.1 --alignment --bias 1=0.5 "
        "--json-input"
    )
    stdin(b'{"text": "12", "avoid": ["7"]}\n{"text": ""}\n')
    assert run(["translate", model, *flags.split()]) == 0
    rows = [line.split(" ||| ") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["0", "0", "1"] and [len(row) for row in rows] == [5, 5, 4]
    for others in ("--beam 4 --groups 2 --diversity 1 --coverage-penalty 0.1", "--mbr 3", "--forbid 7 --suppress 1"):
        stdin(b"12\n")
        assert run(["translate", model, model, "--average", "linear", *others.split()]) == 0
        assert capsys.readouterr().out.count("\n") == 1


def test_score_prints_a_line_a_pair(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text("12\n3\n")
    (tmp_path / "t").write_text("21\n\n")
    assert run(["score", model, "-s", str(tmp_path / "s"), "-t", str(tmp_path / "t"), "--tokens", "-q"]) == 0
    assert [line.count("\t") for line in capsys.readouterr().out.split("\n")] == [3, 1, 0]


def test_score_averages_models_as_translate_does(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_text("12\t21\n")
    partner = str(write_bundle(tmp_path / "partner", seed=5))
    told = []
    for words in ("", "--average linear", "--weight 1 --weight 5"):
        assert run(["score", model, partner, "--pairs", str(tmp_path / "pairs.tsv"), "-q", *words.split()]) == 0
        told.append(float(capsys.readouterr().out))
    assert len(set(told)) == 3
    assert run(["score", model, partner, "--pairs", str(tmp_path / "pairs.tsv"), "--weight", "2"]) == 2
    assert "1 weight for 2 models" in capsys.readouterr().err
    assert run(["score", model, "--pairs", str(tmp_path / "pairs.tsv"), "--average", "lin"]) == 2
    assert "did you mean 'linear'?" in capsys.readouterr().err


def test_what_a_reader_would_not_see_is_told(
    model: str, stdin: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(b"1" * 99 + b"\n2\n")
    assert run(["translate", model, "-b", "1", "--max-len", "1"]) == 0
    assert "1 line was longer than the model reads, and cut at the end" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["translate"], "name the model folder, as the first word or with -m$"),
        (["translate", "MODEL", "-m", "MODEL"], "and not both"),
        (["translate", "nowhere"], "there is no model folder nowhere"),
        (["translate", "MODEL", "-i", "nowhere"], "nowhere: there is no such file"),
        (["translate", "MODEL", "-i", "FILE", "-o", "FILE"], "is the input as well"),
        (["translate", "MODEL", "-i", "FILE", "-o", "no/folder/x"], "cannot be written"),
        (["translate", "MODEL", "-i", "FILE", "--nbest", "3", "-b", "2"], "^regard: --nbest 3 needs a --beam of at"),
        (
            ["translate", "MODEL", "-i", "FILE", "--nbest", "3", "--samples", "2"],
            "^regard: --samples is .*--nbest about",
        ),
        (["translate", "MODEL", "-i", "FILE", "--beam", "4", "--mbr", "9"], "^regard: --mbr is about .*--beam about"),
        (["translate", "MODEL", "-i", "FILE", "--groups", "2", "--top-k", "5"], "^regard: --top-k is .*--groups about"),
        (["translate", "MODEL", "-i", "FILE", "--diversity", "1"], "`diversity` keeps the groups of a beam apart"),
        (["translate", "MODEL", "-i", "FILE", "--nbest", "2", "--format", "text"], "^regard: --format text has one"),
        (["translate", "MODEL", "-i", "FILE", "--samples", "2", "--format", "text"], "^regard: --format text has one"),
        (["translate", "MODEL", "-i", "FILE", "--beam", "0"], "--beam"),
        (["translate", "MODEL", "-i", "FILE", "--device", "warp"], "device 'warp' cannot be used"),
        (["translate", "MODEL", "-i", "FILE", "--tag", "de"], "no tag 'de'"),
        (
            ["translate", "MODEL", "-i", "FILE", "--nbest", "2", "--paragraphs", "en"],
            "a list of outputs speaks of one sentence",
        ),
        (["translate", "MODEL", "-i", "FILE", "--mbr", "3", "--samples", "3"], "leave out --samples"),
        (["translate", "MODEL", "-i", "FILE", "--format", "jsonp"], "did you mean 'jsonl'"),
        (["translate", "MODEL", "-i", "FILE", "--ids"], "--ids: goes with --jsonl"),
        (["translate", "MODEL", "-i", "FILE", "--bias", "x"], "must be like TOKEN=1.5"),
        (["translate", "MODEL", "-i", "FILE", "--dictionary", "TERMS"], "for --replace-unknown"),
        (["translate", "MODEL", "-i", "FILE", "--glossary", "FILE"], "FILE:1: a glossary line must be two phrases"),
        (["translate", "MODEL", "-i", "FILE", "--weight", "1", "--weight", "2"], "2 weights for 1 model"),
        (["translate", "MODEL", "-i", "FILE", "--weight", "0"], "weights of an ensemble must be above 0"),
        (["translate", "MODEL", "-i", "FILE", "--weight", "nan"], "weights of an ensemble must be above 0"),
        (["translate", "MODEL", "-i", "FILE", "--seed", "9" * 30], "sampling.seed` must be at most"),
        (["translate", "MODEL", "-i", "FILE", "--seed", "-1"], "--seed"),
        (["translate", "MODEL", "-i", "FILE", "--bias", "1=nan"], "a bias must be a number from"),
        (["translate", "MODEL", "-i", "FILE", "--json-input"], "FILE:1: not an object"),
        (["translate", "MODEL", "-i", "FILE", "--groups", "2", "--glossary", "TERMS"], "cannot be combined"),
        (["score", "MODEL"], "say what to score"),
        (
            ["score", "MODEL", "--translations", "FILE"],
            "FILE:1: not an object; expected .*lines of text are for --target",
        ),
        (["score", "MODEL", "-s", "FILE", "-t", "LONG"], "FILE has 1 line but .*LONG has 2"),
        (["evaluate", "MODEL"], "names no test files"),
        (["evaluate", "MODEL", "-s", "FILE", "-r", "LONG"], "unequal numbers of lines: .*FILE has 1, .*LONG has 2"),
        (["evaluate", "MODEL", "-s", "FILE", "-r", "FILE", "--metric", "blue"], "did you mean 'bleu'"),
        (["evaluate", "MODEL", "-s", "FILE", "-r", "FILE", "--min-bleu", "nan"], "--min-bleu.* must be a number"),
        (["evaluate", "MODEL", "-s", "FILE", "-r", "FILE", "--min-bleu", "inf"], "--min-bleu.* must be a number"),
        (["evaluate", "MODEL", "FILE", "--together", "-s", "FILE", "-r", "FILE"], "FILE is a file of outputs"),
        (["evaluate", "FILE", "--together", "-r", "FILE"], "FILE is a file of outputs; --together is for models"),
        (["train", "--source", "FILE", "--target", "LONG", "--set", "data.kind=signals"], "must stand in a recipe"),
        (["train", "--source", "FILE", "--target", "LONG", "--seed", "-1"], "`seed` must be from 0"),
        (["train", "--source", "FILE", "--target", "LONG", "--seed", str(2**64)], "`seed` must be from 0"),
        (["train"], "nothing to train on"),
        (["train", "--source", "FILE"], "`source` needs its `target`"),
        (["train", "--source", "FILE", "--target", "LONG", "--dump"], "FILE has 1 line but .*LONG has 2"),
        (["train", "nowhere.toml"], "the recipe cannot be read"),
        (["train", "--valid", "FILE", "FILE", "--valid-pairs", "FILE"], "not both"),
        (["train", "--updates", "9", "--set", "training.updates=7"], "training.updates is said twice"),
        (["train", "--pairs", "a", "--set", "data.pairs=b"], "data.pairs is said twice"),
        (["train", "--valid-pairs", "a", "--set", "data.valid_pairs=b"], "data.valid_pairs is said twice"),
        (["train", "--preset", "tiny", "--set", "model.preset=base"], "model.preset is said twice"),
        (["train", "--dump", "--dry-run"], "give --dump or --dry-run, not both"),
        (["average", "nowhere", "--last", "2", "--best", "2"], "not both"),
        (["average", "nowhere"], "is not the folder of a run"),
        (["average", "nowhere", "--last", "2"], "is not the folder of a run"),
        (["reseal", "nowhere"], "there is no model folder nowhere"),
        (["reseal", "FILE"], "there is no model folder"),
        (["average", "nowhere", "--threads", "0", "--quiet"], "--threads"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(
    words: list[str],
    sentence: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("1\n")
    Path("LONG").write_text("1\n2\n")
    Path("TERMS").write_text("1\t2\n")
    assert run([model if word == "MODEL" else word for word in words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    *before, last = told.err.rstrip("\n").split("\n")
    assert last.startswith("regard: ") and all(line.startswith(("reading ", "loading ")) for line in before)
    with pytest.raises(RegardError, match=sentence):
        raise RegardError(told.err)
    assert not Path("runs").exists()


def test_train_translate_evaluate_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    assert run(["train", "recipe.toml", "--dump"]) == 0
    dumped = capsys.readouterr().out
    Path("effective.toml").write_text(dumped)
    assert check(read_tables("effective.toml")).training.updates == 3
    assert run(["train", "recipe.toml", "--dump", "--set", "training.weight_decay=0.5", "--set", "data.workers=1"]) == 0
    assert {"weight_decay = 0.5", "workers = 1"} <= {*capsys.readouterr().out.split("\n")}
    assert run(["train", "recipe.toml", "--updates", "4", "--valid", "train.src", "train.tgt", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert run(["translate", "runs/recipe", "-i", "train.src"]) == 0
    assert capsys.readouterr().out.count("\n") == 37
    assert (
        run(["evaluate", "runs/recipe", "-s", "train.src", "-r", "train.tgt", "-r", "train.src", "--metric", "per"])
        == 0
    )
    assert capsys.readouterr().out.startswith("PER ")
    assert run(["evaluate", "runs/recipe", "-s", "train.src", "-r", "train.tgt", "--json", "--intervals"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["num_lines"], report["figures"][0]["name"]) == (37, "BLEU")
    assert run(["average", "runs/recipe", "--last", "2", "-o", "mean"]) == 0
    assert capsys.readouterr().err == "mean: the mean of the weights of updates 2 and 4\n"
    assert run(["average", "runs/recipe", "--last", "2", "-o", "quiet", "-q", "--threads", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["average", "runs/recipe", "-o", "default"]) == 0
    default = capsys.readouterr().err
    assert run(["average", "runs/recipe", "--best", "1", "-o", "best"]) == 0
    assert capsys.readouterr().err == default.replace("default", "best"), "the recipe asks for no mean"
    test_set = ["-s", "train.src", "-r", "train.tgt", "-q"]
    assert run(["evaluate", "best", "mean", "--together", *test_set, "-o", "together.txt"]) == 0
    assert run(["translate", "best", "mean", "-i", "train.src", "-o", "translated.txt", "-q"]) == 0
    assert Path("together.txt").read_text() == Path("translated.txt").read_text()
    assert capsys.readouterr().out.startswith("BLEU "), "one system: its name is not said"
    for named, model in (("mean", "mean"), ("runs/recipe", "runs/recipe/model")):
        config = Path(model, "config.json")
        config.write_text(config.read_text() + "\n")
        assert run(["translate", named, "-i", "train.src", "-b", "1"]) == 2
        assert f"`regard reseal {model}`" in capsys.readouterr().err
        assert run(["reseal", named]) == 0
        assert run(["translate", named, "-i", "train.src", "-b", "1"]) == 0


def test_what_nobody_expected_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(regard.runs.training.train, "train_planned", fail)
    assert run(["train", "--pairs", "x.tsv", "-q"]) == 1
    told = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in told and "regard --debug" in told and told.count("\n") == 1
    assert run(["--debug", "train", "--pairs", "x.tsv"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left on device", "out/x"), 1, "No space left on device: out/x"),
        (RegardError("cannot write x: the disk is full"), 1, "the disk is full"),
    ],
)
def test_exit_codes(
    raised: BaseException,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(regard.runs.training.train, "train_planned", fail)
    assert run(["train", "--pairs", "x.tsv", "-q"]) == code
    assert sentence in capsys.readouterr().err
