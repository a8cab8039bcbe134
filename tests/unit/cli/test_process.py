"""The command as a process of its own: signals, closed pipes, full disks, and a locale that knows no letters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard import cli
from regard.cli import allocator, machine
from unit.runs.toys import RECIPE, write_bundle, write_corpus

COMMAND = [sys.executable, "-m", "regard"]


def regard(*words: str, stdin: bytes = b"", **changes: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, check=False, **changes)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path)
    write_bundle(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start_training(out: str) -> subprocess.Popen[bytes]:
    """Start a training without end, and wait until it is under way."""
    endless = RECIPE.replace("updates = 3", "updates = 1000000").replace("validate_every = 2", "validate_every = 10000")
    Path("endless.toml").write_text(endless.replace("save_every = 2", "save_every = 10000"))
    running = subprocess.Popen([*COMMAND, "train", "endless.toml", "--out", out], stderr=subprocess.PIPE)
    for _ in range(600):
        if Path(out, "log.jsonl").exists() and b'"update": 3' in Path(out, "log.jsonl").read_bytes():
            return running
        time.sleep(0.1)
    running.kill()
    raise AssertionError(running.communicate()[1])


def test_a_polite_stop_saves_and_ends_well(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    running = start_training("out")
    wanted = allocator.environment_without_caches(os.environ)
    if wanted is not None:  # glibc: the program has started once more, in its own place
        environment = Path(f"/proc/{running.pid}/environ").read_bytes().split(b"\0")
        assert f"GLIBC_TUNABLES={wanted['GLIBC_TUNABLES']}".encode() in environment
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate()
    assert running.returncode == 0
    assert b"asked to stop after update" in said and b"the same command goes on" in said
    assert regard("translate", "out", stdin=b"12\n").returncode == 0


def test_control_c_saves_and_ends_with_130(place: Path) -> None:
    running = start_training("out")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130
    assert b"which is saved; the same command goes on" in said and b"Traceback" not in said
    assert (place / "out" / "checkpoints" / "latest").is_file()


def test_a_time_limit_ends_well_and_says_how_to_go_on(place: Path) -> None:
    Path("recipe.toml").write_text(RECIPE.replace("updates = 3\n", ""))
    done = regard("train", "recipe.toml", "--minutes", "0.005", "--out", "out")
    assert done.returncode == 0
    assert b"time is up" in done.stderr and b"with more minutes goes on" in done.stderr
    assert done.stdout == b""


def test_a_reader_that_leaves_is_no_noise(place: Path) -> None:
    Path("many").write_text("12\n" * 5000)
    running = subprocess.Popen(
        [*COMMAND, "translate", "model", "-i", "many", "-b", "1", "--max-len", "1", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None and running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
@pytest.mark.parametrize("where", ["stdout", "file"])
def test_a_full_disk_is_told(place: Path, where: str) -> None:
    with Path("/dev/full").open("wb") as full:
        extra = ["-o", "/dev/full"] if where == "file" else []
        done = subprocess.run(
            [*COMMAND, "translate", "model", "-q", *extra],
            input=b"12\n",
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr and b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_the_locale_changes_nothing(place: Path) -> None:
    text = "السلام 👍🏽 12\n"
    for name in ("train.src", "train.tgt"):
        Path(name).write_text("".join(f"{number} {text}" for number in range(29)), encoding="utf-8")
    bare = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    told = []
    for name, environment in (("plain", {**os.environ}), ("bare", bare)):
        pairs = ["-s", "train.src", "-t", "train.tgt"]
        trained = regard("train", "recipe.toml", *pairs, "--out", name, "-q", env=environment)
        assert trained.returncode == 0, trained.stderr
        files = {path.name: path.read_bytes() for path in Path(name, "model").iterdir() if path.name != "README.md"}
        translated = regard("translate", name, "--jsonl", stdin=text.encode(), env=environment)
        scored = regard("score", name, *pairs, env=environment)
        told.append((files, translated.stdout, scored.stdout))
    assert told[0] == told[1]
    assert text.strip() in told[0][1].decode()
    assert "م" in told[1][0]["target.vocabulary.json"].decode()


def test_an_answer_comes_while_the_input_waits(place: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "translate", "model"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert running.stdin is not None and running.stdout is not None
    for line in (b"12\n", b"345\n"):
        running.stdin.write(line)
        running.stdin.flush()
        assert running.stdout.readline().endswith(b"\n")  # the pipe is still open: it did not wait for its end
    running.communicate()
    assert running.returncode == 0


TERMINATED = b"regard: ended by SIGTERM; results that were finished are written\n"


@pytest.mark.parametrize("output", [[], ["-o", "out"]])
def test_a_filter_that_is_told_to_end_has_written_what_is_finished(place: Path, output: list[str]) -> None:
    running = subprocess.Popen(
        [*COMMAND, "translate", "model", *output], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(b"12\n345\n")
    running.stdin.flush()
    written = b""
    if output:
        while written.count(b"\n") < 2:
            time.sleep(0.05)
            written = Path("out").read_bytes() if Path("out").exists() else b""
    else:
        written = running.stdout.readline() + running.stdout.readline()
    running.send_signal(signal.SIGTERM)  # it waits for a third line
    _, said = running.communicate()
    assert running.returncode == 130 and said.endswith(TERMINATED)
    if output:
        assert Path("out").read_bytes() == written


@pytest.mark.parametrize(("sign", "words"), [(signal.SIGINT, b""), (signal.SIGTERM, TERMINATED)])
def test_several_processes_end_together_and_quietly(place: Path, sign: signal.Signals, words: bytes) -> None:
    running = subprocess.Popen(
        [*COMMAND, "translate", "model", "--workers", "2", "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # where tests run in the background a shell has told them to ignore Ctrl-C, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(b"12\n")
    running.stdin.flush()
    assert running.stdout.readline().endswith(b"\n")
    os.killpg(running.pid, sign)  # as a terminal does: all of the group are told
    _, said = running.communicate()
    assert (running.returncode, said) == (130, words)
    for _ in range(100):
        try:
            os.killpg(running.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("a worker is left")


def test_a_second_training_in_one_folder_is_refused(place: Path) -> None:
    running = start_training("out")
    try:
        done = regard("train", "endless.toml", "--out", "out")
        assert done.returncode == 2 and b"in use by another process" in done.stderr
    finally:
        running.kill()
        running.communicate()
    # killed without a word, and the folder is free again
    assert regard("train", "recipe.toml", "--out", "other").returncode == 0


def test_closed_standard_streams_are_no_fault(place: Path) -> None:
    closed = "exec 0<&- 1>&- 2>&-; exec " + " ".join(COMMAND)
    assert subprocess.run(["sh", "-c", f"{closed} --help"], check=False).returncode in (0, 1)
    assert subprocess.run(["sh", "-c", f"{closed} translate model"], check=False).returncode in (1, 2)


def test_where_no_program_may_be_started_the_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def refuse(program: str, words: list[str], environment: dict[str, str]) -> None:
        asked.append(words)
        raise PermissionError

    monkeypatch.setattr(machine.os, "execve", refuse)
    monkeypatch.setattr(allocator, "environment_without_caches", dict)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setattr(sys, "argv", ["elsewhere/regard", "train"])
    machine.start_again_with_room()
    assert asked == [[sys.executable, *sys.orig_argv[1:]]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train"], True),
        (["--debug", "train", "recipe.toml"], True),
        (["demo"], True),
        (["translate", "train"], False),
        (["--version"], False),
        ([], False),
    ],
)
def test_only_a_training_is_started_again(words: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(machine, "start_again_with_room", lambda: begun.append(True))
    monkeypatch.setattr(cli, "run", lambda words: 0)
    monkeypatch.setattr(cli.gc, "freeze", lambda: None)
    monkeypatch.setattr(cli.signal, "getsignal", lambda number: None)  # somebody listens: it is left alone
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    with pytest.raises(SystemExit):
        cli.main()
    assert begun == [True] * expected


def test_a_script_that_calls_the_command_line_is_not_started_again(place: Path) -> None:
    script = "import os\nos.environ.pop('GLIBC_TUNABLES', None)\nprint('here')\nfrom regard.cli import main\nmain()\n"
    words = ["train", "recipe.toml", "--out", "from-a-script", "-q"]
    piped = subprocess.run([sys.executable, "-", *words], input=script, capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "here\n", "")
    assert (Path("from-a-script") / "model").is_dir()
