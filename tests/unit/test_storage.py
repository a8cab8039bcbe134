"""What was written whole stays whole: every system call made to fail or to be the last, every bit flipped."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import sys
from pathlib import Path

import pytest

from regard import storage
from regard.errors import DamagedError, FolderError, RegardError
from regard.storage import open_sealed, recover, remove, reseal, seal, write_bytes

OLD = {"a.bin": b"old a" * 7, "b.json": b'{"old": 1}'}
NEW = {"a.bin": b"new a" * 11, "b.json": b'{"new": 22}', "c.bin": b""}
CALLS = {"open", "write", "fsync", "read", "close", "replace", "makedirs", "unlink", "rmdir", "listdir", "fstat"}


class Died(BaseException):
    """The process ended here."""


class FaultyOs:
    """The module ``os`` whose calls fail from number ``first`` on, once or for ever, or end the process there.

    When the process ends, a file that was being written has half of its bytes, and so has each one not synced. Syncing
    itself is only noted, being slow.
    """

    def __init__(self, first: int = 0, *, error: int | None = 0, forever: bool = False) -> None:
        self.first, self.error, self.forever = first, error, forever
        self.calls, self.opened, self.unsynced = 0, {}, {}

    def __getattr__(self, name):
        real = getattr(os, name)
        return (lambda *args, **kwargs: self._call(name, real, *args, **kwargs)) if name in CALLS else real

    def _call(self, name, real, *args, **kwargs):
        self.calls += 1
        strike = self.calls == self.first or (self.forever and self.calls > self.first)
        if strike and self.error is None:
            for handle, path in self.unsynced.items():
                real_path = Path(path)
                if real_path.exists():
                    os.truncate(real_path, real_path.stat().st_size // 2)
                self.opened.pop(handle, None)
            raise Died
        if strike:
            if name == "close":
                os.close(*args)
            raise OSError(self.error, os.strerror(self.error))
        if name == "write" and self.error is None and self.calls + 1 == self.first:
            return real(args[0], args[1][: len(args[1]) // 2])
        result = None if name == "fsync" else real(*args, **kwargs)
        if name == "open":
            self.opened[result] = args[0]
        elif name == "write":
            self.unsynced[args[0]] = self.opened[args[0]]
        elif name == "fsync":
            self.unsynced.pop(args[0], None)
        elif name == "replace":
            self.unsynced = {
                handle: str(path).replace(str(args[0]), str(args[1])) for handle, path in self.unsynced.items()
            }
        return result


@pytest.fixture(autouse=True)
def fast_os(monkeypatch):
    monkeypatch.setattr(storage, "os", FaultyOs())


def content(folder: Path) -> dict[str, bytes]:
    sealed = open_sealed(folder)
    return {name: sealed.read(name) for name in sealed.names}


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".tmp-" in path.name]


def struck(monkeypatch, action, **how) -> bool:
    """Run ``action`` with the n-th call failing; return whether it came that far."""
    with monkeypatch.context() as patch:
        faulty = FaultyOs(**how)
        patch.setattr(storage, "os", faulty)
        try:
            action()
        except Died:
            return True
        except RegardError as error:
            assert how["error"] is not None
            assert "model" in str(error) or str(error).startswith("cannot sync"), error
            return True
        assert faulty.calls < how["first"], "a failure went unnoticed"
    return False


def every_call(monkeypatch, action, prepare, check, **how) -> int:
    """Let the first, second, ... call of ``action`` fail until it ends untouched; return how many there were."""
    for n in itertools.count(1):
        prepare()
        if not struck(monkeypatch, action, first=n, **how):
            return n - 1
        check()
    raise AssertionError


def test_write_bytes_replaces(tmp_path):
    path = tmp_path / "file.txt"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert entries(tmp_path) == ["file.txt"]


def test_seal_and_read(tmp_path):
    seal(tmp_path / "model", OLD, loose={"README.md": b"hello"})
    sealed = open_sealed(tmp_path / "model")
    assert sorted(sealed.names) == sorted(OLD)
    assert content(tmp_path / "model") == OLD
    assert sealed.path("a.bin").read_bytes() == OLD["a.bin"]
    (tmp_path / "model" / "README.md").write_text("changed")
    sealed.check()
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    assert manifest["format_version"] == 1
    assert manifest["files"]["a.bin"]["bytes"] == 35


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name, files in (("x", OLD), ("y", dict(reversed(OLD.items())))):
        seal(tmp_path / name, files)
    assert (tmp_path / "x/manifest.json").read_bytes() == (tmp_path / "y/manifest.json").read_bytes()


def test_seal_replaces_the_whole_folder(tmp_path):
    seal(tmp_path / "model", NEW)
    seal(tmp_path / "model", OLD)
    assert content(tmp_path / "model") == OLD
    assert entries(tmp_path / "model") == ["a.bin", "b.json", "manifest.json"]
    assert entries(tmp_path) == ["model"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a/b", "a\\b", "a\0", "manifest.json", "x.tmp-part"])
def test_only_plain_names_are_sealed(tmp_path, name):
    with pytest.raises(RegardError, match="cannot be the name"):
        seal(tmp_path / "model", {name: b""})
    assert entries(tmp_path) == []


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EINTR])
def test_every_call_of_seal_fails(tmp_path, monkeypatch, error, forever):
    folder = tmp_path / "model"

    def check():
        assert content(folder) in (OLD, NEW)
        recover(tmp_path)
        assert content(folder) in (OLD, NEW)
        assert leftovers(tmp_path) == []

    calls = every_call(
        monkeypatch, lambda: seal(folder, NEW), lambda: seal(folder, OLD), check, error=error, forever=forever
    )
    assert calls > 20
    assert content(folder) == NEW


def test_the_message_of_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "os", FaultyOs(4, error=errno.ENOSPC))
    with pytest.raises(RegardError, match=r"cannot write .*model.tmp-part.a.bin: the disk is full"):
        seal(tmp_path / "model", OLD)


@pytest.mark.parametrize("before", [OLD, None])
def test_the_process_dies_at_every_call_of_seal(tmp_path, monkeypatch, before):
    folder = tmp_path / "model"

    def prepare():
        if before is None:
            remove(folder) if folder.exists() else recover(tmp_path)
        else:
            seal(folder, before)

    def check():
        for _ in range(2):
            if before is None and not folder.exists():
                with pytest.raises(FolderError):
                    open_sealed(folder)
            else:
                assert content(folder) in (before, NEW)
            recover(tmp_path)
        assert leftovers(tmp_path) == []

    every_call(monkeypatch, lambda: seal(folder, NEW), prepare, check, error=None)
    assert content(folder) == NEW


@pytest.mark.parametrize("error", [errno.EIO, None])
def test_every_call_of_write_bytes_fails(tmp_path, monkeypatch, error):
    path = tmp_path / "model.txt"

    def check():
        assert path.read_bytes() in (b"old", b"new and longer")
        recover(tmp_path)
        assert entries(tmp_path) == ["model.txt"]

    action, prepare = (lambda: write_bytes(path, b"new and longer")), (lambda: write_bytes(path, b"old"))
    every_call(monkeypatch, action, prepare, check, error=error)
    assert path.read_bytes() == b"new and longer"


@pytest.mark.parametrize("error", [errno.EIO, None])
def test_every_call_of_remove_fails(tmp_path, monkeypatch, error):
    folder = tmp_path / "model"

    def check():
        recover(tmp_path)
        assert not folder.exists() or content(folder) == OLD
        assert leftovers(tmp_path) == []

    every_call(monkeypatch, lambda: remove(folder), lambda: seal(folder, OLD), check, error=error)
    assert entries(tmp_path) == []


def test_every_call_of_reading_fails(tmp_path, monkeypatch):
    seal(tmp_path / "model", OLD)
    calls = every_call(
        monkeypatch, lambda: open_sealed(tmp_path / "model").check(), lambda: None, lambda: None, error=errno.EIO
    )
    assert calls > 10


def test_every_flipped_bit_is_noticed(tmp_path):
    folder = tmp_path / "model"
    seal(folder, {"a.bin": OLD["a.bin"] * 5})
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    places = [(path, bit) for path, data in files.items() for bit in range(8 * len(data))]
    for path, bit in random.Random(3).sample(places, 1000):
        byte = files[path][bit // 8]
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), bytes([byte ^ 1 << bit % 8]), bit // 8)
            with pytest.raises(DamagedError, match=path.name):
                open_sealed(folder).check()
            os.pwrite(file.fileno(), bytes([byte]), bit // 8)
    open_sealed(folder).check()


def test_every_truncation_is_noticed(tmp_path):
    folder = tmp_path / "model"
    seal(folder, OLD)
    originals = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    places = [(path, length) for path, data in originals.items() for length in range(len(data))]
    for path, length in random.Random(4).sample(places, 64):
        path.write_bytes(originals[path][:length])
        with pytest.raises(DamagedError, match=path.name):
            open_sealed(folder).check()
        path.write_bytes(originals[path])


def test_missing_and_swapped_files(tmp_path):
    folder = tmp_path / "model"
    seal(folder, {"a.bin": b"aa", "b.bin": b"bb"})
    (folder / "a.bin").write_bytes(b"bb")
    with pytest.raises(DamagedError, match=r"a\.bin is damaged.*regard reseal"):
        open_sealed(folder).check()
    (folder / "a.bin").unlink()
    with pytest.raises(DamagedError, match=r"a\.bin is missing"):
        open_sealed(folder).check()
    (folder / "manifest.json").unlink()
    with pytest.raises(DamagedError, match=r"manifest\.json is missing"):
        open_sealed(folder)
    with pytest.raises(FolderError, match="there is no folder"):
        open_sealed(tmp_path / "elsewhere")


def hostile(folder: Path, entry: object, *, name: str = "a.bin", version: object = 1) -> bytes:
    """A manifest whose digest is right and whose content is not."""
    rest = {"format_version": version, "files": {name: entry}}
    digest = storage.hashlib.sha256(storage._canonical(rest)).hexdigest()
    return json.dumps({**rest, "digest": digest}).encode()


GOOD = {"sha256": storage.hashlib.sha256(b"secret").hexdigest(), "bytes": 6}


@pytest.mark.parametrize(
    "name", ["../secret", "..", "{outside}", "x/../../secret", "a\\b", "", "a\0b", "manifest.json"]
)
def test_a_manifest_cannot_point_outside(tmp_path, monkeypatch, name):
    folder, outside = tmp_path / "model", tmp_path / "secret"
    outside.write_bytes(b"secret")
    seal(folder, OLD)
    (folder / "manifest.json").write_bytes(hostile(folder, GOOD, name=name.format(outside=outside)))
    faulty = FaultyOs(0, error=errno.EIO)
    monkeypatch.setattr(storage, "os", faulty)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        open_sealed(folder).check()
    assert {str(path) for path in faulty.opened.values()} == {str(folder / "manifest.json")}


@pytest.mark.parametrize(
    "entry",
    [
        *({"sha256": "x", "bytes": size} for size in (10**18, -1, "6", 1.5, float("nan"), None)),
        {"sha256": 3, "bytes": 6},
        {"bytes": 6},
        [],
    ],
)
def test_hostile_entries(tmp_path, entry):
    seal(tmp_path / "model", OLD)
    (tmp_path / "model/manifest.json").write_bytes(hostile(tmp_path / "model", entry))
    with pytest.raises(DamagedError, match=r"a\.bin"):
        open_sealed(tmp_path / "model").check()


def test_sizes_are_compared_before_memory_is_taken(tmp_path):
    seal(tmp_path / "model", OLD)
    for name in ("a.bin", "manifest.json"):
        os.truncate(tmp_path / "model" / name, 1 << 40)  # a hole: it takes no room
        with pytest.raises(DamagedError, match=rf"{name} is damaged: it has 1,099,511,627,776 bytes"):
            open_sealed(tmp_path / "model").check()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{", b'{"files": []}', b"\xff{}"),
        *(b"[" * 100_000, b'{"a":' * 100_000, b" " * (1 << 20) + b"{}"),
        b'{"format_version": ' + b"9" * 5000 + b', "files": {}}',
    ],
)
def test_hostile_manifests(tmp_path, data):
    seal(tmp_path / "model", OLD)
    (tmp_path / "model/manifest.json").write_bytes(data)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        open_sealed(tmp_path / "model")


def test_a_newer_format_is_refused(tmp_path):
    seal(tmp_path / "model", OLD)
    (tmp_path / "model/manifest.json").write_bytes(hostile(tmp_path / "model", GOOD, version=2))
    with pytest.raises(DamagedError, match="format_version is 2"):
        open_sealed(tmp_path / "model")


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made differently there")
def test_links_and_pipes_are_not_followed(tmp_path):
    folder = tmp_path / "model"
    seal(folder, {"a.bin": b"secret"})
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "a.bin").unlink()
    (folder / "a.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(DamagedError, match=r"a\.bin is damaged: it is a link"):
        open_sealed(folder).check()
    (folder / "a.bin").unlink()
    os.mkfifo(folder / "a.bin")
    with pytest.raises(DamagedError, match=r"a\.bin is damaged: it is not a plain file"):
        open_sealed(folder).check()


def test_reseal_accepts_what_is_there(tmp_path):
    folder = tmp_path / "model"
    seal(folder, OLD)
    (folder / "b.json").write_bytes(b"{}")
    reseal(folder)
    assert content(folder) == OLD | {"b.json": b"{}"}


def test_remove_and_recover_leave_other_files_alone(tmp_path):
    seal(tmp_path / "model", OLD)
    (tmp_path / "model.old").mkdir()
    recover(tmp_path)
    remove(tmp_path / "model")
    assert entries(tmp_path) == ["model.old"]
    recover(tmp_path / "nowhere")
