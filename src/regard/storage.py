"""What must not be lost: bytes that are written whole or not at all, and folders that notice damage.

A *sealed* folder holds flat files and ``manifest.json``: ``format_version``, a SHA-256 and a size per sealed file, and
``digest``, the SHA-256 of the canonical JSON of the rest. Files beside them (a README, a log) are free.

Everything is made under another name in the same folder, synced, and renamed into place::

    model.tmp-part     being written or being deleted: never counts, removed by `recover`
    model.tmp-old      the version before, while the new one takes its place: counts when ``model`` is missing

so that at every instant one whole version can be opened, whatever dies.
"""

# Every system call is spelt os.something, so that a test can make the n-th one fail.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH110, PTH112, PTH114, PTH208

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from regard.errors import DamagedError, FolderError, RegardError
from regard.plural import plural

FORMAT_VERSION = 1
MANIFEST = "manifest.json"

_PART = ".tmp-part"
_OLD = ".tmp-old"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MANIFEST_LIMIT = 1 << 20  # bytes; a hostile manifest is refused before it is read
_PIECE = 1 << 30  # bytes; Linux reads and writes at most 2 GiB at once


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that after a crash the file is the old one or the new one, never a mixture.

    Raises:
        RegardError: the system refused; the file named is the one it was about, and ``path`` is as it was before.
    """
    path = Path(path)
    part = _beside(path, _PART)
    _clear(part)
    try:
        _create(part, data)
        _rename(part, path)
    except RegardError:
        _clear(part, strict=False)
        raise
    _sync_folder(path.parent)


def seal(folder: str | Path, files: Mapping[str, bytes], *, loose: Mapping[str, bytes] | None = None) -> None:
    """Make ``folder`` hold exactly these files and their manifest; it appears whole or not at all.

    Args:
        folder: where; a folder already there is replaced, and stays loadable until the new one is complete.
        files: file name -> content, named in the manifest.
        loose: the same, but free to be changed later.

    Raises:
        RegardError: the system refused, or a file name is not a plain one; the version before still opens.
    """
    folder = Path(folder)
    loose = loose or {}
    for name in [*files, *loose]:
        if not _is_plain(name):
            raise RegardError(f"{name!r} cannot be the name of a file in {folder}: letters, digits, '.', '_', '-' only")
    _settle(folder)
    part, old = _beside(folder, _PART), _beside(folder, _OLD)
    try:
        _make_folder(part)
        for name, data in {**loose, **files}.items():
            _create(part / name, data)
        _create(part / MANIFEST, _manifest_bytes({name: _record(data) for name, data in files.items()}))
        _sync_folder(part)
        if os.path.exists(folder):
            _rename(folder, old)
        _rename(part, folder)
    except RegardError:
        _settle(folder, strict=False)
        raise
    _sync_folder(folder.parent)
    _clear(old)


@dataclass(frozen=True)
class Sealed:
    """An opened sealed folder.

    Attributes:
        folder: where the files are.
        records: file name -> (SHA-256, size in bytes), as the manifest has it.
    """

    folder: Path
    records: Mapping[str, tuple[str, int]]

    @property
    def names(self) -> tuple[str, ...]:
        """The sealed files."""
        return tuple(self.records)

    def read(self, name: str) -> bytes:
        """Return the content of a sealed file.

        Raises:
            DamagedError: it is missing, not a plain file, or not what was sealed.
        """
        path = self.folder / name
        if name not in self.records:
            raise DamagedError(f"{path} is not among the sealed files ({', '.join(self.names)})")
        digest, size = self.records[name]
        data = _read(path, expect_bytes=size)
        if hashlib.sha256(data).hexdigest() != digest:
            _refuse(path, "its content differs from the manifest (SHA-256)")
        return data

    def path(self, name: str) -> Path:
        """Return the path of a sealed file, after checking its content as `read` does."""
        self.read(name)
        return self.folder / name

    def check(self) -> None:
        """Read every file once; DamagedError names the first that is not what was sealed."""
        for name in self.records:
            self.read(name)


def open_sealed(folder: str | Path) -> Sealed:
    """Open a sealed folder by its manifest; files are checked when read.

    Raises:
        FolderError: there is no such folder.
        DamagedError: the manifest is missing, damaged or hostile.
    """
    folder = Path(folder)
    if not os.path.isdir(folder):
        old = _beside(folder, _OLD)
        if not os.path.isdir(old):
            raise FolderError(f"there is no folder {folder}")
        folder = old  # a replacement died between its two renames
    return Sealed(folder, _read_manifest(folder / MANIFEST, check_digest=True))


def reseal(folder: str | Path) -> None:
    """Accept the present content of the files that the manifest names, by writing a new manifest."""
    folder = Path(folder)
    names = _read_manifest(folder / MANIFEST, check_digest=False)
    write_bytes(folder / MANIFEST, _manifest_bytes({name: _record(_read(folder / name)) for name in names}))


def remove(folder: str | Path) -> None:
    """Delete a folder; if that dies half-way, what is left does not count and `recover` removes it."""
    part = _beside(Path(folder), _PART)
    _clear(part)
    _rename(Path(folder), part)
    _clear(part)


def recover(parent: str | Path) -> None:
    """Put right whatever an interrupted `write_bytes`, `seal` or `remove` left directly inside ``parent``."""
    parent = Path(parent)
    for entry in _entries(parent):
        for suffix in (_PART, _OLD):
            if entry.endswith(suffix):
                _settle(parent / entry.removesuffix(suffix))


# --- manifest -------------------------------------------------------------------------------------------------------


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _record(data: bytes) -> tuple[str, int]:
    return hashlib.sha256(data).hexdigest(), len(data)


def _manifest_bytes(records: Mapping[str, tuple[str, int]]) -> bytes:
    rest: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in sorted(records.items())},
    }
    return json.dumps({**rest, "digest": hashlib.sha256(_canonical(rest)).hexdigest()}, indent=1).encode() + b"\n"


def _read_manifest(path: Path, *, check_digest: bool) -> dict[str, tuple[str, int]]:
    data = _read(path, at_most_bytes=_MANIFEST_LIMIT)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):  # RecursionError: hostile nesting
        _refuse(path, "it is not JSON")
    if not isinstance(content, dict) or not isinstance(content.get("files"), dict):
        _refuse(path, "it has no table of files")
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        _refuse(path, f"its format_version is {version!r}, and this Regard reads {FORMAT_VERSION}")
    digest = content.pop("digest", None)
    if check_digest and digest != hashlib.sha256(_canonical(content)).hexdigest():
        _refuse(path, "its content differs from its own digest")
    records: dict[str, tuple[str, int]] = {}
    for name, record in content["files"].items():
        match record:
            case {"sha256": str(sha256), "bytes": int(size)} if _is_plain(name):
                records[name] = sha256, size
            case _:
                _refuse(path, f"its entry for {name[:80]!r} is not a plain file name with a SHA-256 and a size")
    return records


def _is_plain(name: str) -> bool:
    """Tell whether ``name`` stays inside its folder on every system, and cannot be taken for a leftover."""
    return bool(_PLAIN_NAME.fullmatch(name)) and name != MANIFEST and not name.endswith((_PART, _OLD))


def _refuse(path: Path, why: str) -> NoReturn:
    raise DamagedError(
        f"{path} is damaged: {why}. Restore it from a copy, or, if you changed it on purpose, accept it with "
        f"`regard reseal {path.parent}`"
    )


# --- the system -----------------------------------------------------------------------------------------------------


def _fail(verb: str, path: Path, error: OSError) -> NoReturn:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if verb == "read":
            raise DamagedError(f"{path} is missing") from error
        case errno.ELOOP:
            _refuse(path, "it is a link, and sealed files are plain files")
        case errno.ENOSPC | errno.EDQUOT:
            reason = "the disk is full"
        case _:
            reason = error.strerror or str(error)
    raise RegardError(f"cannot {verb} {path}: {reason}") from error


def _beside(path: Path, suffix: str) -> Path:
    path = path.absolute()  # `.` has no name of its own
    return path.with_name(path.name + suffix)


@contextmanager
def _opened(verb: str, path: Path, flags: int) -> Iterator[int]:
    """Give the handle of an opened file; whatever the system refuses meanwhile is told with the name of the file."""
    try:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
        try:
            yield handle
        finally:
            os.close(handle)
    except OSError as error:
        _fail(verb, path, error)


def _create(path: Path, data: bytes) -> None:
    """Make a new file and wait until its content is on the disk."""
    with _opened("write", path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest[:_PIECE]) :]
        os.fsync(handle)


def _read(path: Path, *, expect_bytes: int | None = None, at_most_bytes: int | None = None) -> bytes:
    """Read a plain file: links are not followed, pipes not waited for, and sizes compared before memory is taken."""
    with _opened("read", path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)) as handle:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            _refuse(path, "it is not a plain file")
        if expect_bytes is not None and facts.st_size != expect_bytes:
            _refuse(path, f"it has {plural(facts.st_size, 'byte')} and the manifest says {expect_bytes:,}")
        if at_most_bytes is not None and facts.st_size > at_most_bytes:
            _refuse(path, f"it has {plural(facts.st_size, 'byte')}, more than the {at_most_bytes:,} allowed")
        pieces = []
        while piece := os.read(handle, min(_PIECE, facts.st_size + 1)):
            pieces.append(piece)
        return b"".join(pieces)


def _make_folder(path: Path) -> None:
    try:
        os.makedirs(path)
    except OSError as error:
        _fail("create", path, error)


def _rename(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        _fail("rename", source, error)


def _sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; Windows does this by itself and cannot open a folder."""
    if os.name != "nt":
        with _opened("sync", path, os.O_RDONLY) as handle:
            os.fsync(handle)


def _entries(path: Path) -> Iterable[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return ()
    except OSError as error:
        _fail("list", path, error)


def _clear(path: Path, *, strict: bool = True) -> None:
    """Remove a file or a folder of files, if it is there."""
    with suppress(*(() if strict else (RegardError,))):
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                for entry in os.listdir(path):
                    _clear(path / entry)
                os.rmdir(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _fail("remove", path, error)


def _settle(path: Path, *, strict: bool = True) -> None:
    """Leave only ``path``: the version before goes back if its place is empty, everything unfinished goes."""
    with suppress(*(() if strict else (RegardError,))):
        part, old = _beside(path, _PART), _beside(path, _OLD)
        if os.path.exists(old) and not os.path.exists(path):
            _rename(old, path)
        _clear(old)
        _clear(part)
