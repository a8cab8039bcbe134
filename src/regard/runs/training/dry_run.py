"""What would a training do? The recipe in effect, the model, what it costs, what it reads; nothing is kept."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from regard.data import PairBatch
from regard.inspection import Ledger, ledger
from regard.inspection.drawings import draw_ledger
from regard.plural import plural
from regard.protocols import PAD
from regard.runs.recipes.plan import Plan
from regard.runs.recipes.recipe import dump
from regard.runs.saying import Say
from regard.runs.training.doubts import doubts
from regard.runs.training.prepare import Prepared
from regard.runs.training.rehearsal import Rehearsal, rehearsal
from regard.training.step import Updater

_WARM_UP, _TIMED = 2, 9  # updates
_SHOWN = 10  # examples


def dry_run(asked: Plan, *, device: str = "auto", say: Say) -> Iterator[str]:
    """Yield a report, part by part, of what the training would be.

    Args:
        asked: the recipe and what is said beside it.
        device: where to compute.
        say: told meanwhile what is read and done.
    """
    with rehearsal(asked, device, say) as setting:
        yield f"# The recipe in effect\n\n{dump(setting.recipe)}"
        batches = list(islice(setting.batches(), (_WARM_UP + _TIMED) * setting.recipe.training.accumulate))
        largest = max(batches, key=lambda batch: batch.target_out.numel())
        costs = ledger(setting.objective, largest)
        yield f"# The model\n\n{draw_ledger(costs, depth=2)}\n\n{_measured_on(largest)}\n{_vocabularies(setting)}\n"
        yield f"# What it takes\n\n{_memory(costs)}"
        yield f"{_time(setting, batches)}\n"
        yield f"# Examples, as the model sees them\n\n{_examples(setting.prepared)}"
        found = doubts(setting.prepared, setting.recipe)
        yield "# Warnings\n\n" + ("\n".join(f"- {doubt}" for doubt in found) or "none")


def _measured_on(batch: PairBatch) -> str:
    (rows, sources), targets = batch.source.shape, batch.target_out.shape[1]
    return (
        "FLOPs (2 for a multiplication with its addition) and bytes kept are of one forward of a batch of "
        f"{plural(rows, 'pair')}, {sources:,} source and {plural(targets, 'target token')} long; a backward takes "
        "twice as many FLOPs"
    )


def _vocabularies(setting: Rehearsal) -> str:
    source, target = setting.prepared.source_tokenizer, setting.prepared.target_tokenizer
    if source is target:
        return f"vocabulary: {len(source):,} entries, of both sides"
    return f"vocabulary: {len(source):,} source entries, {len(target):,} target entries"


def _memory(costs: Ledger) -> str:
    total, mega = costs.total, 1e6
    parts = {
        "weights": total.num_bytes,
        "gradients": total.trainable_bytes,
        "optimiser": 2 * total.trainable_bytes,
        "kept for the backward": total.activations,
    }
    told = ", ".join(f"{name} {amount / mega:,.0f}" for name, amount in parts.items())
    return f"memory: about {costs.training_bytes() / mega:,.0f} MB for an update ({told}){_process_memory()}"


def _process_memory() -> str:
    """Say how much memory this process, libraries included, took at most, where the system tells."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"; this process, libraries included, took {peak / 1e6:,.0f} MB at most so far"


def _time(setting: Rehearsal, batches: Sequence[PairBatch]) -> str:
    options = setting.recipe.training
    updater = Updater(setting.objective, options)
    setting.objective.train()
    seconds, tokens = [], []
    for number in range(_WARM_UP + _TIMED):
        group = batches[number * options.accumulate : (number + 1) * options.accumulate]
        began = time.perf_counter()
        done = updater(group, number=number + 1, rate=options.learning_rate / 1000)
        seconds.append(time.perf_counter() - began)
        tokens.append(done.tokens)
    # updates are of unequal size, and one that is disturbed says nothing of the others
    speed = statistics.median(now / took for now, took in zip(tokens[_WARM_UP:], seconds[_WARM_UP:], strict=True))
    one = statistics.mean(tokens[_WARM_UP:]) / speed
    each = setting.prepared.batches.num_batches(0) / options.accumulate
    told = (
        f"time: {one:.2g} s an update ({speed:,.0f} target tokens/s, the median of {_TIMED} updates), "
        f"{plural(round(each), 'update')} an epoch"
    )
    ends = {
        "updates": options.updates,
        "epochs": None if options.epochs is None else options.epochs * each,
        "minutes": None if options.minutes is None else 60 * options.minutes / one,
    }
    limits = {name: end for name, end in ends.items() if end is not None}
    if not limits:
        return f"{told}; nobody knows when validations bring nothing better any more"
    name = min(limits, key=lambda limit: limits[limit])
    updates = limits[name]
    return (
        f"{told}\n`{name}` ends it after about {plural(round(updates), 'update')}, which is {updates / each:,.1f} "
        f"epochs and {updates * one / 60:,.1f} minutes, validations and saving apart"
    )


def _examples(prepared: Prepared) -> str:
    number = min(_SHOWN, len(prepared.corpus))
    told = []
    for example in np.linspace(0, len(prepared.corpus) - 1, number).astype(np.int64):
        batch = prepared.batches.make(0, np.array([example]), slice(None))
        source, target = prepared.corpus.pair(int(example))
        rows = (
            ("source", batch.source, prepared.source_tokenizer),
            ("decoder reads", batch.target_in, prepared.target_tokenizer),
            ("and predicts", batch.target_out, prepared.target_tokenizer),
        )
        told.append(f"{example + 1:,}. {source}  →  {target}")
        for name, tensor, tokenizer in rows:
            ids = [i for i in tensor[0].tolist() if i != PAD]
            told.append(f"   {name}, {plural(len(ids), 'token')}: {' '.join(tokenizer.pieces(ids))}")
            told.append(f"   {' ' * len(name)}  ids: {' '.join(map(str, ids))}")
        told.append("")
    return "\n".join(told)
