"""The module while it is under test: borrowed in place, widened to float64, stirred, and given back as it was.

In place, because a module whose ``forward`` was replaced by a closure over itself would, as a copy, still run on the
original's weights. In float64, because there a fault and rounding are ten orders of magnitude apart. Stirred, because
a weight that starts at zero or one hides what it multiplies.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.verification.adapter import Adapter
from regard.verification.constants import constant
from regard.verification.keeping import one_thread, random_kept, restored
from regard.verification.subject import Subject


@contextmanager
def borrowed(module: nn.Module, adapter: Adapter, *, seed: int = 0) -> Iterator[Subject]:
    """Lend ``module`` to a `Subject`, and give it back with the weights, modes and random states that it came with."""
    subject = Subject(module, adapter, seed=seed)
    with (
        warnings.catch_warnings(),
        random_kept(module),
        one_thread(),
        torch.inference_mode(False),
        torch.enable_grad(),
        restored(module),
    ):
        warnings.simplefilter("ignore")
        subject.trained = {name for name, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
        subject.originals = {name: p.data for name, p in module.named_parameters(remove_duplicate=False)}
        dtype = subject.dtype
        try:
            module.eval()
            subject.try_inputs()
            _widen(subject)
            _stir(module, seed)
            subject.still = subject.draws_differ
            yield subject
        finally:
            module.to(dtype)  # what the module keeps outside parameters and buffers follows


def _widen(subject: Subject) -> None:
    """Compute in float64, unless the module cannot."""
    before = subject.dtype
    try:
        with restored(subject.module):
            subject.module.to(torch.float64)
            subject.dtype = torch.float64
            subject.call(subject.inputs)
    except Exception:
        subject.module.to(before)
        subject.dtype = before
        return
    subject.module.to(torch.float64)


def _stir(module: nn.Module, seed: int) -> None:
    """Add noise to every parameter but constants; those that are one parameter stay one.

    Matrices are brought to the size of a common initialisation first, for attention that looks at one key alone, as
    with tables of unit variance times √d_model, hides everything else.
    """
    generator = torch.Generator().manual_seed(seed)
    for p in module.parameters():
        if not p.is_floating_point():
            continue
        p.requires_grad_()
        if p.ndim < 2:
            p.data = p.data + 0.1 * torch.randn(p.shape, generator=generator).to(p)
        elif not constant(p.data):
            size = p.size(-1) ** -0.5
            shrunk = p.data * min(1.0, size / max(float(p.data.pow(2).mean().sqrt()), 1e-30))
            p.data = shrunk + 0.5 * size * torch.randn(p.shape, generator=generator).to(p)
