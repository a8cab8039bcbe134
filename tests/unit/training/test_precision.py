"""TF32 is on while it is asked for, and never left on."""

from __future__ import annotations

import pytest
import torch

from regard.training.precision import products


@pytest.mark.parametrize(("precision", "inside"), [("tf32", "high"), ("fp32", "highest"), ("bf16", "highest")])
@pytest.mark.parametrize("before", ["highest", "medium"])
def test_as_before_afterwards(precision, inside, before):
    torch.set_float32_matmul_precision(before)
    try:
        with pytest.raises(ValueError, match="left"), products(precision):
            assert torch.get_float32_matmul_precision() == inside
            raise ValueError("left")
        assert torch.get_float32_matmul_precision() == before
    finally:
        torch.set_float32_matmul_precision("highest")
