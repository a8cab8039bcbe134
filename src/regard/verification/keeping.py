"""What a module, and the process around it, had before a block of code is what they have after it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def random_kept(module: nn.Module) -> Iterator[None]:
    """Give torch and Python their random states back after the block."""
    state = random.getstate()
    devices = {p.device for p in module.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(state)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within the block: on small batches threads wait for each other longer than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def restored(module: nn.Module) -> Iterator[None]:
    """Give every part of ``module`` its attributes, parameters, gradients and buffers back after the block."""
    parts = [(part, dict(vars(part))) for part in module.modules()]
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (table, dict(table)) for part, _ in parts for table in (part._parameters, part._buffers, part._modules)
    ]
    parameters = [(p, p.data, p.grad, p.requires_grad) for p in module.parameters()]
    buffers = [(b, b.clone()) for b in module.buffers()]
    for p, *_ in parameters:
        p.grad = None
    try:
        yield
    finally:
        for part, attributes in parts:
            vars(part).clear()
            vars(part).update(attributes)
        for table, entries in tables:
            table.clear()
            table.update(entries)
        for p, data, grad, requires_grad in parameters:
            p.data = data
            p.grad = grad
            p.requires_grad_(requires_grad)
        for b, values in buffers:
            if not torch.equal(b, values):
                with torch.no_grad():
                    b.copy_(values)
