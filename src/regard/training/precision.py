"""How are matrix products of float32 computed? Exactly, or by TF32, within a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Within the block float32 products are exact, or by TF32 if ``precision`` is ``tf32``; afterwards as before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
