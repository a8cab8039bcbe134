"""One process holds a folder, until it lets go or dies."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import FolderError, RegardError
from regard.locking import lock


def test_lock_keeps_others_out_until_released(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(FolderError, match="in use"), lock(tmp_path):
        pytest.fail("two holders")
    with lock(tmp_path):
        pass
    with pytest.raises(RegardError, match=r"cannot lock .*nowhere"), lock(tmp_path / "nowhere"):
        pass


def test_what_fails_under_the_lock_is_not_blamed_on_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), lock(tmp_path):
        raise OSError(errno.EIO, "mine")
    with lock(tmp_path):
        pass


def test_lock_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with lock(tmp_path), pytest.raises(FolderError, match="delete"), lock(tmp_path):
        pytest.fail("two holders")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no flock there")
def test_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from regard.locking import lock\n"
        "with lock(sys.argv[1]):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderError, match="in use"), lock(tmp_path):
            pytest.fail("two holders")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with lock(tmp_path):
            pass
