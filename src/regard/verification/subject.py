"""A module under test, and what it says when it is asked: logits, traces, gradients, and how far rounding reaches.

Axes: B rows, L positions, V vocabulary or classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property, reduce
from typing import Any

import torch
from torch import Tensor, nn

from regard.verification.adapter import Adapter, Forward
from regard.verification.findings import ModuleRaisedError, NotExercised, one_line
from regard.verification.inputs import Inputs, draw_inputs
from regard.verification.keeping import restored
from regard.verification.taps import Taps, dropout_kept_still
from regard.verification.trace import Attention, Enough, Trace, rougher, traced

ROWS, SOURCE, TARGET = 3, 7, 5
"""Sizes of the batch, distinct primes so that no axis can pass for another, and small so that large models answer."""

MARGIN = 500
"""How many times the effect of rounding the weights once a difference may be: two computations in another order of
summation differ by some tens, and faults by at least millions."""


class Subject:
    """A module under test and what it says to the first batch. Made by `regard.verification.borrowing.borrowed`.

    Attributes:
        module: The module, in evaluation mode.
        adapter: How to call it.
        inputs: The batch: row 0 is full, the others are padded if the module knows padding.
        dtype: What it computes in now.
        originals: Each parameter's values before anything was changed.
        trained: Names of the parameters that require a gradient when the module is used.
        still: Whether dropout has to be kept from drawing, because evaluation mode does not.
        refused: What the module raised on the batch, or on the batch that it was given first.
        runs: Whether it runs at all.
        notes: What checks found out and need again.
    """

    def __init__(self, module: nn.Module, adapter: Adapter, *, seed: int) -> None:
        self.module = module
        self.adapter = adapter
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed + 1)
        self.dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
        self.originals: dict[str, Tensor] = {}
        self.trained: set[str] = set()
        self.still = False
        parameter = next(iter(module.parameters()), None)
        self.device = torch.device("cpu") if parameter is None else parameter.device
        tables = [b.dtype for b in module.buffers() if b.is_floating_point() and b.numel() > 1]
        self.roughest_buffer = reduce(rougher, tables, torch.float64)  # a table rounded once stays so in float64
        self.notes: dict[str, Any] = {}
        self.refused = ""
        self.runs = True
        self.inputs = self._draw_inputs(TARGET)

    def _draw_inputs(self, target: int) -> Inputs:
        known = self.adapter.padding != "none"
        return draw_inputs(
            self.adapter.source,
            self.adapter.target,
            source_lengths=(SOURCE, SOURCE - 2, SOURCE - 4) if known else None,
            target_lengths=(target, target - 1, target - 2) if known else None,
            sizes=(ROWS, SOURCE, target),
            seed=self.seed,
            device=self.device,
        )

    def try_inputs(self) -> None:
        """Find out whether the module runs, and if it does only while source and target are equally long, make them so.

        ``refused`` then says why.
        """
        try:
            self.call(self.inputs)
        except ModuleRaisedError as error:
            self.refused = str(error)
            self.runs = False
            if self.adapter.source is None or self.adapter.target is None:
                return
            self.inputs = self._draw_inputs(SOURCE)
            try:
                self.call(self.inputs)
            except ModuleRaisedError:
                return
            self.runs = True

    # ---- running -----------------------------------------------------------------------------------------------

    def call(self, inputs: Inputs, forward: Forward | None = None, seed: int | None = None) -> Tensor:
        """Return the logits for ``inputs`` as the module gives them, gradient and all, by ``forward`` if given.

        Raises:
            ModuleRaisedError: the module raised; the message says on what.
        """
        torch.manual_seed(self.seed if seed is None else seed)
        with self.guard(inputs):
            logits = (forward or self.adapter.forward)(self.module, inputs.cast(self.dtype))
        if not isinstance(logits, Tensor):
            raise ModuleRaisedError(f"the adapter's forward must return logits, but returned {type(logits).__name__}")
        return logits

    @contextmanager
    def guard(self, inputs: Inputs | None = None) -> Iterator[None]:
        """Turn whatever the module raises within the block into a `ModuleRaisedError` that says on what."""
        try:
            with dropout_kept_still(self.module) if self.still else nullcontext():
                yield
        except (NotExercised, ModuleRaisedError, Enough):
            raise
        except Exception as error:
            shapes = {} if inputs is None else {n: list(inputs.side(n).shape) for n in self.adapter.sides}
            on = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ModuleRaisedError(f"the module raised {one_line(error)}" + (f" on {on}" if on else "")) from error

    def run(
        self,
        inputs: Inputs | None = None,
        added: dict[str, Tensor] | None = None,
        forward: Forward | None = None,
    ) -> Tensor:
        """Return the logits for ``inputs`` (the batch unless given) as numbers, with ``added`` to embedded tokens."""
        inputs = inputs or self.inputs
        with torch.enable_grad(), Taps(inputs, added) if added else nullcontext():
            return self.call(inputs, forward).detach().double()

    def draws(self) -> tuple[Tensor, Tensor]:
        """Return the logits of the batch twice, with two random seeds and dropout as it is."""
        still, self.still = self.still, False
        try:
            first, second = (self.call(self.inputs, seed=seed).detach().double() for seed in (11, 12))
        finally:
            self.still = still
        return first, second

    @cached_property
    def draws_differ(self) -> bool:
        """Whether evaluation mode depends on the random seed."""
        try:
            return not same(*self.draws())
        except ModuleRaisedError:
            return False

    def trace(self, inputs: Inputs, forward: Forward | None = None, *, attentions: int | None = None) -> Trace:
        """Return what happens inside for ``inputs``, up to a number of attentions if one is given."""
        with torch.enable_grad(), traced(self.module, inputs.batch, attentions) as trace:
            self.call(inputs, forward)
        return trace

    @cached_property
    def logits(self) -> Tensor:
        """The logits of the batch."""
        logits = self.run()
        if not logits[self.real_rows(self.inputs)].isfinite().all():
            raise NotExercised("the logits of an ordinary batch are not finite, see `finite`")
        return logits

    def real_rows(self, inputs: Inputs) -> Tensor:
        """Return [B, T] or [B, S], True where logits are of real positions, or [B] all True for one answer per row."""
        if self.adapter.target is not None:
            return inputs.real("target")
        if self.answers_per_row:
            return torch.ones(inputs.batch, dtype=torch.bool, device=self.device)
        return inputs.real("source")

    @cached_property
    def answers_per_row(self) -> bool:
        """Whether an encoder gives one answer per row, rather than one per position."""
        return self.adapter.target is None and self.run().ndim == 2

    # ---- rounding ----------------------------------------------------------------------------------------------

    @cached_property
    def base_trace(self) -> Trace:
        """What happens inside for the batch."""
        return self.trace(self.inputs)

    @cached_property
    def tolerance(self) -> float:
        """The largest difference between two equal computations in the types that the batch's forward uses."""
        return self.tolerance_in(self.base_trace.coarsest)

    def tolerance_in(self, dtype: torch.dtype) -> float:
        """Return `MARGIN` times the measured effect of rounding, where numbers pass through ``dtype`` inside.

        It is measured by moving each weight by about half a unit in its last place, and is never below the same margin
        of the rounding of the logits themselves.
        """
        coarsest = rougher(self.dtype, dtype)
        real = self.real_rows(self.inputs)
        return MARGIN * max(
            self.effect_of_rounding(coarsest), torch.finfo(coarsest).eps * float(self.logits[real].abs().max())
        )

    @cached_property
    def exactness(self) -> float:
        """How far, relatively, two numbers inside may be apart that would be equal but for rounding."""
        roughest = rougher(self.base_trace.roughest, self.roughest_buffer)
        return 1000 * torch.finfo(rougher(self.dtype, roughest)).eps

    def effect_of_rounding(self, dtype: torch.dtype) -> float:
        """Return the largest change of a logit when each weight is moved by the rounding error of ``dtype``."""
        generator = torch.Generator().manual_seed(self.seed)
        parameters = [p for p in self.module.parameters() if p.is_floating_point()]
        before = [p.data for p in parameters]
        try:
            for p in parameters:
                step = torch.randn(p.shape, generator=generator).to(p)
                p.data = p.data * (1 + torch.finfo(dtype).eps / 2 * step)
            moved = self.run()
        finally:
            for p, data in zip(parameters, before, strict=True):
                p.data = data
        return largest(moved, self.logits, self.real_rows(self.inputs))[0]

    # ---- attention ---------------------------------------------------------------------------------------------

    @cached_property
    def touched(self) -> dict[str, Trace]:
        """For each side, what happens inside when position 2 of every row is another one."""
        traces = {}
        for name in self.adapter.sides:
            x = self.inputs.side(name)
            where = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
            where[:, 2] = True
            traces[name] = self.trace(self.inputs.redrawn(name, self.adapter.side(name), where, self.generator))
        return traces

    @cached_property
    def attentions(self) -> list[tuple[str, Attention]]:
        """Each attention of the batch's forward with its kind: ``encoder``, ``decoder`` or ``cross``.

        The kind is found by what keys and queries depend on, not by names or shapes.

        Raises:
            NotExercised: no attention was seen.
        """
        found = self.base_trace.attentions
        if not found:
            raise NotExercised("no attention was seen inside: it has no softmax, or runs in a kernel that hides it")
        if self.adapter.sides == ("source",):
            return [("encoder", attention) for attention in found]
        if self.adapter.sides == ("target",):
            return [("decoder", attention) for attention in found]
        target = self.touched["target"].attentions
        if len(target) != len(found):
            raise NotExercised("the number of attentions differs from forward to forward")
        kinds = []
        for attention, changed in zip(found, target, strict=True):
            if not same(attention.key, changed.key):
                kinds.append("decoder")
            else:
                kinds.append("encoder" if same(attention.query, changed.query) else "cross")
        return list(zip(kinds, found, strict=True))

    # ---- gradients ---------------------------------------------------------------------------------------------

    @cached_property
    def influence(self) -> dict[str, Tensor]:
        """[T, B, L] for each side: how strongly the logits of position t depend on each position, as a gradient's size.

        For an encoder with one answer per row, T is 1.

        Raises:
            NotExercised: no look-up of the ids was seen.
        """
        logits = self.logits
        generator = torch.Generator().manual_seed(self.seed)
        weights = torch.randn(logits.shape, generator=generator).to(self.device, self.dtype)
        with torch.enable_grad():
            output, points = self._tapped()
            steps = 1 if output.ndim == 2 else output.size(1)
            sums = [((output * weights) if output.ndim == 2 else (output * weights)[:, t]).sum() for t in range(steps)]
            grads = [torch.autograd.grad(s, list(points.values()), retain_graph=True, allow_unused=True) for s in sums]
        influence = {}
        for index, (name, point) in enumerate(points.items()):
            rows = [torch.zeros_like(point) if g[index] is None else g[index] for g in grads]
            influence[name] = torch.stack(rows).double().abs().amax(dim=-1)
        return influence

    def _tapped(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the logits and, for each side, the leaf at which it enters."""
        inputs = self.inputs
        points = {}
        for name in self.adapter.sides:
            if inputs.side(name).is_floating_point():
                points[name] = inputs.side(name).to(self.dtype).clone().requires_grad_()
                inputs = inputs.put(name, points[name])
        torch.manual_seed(self.seed)
        with Taps(inputs) as taps, self.guard(inputs):
            output = self.adapter.forward(self.module, inputs)
        points.update({name: taps.added[name] for name in self.adapter.sides if name in taps.added})
        if missing := set(self.adapter.sides) - set(points):
            raise NotExercised(f"no look-up of the {' and '.join(sorted(missing))} ids in a table was seen")
        return output, points

    # ---- changing ----------------------------------------------------------------------------------------------

    @contextmanager
    def cast(self, dtype: torch.dtype) -> Iterator[None]:
        """Compute in ``dtype`` within the block."""
        before = self.dtype
        with restored(self.module):
            self.module.to(dtype)
            self.dtype = dtype
            try:
                yield
            finally:
                self.dtype = before
                self.module.to(before)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Put the module into training mode within the block."""
        with restored(self.module):
            self.module.train()
            yield


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are equal bit for bit, NaN included."""
    return torch.equal(a.nan_to_num(), b.nan_to_num())


def largest(a: Tensor, b: Tensor, where: Tensor) -> tuple[float, tuple[int, ...]]:
    """Return the largest difference of ``a`` and ``b`` over ``where`` (their leading axes) and the place of it."""
    difference = (a - b).abs()
    while difference.ndim > where.ndim:
        difference = difference.amax(dim=-1)
    difference = torch.where(where, difference.nan_to_num(nan=float("inf")), 0.0)
    if difference.numel() == 0:
        return 0.0, ()
    index = int(difference.argmax())
    return float(difference.flatten()[index]), tuple(
        int(i) for i in torch.unravel_index(torch.tensor(index), difference.shape)
    )
