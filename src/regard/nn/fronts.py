"""What may stand between frames and their embedding: convolutions over time, and windows of frames taken as one.

Each is called with frames and lengths and returns both, as windows change how many there are. What stands behind a
row's end is set to zero before it could be mixed in, so padding changes nothing.

Axes: B batch, L frames, C features of a frame, M windows.
"""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.nn.masks import Lengths, real_places


class Windows(nn.Module):
    """Stretches of frames laid out as one frame each (patches: Dosovitskiy et al. 2021; Nie et al. 2023 in time).

    A row's last window is filled up with zeros, so that every frame is in one.

    Args:
        size: frames in a window.
        stride: frames from one window to the next.
    """

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        if size < 1 or stride < 1:
            raise ShapeError(f"windows must have a size and a stride of at least 1, but have {size} and {stride}")
        self.size = size
        self.stride = stride

    def forward(
        self, x_BLC: Float[Tensor, "B L C"], lengths: Lengths = None
    ) -> tuple[Float[Tensor, "B M F"], Int[Tensor, " B"] | None]:
        """Return the M windows, with F = size × C features, and how many each row has."""
        x_BLC = without_padding(x_BLC, lengths)
        count = num_windows(x_BLC.size(1), self.size, self.stride)
        x_BLC = F.pad(x_BLC, (0, 0, 0, (count - 1) * self.stride + self.size - x_BLC.size(1)))
        windows = x_BLC.unfold(1, self.size, self.stride)  # [B, M, C, size]
        if lengths is not None:
            # as num_windows, row by row
            more = (lengths - self.size).clamp(min=0).add(self.stride - 1).div(self.stride, rounding_mode="floor")
            lengths = (more + 1).where(lengths > 0, 0)
        return windows.flatten(2), lengths


class Convolutions(nn.Module):
    """Layers of convolution over time, each followed by a norm and GELU; there are as many frames after as before.

    Args:
        num_features: C.
        width: features after each layer.
        layers: how many.
        kernel: frames that one frame is made from, an odd number.
    """

    def __init__(self, num_features: int, width: int, *, layers: int, kernel: int = 5) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ShapeError(f"`kernel` must be odd, so that frames stay where they are, but is {kernel}")
        widths = [num_features, *[width] * layers]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, kernel, padding=kernel // 2) for before, after in pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    def forward(
        self, x_BLC: Float[Tensor, "B L C"], lengths: Lengths = None
    ) -> tuple[Float[Tensor, "B L W"], Int[Tensor, " B"] | None]:
        """Return the frames, W wide, and the lengths as they were."""
        x = x_BLC
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = without_padding(x, lengths)
            x = F.gelu(norm(convolution(x.transpose(1, 2)).transpose(1, 2)))
        return x, lengths


def num_windows(length: int, size: int, stride: int) -> int:
    """Return how many windows cover ``length`` frames, the last perhaps in part; at least one."""
    return -(-max(length - size, 0) // stride) + 1


def without_padding(x_BLC: Float[Tensor, "B L C"], lengths: Lengths) -> Float[Tensor, "B L C"]:
    """Return the frames with zeros behind each row's end."""
    if lengths is None:
        return x_BLC
    return x_BLC.masked_fill(~real_places(lengths, x_BLC.size(1))[:, :, None], 0.0)
