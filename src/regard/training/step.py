"""One change of the weights: sums of losses in, one division, one clip, one step of the optimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import TrainingError
from regard.training.diagnosis import NotFiniteError, diagnose
from regard.training.distributed import ALONE, Ranks
from regard.training.options import TrainingOptions
from regard.training.parallel import NOTHING, spread
from regard.training.random_state import seed_of
from regard.training.weights import like, whole

NORMS_EVERY = 20
"""Updates between two looks at how far the weights moved, which costs a copy of them."""

_FIRST_SCALE, _LAST_SCALE, _SCALE_PATIENCE = 2.0**10, 2.0**-20, 2000


@dataclass(frozen=True)
class Update:
    """What one update did.

    Attributes:
        loss: summed over the target tokens, in nats.
        tokens: how many there were.
        gradient_norm: length of the gradient of the mean loss, before clipping.
        applied: whether the weights changed; not when there was no token, or float16 overflowed.
        batches: how many they were, that is, as many as the process with most had.
        norms: of some updates: ``update_norm``, how far all weights moved together, and ``weight_norm``, their length.
    """

    loss: float
    tokens: int
    gradient_norm: float
    applied: bool
    batches: int
    norms: Mapping[str, float] = field(default_factory=dict)


class Updater:
    """Optimiser, loss scale and precision of a run; called with the batches of one update.

    Args:
        objective: a module; ``objective(batch)`` gives the loss summed over real tokens, and their count.
        options: optimiser, clipping and precision are read.
        ranks: the processes that share an update; each calls with its shares of the same batches, which may be empty.

    Attributes:
        optimizer: the torch optimiser.
        scale: what float16 losses are multiplied by before the backward pass, 1 otherwise.
        clean: updates since ``scale`` last changed.
    """

    def __init__(self, objective: nn.Module, options: TrainingOptions, ranks: Ranks = ALONE) -> None:
        self.objective = objective
        self.ranks = ranks
        self.spread = spread(objective, ranks, shard=options.shard)
        self.seed = options.seed
        self.clip_norm = options.clip_norm
        self.precision = options.precision
        self.optimizer = make_optimizer(objective, options)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.scale = _FIRST_SCALE if options.precision == "fp16" else 1.0
        self.clean = 0

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context in which the model is called."""
        if self.precision in ("fp32", "tf32"):
            return nullcontext()
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float16
        return torch.autocast(self.parameters[0].device.type, dtype=dtype)

    def __call__(self, batches: Sequence[Any], *, number: int, rate: float) -> Update:
        """Change the weights once, by the gradient of the mean loss over all tokens of ``batches``.

        Args:
            batches: one or more; some may be empty.
            number: of this update, for messages.
            rate: the learning rate.

        Raises:
            NotFiniteError: a loss or gradient is not finite. The weights are as they were.
        """
        self.optimizer.zero_grad(set_to_none=True)
        shares = [(index, batch) for index, batch in enumerate(batches) if len(batch.example_ids)]
        # a process with fewer shares than another goes through as many steps
        turns, together = map(int, self.ranks.most(len(shares), len(batches)))
        losses, tokens = self._backward(number, [*shares, *[(-1, NOTHING)] * (turns - len(shares))])
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if not gradients:
            return Update(0.0, 0, 0.0, applied=False, batches=together)
        # the one place where the processor waits for the device
        length, total = torch.stack([_length(gradients), torch.stack(losses).sum()]).tolist()
        total, all_tokens = self.ranks.sum(total, tokens)
        if not all_tokens:
            return Update(0.0, 0, 0.0, applied=False, batches=together)
        tokens = int(all_tokens)
        norm = length / (tokens * self.scale)

        if not math.isfinite(total) or not math.isfinite(norm):
            if self.precision == "fp16" and math.isfinite(total) and self.scale > _LAST_SCALE:
                self.scale, self.clean = self.scale / 2, 0
                return Update(total, tokens, norm, applied=False, batches=together)
            wider = "" if self.precision in ("fp32", "tf32") else ", or `precision` = 'fp32'"
            seeds = [self._seed(number, index, batch) for index, batch in enumerate(batches)]
            where, is_here = self._fault(batches, seeds)
            raise NotFiniteError(
                f"update {number} was not made: {where}. The last checkpoint is whole; a new run with a lower "
                f"`learning_rate` or a longer `warmup`{wider} may get further",
                number,
                where,
                seeds,
                is_here=is_here,
            )
        clip = min(1.0, self.clip_norm / norm) if self.clip_norm and norm else 1.0
        torch._foreach_mul_(gradients, clip / (tokens * self.scale))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norms = self._measured_step() if number % NORMS_EVERY == 1 else self._step()
        self._grow()
        return Update(total, tokens, norm, applied=True, batches=together, norms=norms)

    def _backward(self, number: int, shares: Sequence[tuple[int, Any]]) -> tuple[list[Tensor], int]:
        """Add up the gradients of all shares, those of other processes too; return the losses and tokens of these."""
        losses, tokens = [], 0
        for turn, (index, batch) in enumerate(shares, start=1):
            torch.manual_seed(self._seed(number, index, batch))
            with self.spread.accumulating() if turn < len(shares) else nullcontext():
                with self.autocast():
                    loss, count = self.spread(batch)
                if batch is NOTHING:
                    loss, count = 0 * loss, 0
                if count or self.ranks.world > 1:  # alone, nothing is lost by leaving it out
                    self.spread.backward(loss * self.scale)
                    losses.append(loss.detach().double() if loss.device.type == "cpu" else loss.detach())
                    tokens += count
        return losses, tokens

    def _seed(self, number: int, index: int, batch: Any) -> int:
        """Return where dropout starts: by update and batch, whatever was drawn before and whoever draws."""
        return seed_of(self.seed, number, index, *batch.example_ids[:1])

    def _fault(self, batches: Sequence[Any], seeds: Sequence[int]) -> tuple[str, bool]:
        """Say where the number that is not finite came from, and whether it was in this process."""
        with self.spread.gathered(), torch.set_grad_enabled(not self.spread.in_parts):
            found = diagnose(self.objective, batches, self.autocast, seeds)
        everywhere = [fault for [fault] in self.ranks.gather([found or ""])]
        guilty = next((rank for rank, fault in enumerate(everywhere) if fault), 0)
        where = everywhere[guilty] or "the sum of the gradients is not finite, though each batch's is"
        return where, guilty == self.ranks.rank

    def _step(self) -> dict[str, float]:
        self.optimizer.step()
        return {}

    def _measured_step(self) -> dict[str, float]:
        before = [parameter.detach().clone() for parameter in self.parameters]
        self.optimizer.step()
        after = [parameter.detach() for parameter in self.parameters]
        moved = list(torch._foreach_sub(after, before))
        moved_by, length = torch.stack([_length(moved), _length(after)]).tolist()
        return {"update_norm": moved_by, "weight_norm": length}

    def memory(self) -> dict[str, Tensor]:
        """Return what the optimiser remembers, as ``parameter name.quantity``."""
        return {
            f"{name}.{quantity}": value
            for name, parameter in self.objective.named_parameters()
            for quantity, value in self.optimizer.state.get(parameter, {}).items()
        }

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Take back what `memory` gave."""
        parameters = dict(self.objective.named_parameters())
        for key, tensor in memory.items():
            name, _, quantity = key.rpartition(".")
            stays = quantity == "step" and not self.optimizer.defaults["fused"]  # torch counts on the processor then
            self.optimizer.state[parameters[name]][quantity] = tensor if stays else like(tensor, parameters[name])

    def _grow(self) -> None:
        self.clean += 1
        if self.precision == "fp16" and self.clean == _SCALE_PATIENCE:
            self.scale, self.clean = self.scale * 2, 0


def make_optimizer(objective: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """Return Adam or AdamW over the parameters that want a gradient, with decay on matrices only.

    Raises:
        TrainingError: none does.
    """
    parameters = [p for p in objective.parameters() if p.requires_grad]
    if not parameters:
        raise TrainingError("the model has no parameter that may be trained")
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    return kind(groups, lr=options.learning_rate, betas=options.betas, eps=options.eps, fused=fused)


def _length(tensors: list[Tensor]) -> Tensor:
    """Return the Euclidean length of all of them as one vector; on the processor, where it costs nothing, in double."""
    length = whole(torch.nn.utils.get_total_norm(tensors))
    return length.double() if length.device.type == "cpu" else length
