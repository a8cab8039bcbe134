"""How does training start on a large corpus, and in how much memory? Generated lines, the whole command, twice.

The first run reads, learns a vocabulary, encodes on every core and makes three updates; the second goes on for two
more. Printed: seconds until the first update of each, and the most memory that the process, and with it its children,
held at once beside pages mapped from files (RssAnon of Linux), which the system takes back as it likes.

    python benchmarks/corpus.py --lines 10000000

Ten million pairs need 6 GB of disk and, on two cores, half an hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

RECIPE = """
[data]
source = "x.src"
target = "x.tgt"
[tokenizer]
vocab_size = 8000
max_training_lines = 200000
[model]
preset = "tiny"
[training]
updates = 3
validate_every = 1000
save_every = 1000
max_tokens = 4096
"""


def write_text(folder: Path, lines: int, seed: int = 1) -> None:
    """Write pairs of about twelve words each, drawn by Zipf's law from 50,000."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(draw.choice(letters, length)) for length in draw.integers(2, 10, 50_000)])
    shares = 1 / np.arange(1, len(words) + 1)
    for side in ("src", "tgt"):
        with (folder / f"x.{side}").open("w", encoding="utf-8") as file:
            for start in range(0, lines, 100_000):
                count = min(100_000, lines - start)
                lengths = draw.integers(4, 21, count)
                drawn = words[draw.choice(len(words), int(lengths.sum()), p=shares / shares.sum())]
                ends = np.cumsum(lengths)
                file.writelines(
                    f"{' '.join(drawn[end - length : end])}\n" for end, length in zip(ends, lengths, strict=True)
                )


def processes(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError):  # the thread has ended
            found += [below for child in task.read_text().split() for below in processes(int(child))]
    return found


def memory(pid: int) -> int:
    """Return the kilobytes that a process holds and no file stands for."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.split("\n") if line.startswith("RssAnon")), 0)


def train(folder: Path, updates: int) -> tuple[float, int, int]:
    """Run the command; return seconds until its first update, and the most kilobytes of the process and of all."""
    log = folder / "run" / "log.jsonl"
    before = updates_in(log)
    command = [sys.executable, "-m", "regard", "train", "recipe.toml", "--out", "run", "--updates", str(updates), "-q"]
    began, first, own, total = time.monotonic(), 0.0, 0, 0
    running = subprocess.Popen(command, cwd=folder)
    while running.poll() is None:
        here = [memory(pid) for pid in processes(running.pid)]
        own, total = max(own, here[0]), max(total, sum(here))
        if not first and updates_in(log) > before:
            first = time.monotonic() - began
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(running.returncode)
    return first or time.monotonic() - began, own, total


def updates_in(log: Path) -> int:
    """Return the number of the last update in a log."""
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return max((fact["update"] for fact in map(json.loads, lines) if fact["event"] == "update"), default=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        write_text(folder, options.lines)
        (folder / "recipe.toml").write_text(RECIPE)
        for name, updates in (("first", 3), ("second", 5)):
            seconds, own, total = train(folder, updates)
            facts = {"start": name, "lines": options.lines, "seconds": round(seconds, 1)}
            print(json.dumps(facts | {"process_mb": own // 1024, "all_mb": total // 1024}), flush=True)


if __name__ == "__main__":
    main()
