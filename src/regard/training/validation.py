"""The loss on held-out data: sums over tokens, divided once, whatever the batches."""

from __future__ import annotations

import math
from collections.abc import Iterable

from regard.errors import DataError
from regard.modes import evaluation_mode
from regard.protocols import Batch
from regard.training.distributed import ALONE, Ranks
from regard.training.objective import Seq2SeqObjective


def held_out_loss(objective: Seq2SeqObjective, batches: Iterable[Batch], ranks: Ranks = ALONE) -> dict[str, float]:
    """Return ``loss``, the mean negative log-likelihood of a target token in nats, unsmoothed, and ``perplexity``.

    Args:
        objective: the model and its criterion.
        batches: the data, or the share of this process.
        ranks: the processes, whose sums are added.

    Raises:
        DataError: there is no target token.
    """
    total = tokens = 0.0
    with evaluation_mode(objective):
        for batch in batches:
            if len(batch.example_ids):
                loss, count = objective.nll(batch)
                total, tokens = total + float(loss), tokens + count
    total, tokens = ranks.sum(total, tokens)
    if not tokens:
        raise DataError("the validation data has no target tokens")
    mean = total / tokens
    return {"loss": mean, "perplexity": math.exp(mean) if mean < 700 else math.inf}
