"""One layer of the encoder and one of the decoder: sublayers, each joined by a residual (figure 1).

Axes: B batch, T target, S source, L either, D = d_model.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import KeysValues, KeyValueCache
from regard.nn.masks import EVERYTHING, Visibility


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward.

    Args:
        self_attention: Lets positions exchange information.
        feed_forward: Works on each position alone.
        residuals: How each of the two joins the stream: ``PostNorm`` or ``PreNorm``, one object each.
    """

    def __init__(
        self, *, self_attention: MultiHeadAttention, feed_forward: nn.Module, residuals: tuple[nn.Module, nn.Module]
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.self_residual, self.feed_forward_residual = residuals

    def forward(
        self, x_BLD: Float[Tensor, "B L D"], visible: Visibility = EVERYTHING, *, cache: KeyValueCache | None = None
    ) -> Float[Tensor, "B L D"]:
        """Return the positions after they have seen each other."""
        x_BLD = self.self_residual(x_BLD, lambda x: self.self_attention(x, visible, cache=cache))
        return self.feed_forward_residual(x_BLD, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Causal self-attention, then cross-attention to the source, then feed-forward.

    Args:
        self_attention: Lets target positions see earlier ones.
        cross_attention: Lets target positions look things up in the source.
        feed_forward: Works on each position alone.
        residuals: How each of the three joins the stream, one object each.
    """

    def __init__(
        self,
        *,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residuals: tuple[nn.Module, nn.Module, nn.Module],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.self_residual, self.cross_residual, self.feed_forward_residual = residuals

    def keys_values(self, memory_BSD: Float[Tensor, "B S D"]) -> KeysValues:
        """Return what the cross-attention looks things up in, made of the encoded source."""
        return self.cross_attention.keys_values(memory_BSD)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        memory: KeysValues,
        visible: Visibility,
        memory_visible: Visibility = EVERYTHING,
        *,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the target positions after they have seen ``visible`` target and ``memory_visible`` source.

        ``memory`` is what `keys_values` made of the encoded source; ``cache`` holds earlier steps.
        """
        x_BTD = self.self_residual(x_BTD, lambda x: self.self_attention(x, visible, cache=cache))
        x_BTD = self.cross_residual(x_BTD, lambda x: self.cross_attention(x, memory_visible, memory=memory))
        return self.feed_forward_residual(x_BTD, self.feed_forward)  # type: ignore[no-any-return]
