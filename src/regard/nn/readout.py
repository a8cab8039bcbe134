"""From a sequence to one vector, aware of where each row ends.

Every readout is called with the encoded sequence and its lengths, where None means that nothing is padded. Padding
never reaches the result, and a row of no real frame at all reads zero (which attention still projects).

Axes: B batch, L frames, D = d_model.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.masks import Lengths, Visibility, real_places


class MeanReadout(nn.Module):
    """The mean of the real frames."""

    def forward(self, x_BLD: Float[Tensor, "B L D"], lengths: Lengths = None) -> Float[Tensor, "B D"]:
        """Return one vector per row."""
        if lengths is None:
            return x_BLD.mean(dim=1)
        real = real_places(lengths, x_BLD.size(1))[:, :, None]
        return x_BLD.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1).clamp(min=1)


class FirstReadout(nn.Module):
    """The first place: that of a :class:`regard.nn.embedding.LeadingToken`."""

    def forward(self, x_BLD: Float[Tensor, "B L D"], lengths: Lengths = None) -> Float[Tensor, "B D"]:
        """Return one vector per row."""
        return x_BLD[:, 0] if lengths is None else x_BLD[:, 0].masked_fill((lengths < 1)[:, None], 0.0)


class LastReadout(nn.Module):
    """The last real frame, wherever it stands."""

    def forward(self, x_BLD: Float[Tensor, "B L D"], lengths: Lengths = None) -> Float[Tensor, "B D"]:
        """Return one vector per row."""
        if lengths is None:
            return x_BLD[:, -1]
        rows = torch.arange(x_BLD.size(0), device=x_BLD.device)
        last = x_BLD[rows, lengths.clamp(1, x_BLD.size(1)) - 1]
        return last.masked_fill((lengths < 1)[:, None], 0.0)


class AttentionReadout(nn.Module):
    """A trained query that looks where it wants (pooling by attention, Lee et al. 2019, section 3.2).

    The query starts at zero, so before training every real frame counts alike.

    Args:
        attention: Lets the query attend to the frames; who listens to it hears how much each frame counts.
        d_model: Width D.
    """

    def __init__(self, attention: MultiHeadAttention, d_model: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Parameter(torch.zeros(d_model))

    def forward(self, x_BLD: Float[Tensor, "B L D"], lengths: Lengths = None) -> Float[Tensor, "B D"]:
        """Return one vector per row."""
        query = self.query.to(x_BLD.dtype).expand(x_BLD.size(0), 1, -1)
        pooled: Tensor = self.attention(query, Visibility(lengths), memory=self.attention.keys_values(x_BLD))
        return pooled[:, 0]
