"""Does Regard work on this machine? Versions, devices, and a training that must learn to copy."""

from __future__ import annotations

import os
import platform
import random
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

import torch

from regard import __version__
from regard.data import PairBatch, collate
from regard.device import best_device
from regard.errors import TrainingError
from regard.generation import SearchOptions, generate_all
from regard.models import Dropout, TransformerSpec, build
from regard.plural import plural
from regard.protocols import EOS, SPECIALS
from regard.training import Seq2SeqObjective, TrainingOptions, train

_SYMBOLS, _LONGEST, _ROWS = 10, 6, 128
_UPDATES, _MOST_SECONDS, _NEEDED = 150, 60, 0.9  # the updates take some ten seconds on two quiet cores


def facts() -> Mapping[str, str]:
    """Return what a report of a fault should say about the machine."""
    packages = ("torch", "numpy", "safetensors", "sentencepiece", "sacrebleu", "pydantic", "typer", "rich")
    return {
        "regard": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{name: _version(name) for name in packages},
        "processor": f"{plural(os.cpu_count() or 1, 'core')}, torch uses {torch.get_num_threads()}",
        "device": str(best_device("auto")),
    }


def examine(device: str = "auto") -> str:
    """Train a tiny model, for ten seconds or so, to copy strings of symbols, and say how well it does on new ones.

    Raises:
        TrainingError: it has not learned.
    """
    vocabulary = len(SPECIALS) + _SYMBOLS
    torch.manual_seed(1)
    spec = TransformerSpec(
        vocabulary,
        vocabulary,
        d_model=64,
        num_heads=2,
        d_ff=128,
        encoder_layers=1,
        decoder_layers=1,
        max_len=32,
        dropout=Dropout(0.0, 0.0, 0.0, 0.0),
    )
    model = build(spec).to(best_device(device))
    options = TrainingOptions(
        updates=_UPDATES, minutes=_MOST_SECONDS / 60, learning_rate=5e-3, warmup=50, label_smoothing=0.0
    )
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(Seq2SeqObjective(model), _Copies(), options, folder=folder)
    model.eval()
    strings = [_string(random.Random(f"new {number}")) for number in range(200)]
    search = SearchOptions(beam=1, max_length=2 * _LONGEST)
    found = generate_all(model, [[*string, EOS] for string in strings], search, device=best_device(device))
    right = sum(list(best.ids) == string for (best, *_), string in zip(found, strings, strict=True)) / len(strings)
    said = f"{outcome.update} updates in {outcome.seconds:.0f} s, {right:.0%} of new strings copied"
    if right < _NEEDED:
        raise TrainingError(
            f"a model that should learn to copy did not: {said}; the machine may be very busy, try again"
        )
    return said


class _Copies:
    """Endless batches of strings whose target is the source."""

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[PairBatch]:
        draw = random.Random(epoch)
        for _ in range(1000):
            strings = [_string(draw) for _ in range(_ROWS)]
            yield collate([(string, string, row) for row, string in enumerate(strings)])


def _string(draw: random.Random) -> list[int]:
    length = draw.randint(1, _LONGEST)
    return [draw.randrange(len(SPECIALS), len(SPECIALS) + _SYMBOLS) for _ in range(length)]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
