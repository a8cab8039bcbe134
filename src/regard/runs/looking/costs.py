"""What does a model hold, and what does it cost at some lengths? The ledger of any module, with what decoding adds.

Axes: B batch, S source, T target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from regard.errors import InputError
from regard.inspection import CacheBytes, Ledger, cache_bytes, draw_ledger, ledger
from regard.models import Transformer
from regard.modes import evaluation_mode
from regard.protocols import BOS
from regard.verification.inputs import draw_for
from regard.verification.recognise import recognise

Sizes = tuple[int, int, int]
"""Rows B, source length S, target length T."""


@dataclass(frozen=True)
class Costs:
    """What a model holds and does at some lengths.

    Attributes:
        ledger: Module by module.
        sizes: B, S and T that FLOPs and activations are of.
        cache: What a step of decoding adds, for a model that has one.
        step_flops: Work of the last of T steps of decoding one row, where it is known.
    """

    ledger: Ledger
    sizes: Sizes
    cache: CacheBytes
    step_flops: int | None = None

    def sentences(self) -> list[str]:
        """Return what stands below the numbers."""
        b, s, t = self.sizes
        said = [
            f"FLOPs and what is kept for backward are of one forward with B={b}, S={s}, T={t}.",
            f"A training step holds {self.ledger.training_bytes() / 1e6:,.1f} MB: weights, gradients, two states of "
            "Adam, activations.",
        ]
        if self.cache.per_target_token or self.cache.per_source_token:
            said.append(
                f"Decoding keeps {self.cache.per_target_token:,} bytes per target token and "
                f"{self.cache.per_source_token:,} per source token of each row."
            )
        if self.step_flops is not None:
            said.append(f"The {t:,}th step of decoding a row takes {self.step_flops:,} FLOPs.")
        return said


def costs_of(model: nn.Module, sizes: Sizes) -> Costs:
    """Return what ``model`` holds and what it costs at these sizes.

    Raises:
        InputError: A size is not positive or larger than the model can read, or it is not known how to call it.
    """
    rows, num_source, num_target = sizes
    if min(sizes) < 1:
        raise InputError(f"--sizes must be three numbers of at least 1, but is {rows} {num_source} {num_target}")
    if isinstance(model, Transformer):
        if max(num_source, num_target) > model.spec.max_len:
            raise InputError(
                f"--sizes asks for {max(num_source, num_target):,} tokens, and the model reads at most "
                f"{model.spec.max_len:,}"
            )
        device = next(model.parameters()).device
        source = torch.full((rows, num_source), BOS, device=device)
        target = torch.full((rows, num_target), BOS, device=device)
        with evaluation_mode(model):
            found = ledger(model, source, target)
            with torch.no_grad():
                state = model.start(source[:1])
                if num_target > 1:
                    _, state = model.step_hidden(target[:1, :-1], state)
                step = ledger(model, target[:1, 0], call=partial(model.step, state=state)).total.flops
        return Costs(found, sizes, cache_bytes(model), step)
    adapter = recognise(model)
    x = draw_for(model, adapter.source, adapter.target, sizes=sizes)
    with evaluation_mode(model):
        found = ledger(model, x, call=partial(adapter.forward, model))
    return Costs(found, sizes, cache_bytes(model))


def cost_lines(costs: Costs, *, depth: int = 2) -> Iterator[str]:
    """Yield the ledger for a terminal."""
    yield draw_ledger(costs.ledger, depth=depth)
    yield ""
    yield from costs.sentences()
