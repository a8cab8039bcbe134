"""From token ids, or frames of numbers, to the vectors that a stack reads.

Axes: B batch, L tokens or frames, C features of a frame, D = d_model, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.nn.dropout import Dropout
from regard.nn.masks import Offset
from regard.nn.positions import Positions
from regard.protocols import PAD


class TokenTable(nn.Module):
    """One trained vector per token (section 3.4). The row of PAD is zero and gets no gradient from look-ups.

    Args:
        num_tokens: Vocabulary size V.
        d_model: Width D.
        scaled: Multiply the vectors by √D, as the paper does, so that positions do not drown them.
    """

    def __init__(self, num_tokens: int, d_model: int, *, scaled: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(num_tokens, d_model, padding_idx=PAD)
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def forward(self, ids_BL: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        """Return the vectors of ``ids_BL``."""
        if ids_BL.ndim != 2:
            raise ShapeError(f"token ids must be [B, L], but have shape {list(ids_BL.shape)}")
        if ids_BL.is_floating_point():
            raise ShapeError(f"token ids must be integers, but are {ids_BL.dtype}")
        vectors: Tensor = self.table(ids_BL)
        return vectors * self.scale if self.scale != 1.0 else vectors


class FrameMap(nn.Module):
    """A linear map from the C numbers of a frame to D features.

    Args:
        num_features: C.
        d_model: Width D.
        scaled: Multiply the result by √D.
    """

    def __init__(self, num_features: int, d_model: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.map = nn.Linear(num_features, d_model)
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def forward(self, x_BLC: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
        """Return the features of each frame."""
        if x_BLC.ndim != 3 or x_BLC.size(-1) != self.map.in_features:
            raise ShapeError(f"frames must be [B, L, {self.map.in_features}], but have shape {list(x_BLC.shape)}")
        features: Tensor = self.map(x_BLC)
        return features * self.scale if self.scale != 1.0 else features


class LeadingToken(nn.Module):
    """The vectors of another map with a trained one in front, free to collect what they say (Devlin et al. 2019).

    Args:
        vectors: A :class:`TokenTable` or a :class:`FrameMap`.
        d_model: Width D.
    """

    def __init__(self, vectors: nn.Module, d_model: int) -> None:
        super().__init__()
        self.vectors = vectors
        self.token = nn.Parameter(torch.empty(d_model).normal_(std=d_model**-0.5))

    def forward(self, x: Tensor) -> Float[Tensor, "B M D"]:
        """Return the M = L + 1 vectors: the token, then those of ``x``."""
        vectors: Tensor = self.vectors(x)
        token = self.token.to(vectors.dtype).expand(vectors.size(0), 1, -1)
        return torch.cat([token, vectors], dim=1)


class Embedding(nn.Module):
    """What a stack reads: vectors, plus positions, normed if asked, with dropout (sections 3.4, 3.5 and 5.4).

    Args:
        vectors: A :class:`TokenTable`, a :class:`FrameMap`, or one of them behind a :class:`LeadingToken`.
        positions: Adds where each token stands, or nothing.
        norm: Applied to the sum; left out, nothing is.
        dropout: Share of features dropped in training.
    """

    def __init__(
        self, vectors: nn.Module, positions: Positions, *, norm: nn.Module | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.vectors = vectors
        self.positions = positions
        self.norm = norm if norm is not None else nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, offset: Offset = 0) -> Float[Tensor, "B L D"]:
        """Return the embedded sequence; ``offset`` is the place of its first token."""
        return self.dropout(self.norm(self.positions.embed(self.vectors(x), offset)))  # type: ignore[no-any-return]
