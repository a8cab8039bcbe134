"""Where did a failed update break? It is made again, and every value is looked at on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.device import best_device
from regard.errors import FolderError
from regard.models import build
from regard.plural import plural
from regard.protocols import PAD
from regard.runs.training.folder import RunFolder
from regard.training import Seq2SeqObjective
from regard.training.failure import Reading, read_failure, replay
from regard.training.freeze import freeze
from regard.training.step import Updater

_BEFORE = 12  # values shown before the one that breaks
_SHOWN = 3  # examples of a batch


def replay_failure(path: str | Path, *, device: str = "auto") -> Iterator[str]:
    """Yield what the update was, the values on its way, and the first that is not finite.

    Args:
        path: of ``failed-update-*.safetensors``, in the folder of its run.
        device: where to compute.

    Raises:
        FolderError: there is no such file, or its run is not there.
    """
    failure = read_failure(path)
    folder = RunFolder(Path(path).parent)
    recipe = folder.read_recipe()
    source, target = folder.read_tokenizers()
    model = build(recipe.model.spec(len(source), len(target))).to(best_device(device))
    freeze(model, recipe.training.freeze)
    objective = Seq2SeqObjective(model, recipe.training.label_smoothing).train()
    try:
        readings = replay(objective, failure, Updater(objective, recipe.training).autocast)
    except FolderError as error:
        raise FolderError(f"{path} does not belong to the run in {folder.path}: {error}") from None

    yield f"update {failure.update:,} was not made: {failure.where}"
    for batch in failure.batches:
        rows, tokens = len(batch.example_ids), batch.num_target_tokens
        yield f"a batch of {plural(rows, 'example')} and {plural(tokens, 'target token')}; the first of them:"
        for row in range(min(_SHOWN, rows)):
            sides = ((batch.source, source), (batch.target_out, target))
            texts = [tokenizer.decode([i for i in ids[row].tolist() if i != PAD]) for ids, tokenizer in sides]
            yield f"  {batch.example_ids[row]}: {'  →  '.join(texts)}"
    yield ""
    yield "largest number        where"
    yield from map(_line, readings[-1 - _BEFORE :])
    yield ""
    last = readings[-1]
    if last.not_finite:
        yield f"{last.where} is the first that is not finite, in {last.not_finite:,} of {plural(last.size, 'number')}"
    else:
        yield "here all numbers are finite: another device, library or precision computed it when it failed"


def _line(reading: Reading) -> str:
    largest = f"{reading.largest:.3g}" + (f" ({reading.not_finite:,} not finite)" if reading.not_finite else "")
    return f"{largest:<20}  {reading.where}"
