"""Several processes for a test: copies of this one, which meet through torch's environment variables."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from regard.training.distributed import Ranks, joined

Work = Callable[[Ranks], Any]


def together(folder: Path, world: int, work: Work, *, limit: float = 30.0) -> list[Any]:
    """Call ``work`` in ``world`` processes and return what each gave, or the words of its error, or its signal."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # as torch's launcher keeps one
    children = [_child(folder, rank, world, store.port, work, limit) for rank in range(world)]
    return [_result(folder, rank, child) for rank, child in enumerate(children)]


def _child(folder: Path, rank: int, world: int, port: int, work: Work, limit: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    environment = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in environment.items()})
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    torch.set_num_threads(1)
    try:
        with joined(torch.device("cpu"), limit=timedelta(seconds=limit)) as ranks:
            found = work(ranks)
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    (folder / f"result{rank}").write_text(json.dumps(found))
    os._exit(0)


def _result(folder: Path, rank: int, child: int) -> Any:
    for _ in range(1200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            path = folder / f"result{rank}"
            return json.loads(path.read_text()) if path.exists() else signal.Signals(os.WTERMSIG(status)).name
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung for a minute"
