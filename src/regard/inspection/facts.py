"""What do a tensor, and the gradient of a parameter, look like? A few numbers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.axes import name_axes


@dataclass(frozen=True)
class TensorFacts:
    """What one tensor looks like.

    Attributes:
        shape: Its sizes.
        axes: The same with letters: ``B=2, T=7, D=512``.
        dtype: ``float32``, ``int64``, …
        mean: Over its finite values, as the next three; None for integers, booleans and tensors without such values.
        std: Their standard deviation (population).
        low: The smallest.
        high: The largest.
        num_nan: Values that are not a number.
        num_inf: Infinite values.
        num_bytes: Memory of its values.
    """

    shape: tuple[int, ...]
    axes: str
    dtype: str
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    num_nan: int
    num_inf: int
    num_bytes: int


@dataclass(frozen=True)
class GradientFacts:
    """The gradient of one parameter.

    Attributes:
        path: Its name.
        shape: Its sizes.
        norm: √Σg², or None when the loss does not depend on it.
        num_bad: Gradients that are NaN or infinite.
        num_units: Its rows: output features of a linear map, tokens of a table.
        num_dead: Rows whose gradient is zero throughout: dead units, tokens that did not occur.
    """

    path: str
    shape: tuple[int, ...]
    norm: float | None
    num_bad: int
    num_units: int
    num_dead: int


def tensor_facts(tensor: Tensor, sizes: Mapping[str, int], side: str, scores: str) -> TensorFacts:
    """Return what ``tensor`` looks like; the other three are as for `regard.inspection.axes.name_axes`."""
    values = tensor.detach()
    mean = std = low = high = None
    num_nan = num_inf = 0
    if values.is_floating_point():
        finite = values[values.isfinite()].double()
        num_nan, num_inf = int(values.isnan().sum()), int(values.isinf().sum())
        if finite.numel():
            mean, std = finite.mean().item(), finite.std(correction=0).item()
    else:
        finite = values.flatten()
    if finite.numel() and values.dtype != torch.bool:
        low, high = finite.min().item(), finite.max().item()
    return TensorFacts(
        shape=tuple(values.shape),
        axes=name_axes(values.shape, sizes, side=side, scores=scores),
        dtype=str(values.dtype).removeprefix("torch."),
        mean=mean,
        std=std,
        low=low,
        high=high,
        num_nan=num_nan,
        num_inf=num_inf,
        num_bytes=values.numel() * values.element_size(),
    )


def gradient_facts(model: nn.Module, loss: Tensor) -> tuple[GradientFacts, ...]:
    """Return the gradient of ``loss`` by each parameter of ``model`` that takes one; ``grad`` fields stay as they are.

    Raises:
        InputError: ``loss`` is not one number that depends on the parameters.
    """
    if loss.numel() != 1 or not loss.requires_grad:
        raise InputError(
            f"`loss` must give one number that depends on the parameters, but gives {list(loss.shape)} "
            f"{'with' if loss.requires_grad else 'without'} a gradient"
        )
    trained = [(path, p) for path, p in model.named_parameters() if p.requires_grad]
    # autograd.grad, for backward() would add to the caller's own .grad
    found = torch.autograd.grad(loss, [p for _, p in trained], allow_unused=True)
    return tuple(_of_parameter(path, p, g) for (path, p), g in zip(trained, found, strict=True))


def _of_parameter(path: str, parameter: Tensor, gradient: Tensor | None) -> GradientFacts:
    shape = tuple(parameter.shape)
    num_units = shape[0] if shape else 1
    if gradient is None:
        return GradientFacts(path, shape, None, 0, num_units, num_units)
    rows = gradient.to_dense().reshape(num_units, -1).float()
    return GradientFacts(
        path=path,
        shape=shape,
        norm=rows.norm().item(),
        num_bad=int((~rows.isfinite()).sum()),
        num_units=num_units,
        num_dead=int((rows == 0).all(dim=1).sum()),
    )
