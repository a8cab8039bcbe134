"""From checkpoints to a model folder: the best, or the mean of several; during a run, after it, or years later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from torch import Tensor

from regard import __version__
from regard.bundle import refuse_to_replace, save_bundle
from regard.errors import FolderError, InterruptedRun, RecipeError
from regard.models import build
from regard.runs.recipes.recipe import Recipe, to_tables
from regard.runs.saying import Say
from regard.runs.training.folder import RunFolder
from regard.storage import MANIFEST
from regard.training import Checkpoints, ClassObjective, Seq2SeqObjective, load_tensors
from regard.training.distributed import Ranks

Which = Literal["best", "last"]


def export_as_asked(folder: RunFolder, out: str | Path | None = None) -> str:
    """Write the model folder of a run as its recipe says, and return in words which weights it holds.

    They are the mean of the ``average_count`` best or last checkpoints if ``average`` asks for it, else those of the
    best checkpoint, or of the last where none is kept for being the best.

    Raises:
        FolderError: there is no run, or no checkpoint.
    """
    options = folder.training()
    if options.average == "none":
        return export_in_words(folder, "best" if options.keep_best else "last", 1, out)
    return export_in_words(folder, options.average, options.average_count, out)


def export_in_words(folder: RunFolder, which: Which, count: int, out: str | Path | None = None) -> str:
    """Do `export`, and return in words which weights were taken."""
    updates = export(folder, which, count, out)
    return weights_in_words(updates, moving=folder.training().ema > 0)


@contextmanager
def exported(folder: RunFolder, ranks: Ranks, say: Say) -> Iterator[None]:
    """Write the model folder, and tell so, when the training in the ``with`` block ends, be it by Ctrl-C.

    Raises:
        InterruptedRun: that of the block; or, after a second Ctrl-C, which stops at once, one that tells what is kept.
    """
    stopped = None
    try:
        try:
            yield
        except InterruptedRun as interrupted:
            stopped = interrupted
        with ranks.first():
            if ranks.is_first:
                say(f"{folder.model}: {export_as_asked(folder)}")
    except KeyboardInterrupt:
        raise InterruptedRun(f"stopped at once; {_kept(folder)}") from None
    if stopped:
        raise stopped


def _kept(folder: RunFolder) -> str:
    updates = Checkpoints(folder.checkpoints).updates()
    if not updates:
        return "nothing is saved yet, and the same command begins anew"
    return f"update {updates[-1]:,} is saved, and the same command goes on from there"


def weights_in_words(updates: Sequence[int], *, moving: bool) -> str:
    """Return ``the weights of update 65``, or ``the mean of the weights of updates 14 and 65``."""
    *others, last = [f"{update:,}" for update in updates]
    what = "the moving average of the weights" if moving else "the weights"
    if not others:
        return f"{what} {'at' if moving else 'of'} update {last}"
    return f"the mean of {what} {'at' if moving else 'of'} updates {', '.join(others)} and {last}"


def export(folder: RunFolder, which: Which, count: int, out: str | Path | None = None) -> list[int]:
    """Write the model folder of a run: the mean of the weights of ``count`` checkpoints, or of one.

    Args:
        folder: of the run.
        which: the ``best`` by the validation metric of the recipe (the last, as long as nothing was validated), or
            the ``last``.
        count: how many; fewer if fewer are kept.
        out: where; left out, the folder ``model`` of the run.

    Returns:
        The updates whose weights were taken.

    Raises:
        FolderError: there is no run, or no checkpoint, or ``out`` is neither new nor empty nor the run's own model.
    """
    if count < 1:
        raise RecipeError(f"the number of checkpoints must be at least 1, but is {count}")
    target_folder = Path(out) if out is not None else folder.model
    refuse_to_replace(target_folder)
    if (target_folder / MANIFEST).exists() and target_folder.resolve() != folder.model.resolve():
        raise FolderError(f"{target_folder} holds a model already; remove it, or choose a new folder")
    of_signals = folder.of_signals
    checkpoints = Checkpoints(folder.checkpoints)
    updates = checkpoints.chosen(which, count)
    weights = checkpoints.average(updates)
    if of_signals:
        classifier = folder.read_classifier()
        load_tensors(ClassObjective(classifier.model), weights)
        classifier.save(target_folder)
    else:
        _save_translator(folder, weights, target_folder, updates)
    return updates


def _save_translator(folder: RunFolder, weights: dict[str, Tensor], out: Path, updates: Sequence[int]) -> None:
    recipe = folder.read_recipe()
    source, target = folder.read_tokenizers()
    model = build(recipe.model.spec(len(source), len(target)))
    load_tensors(Seq2SeqObjective(model), weights)
    save_bundle(
        out,
        model=model,
        source_tokenizer=source,
        target_tokenizer=target,
        recipe=to_tables(recipe),
        card=_card(recipe, updates, sum(parameter.numel() for parameter in model.parameters())),
    )


def _card(recipe: Recipe, updates: Sequence[int], parameters: int) -> str:
    spec = recipe.model
    kinds = {recipe.tokenizer.kind, recipe.tokenizer.target_kind or recipe.tokenizer.kind}
    return f"""# A model made with Regard {__version__}

An encoder-decoder Transformer (preset {spec.preset}) with {parameters:,} parameters and {" and ".join(sorted(kinds))} \
tokens. It holds {weights_in_words(updates, moving=recipe.training.ema > 0)}.

```console
$ regard translate -m FOLDER < input.txt > output.txt
```

```python
import regard

translator = regard.load("FOLDER")
translator(["a line of text"])
```

`config.json` holds the sizes, the tokenizers and the recipe; `manifest.json` the SHA-256 of every file but this one.

To fill in: what it was trained on and under which licence, what it is for, how good it is, what it must not do.
"""
