"""The encoder alone, put to classifying sequences of numbers: frames in, the scores of each class out.

Axes: B batch, L frames, C features of a frame, D = d_model.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.specs import ClassifierSpec
from regard.nn import Embedding, Encoder, Visibility


class SequenceClassifier(nn.Module):
    """Embedding, encoder, readout and the map to the classes. Made by :func:`regard.models.build_classifier`."""

    def __init__(
        self, *, spec: ClassifierSpec, embedding: Embedding, encoder: Encoder, readout: nn.Module, output: nn.Linear
    ) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = embedding
        self.encoder = encoder
        self.readout = readout
        self.output = output

    def forward(
        self, frames: Float[Tensor, "B L C"], lengths: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "B classes"]:
        """Return the logits of each class.

        Args:
            frames: Sequences, padded on the right with any finite numbers; a signal of single numbers has C = 1.
            lengths: Real frames per row; None when no row is padded.

        Raises:
            ShapeError: the frames are not as wide as the spec says, or more than ``max_len``.
        """
        return self.output(self.encode(frames, lengths))  # type: ignore[no-any-return]

    def encode(self, frames: Float[Tensor, "B L C"], lengths: Int[Tensor, "B"] | None = None) -> Float[Tensor, "B D"]:
        """Return what is read out of each sequence, before the map to the classes."""
        x = self.embedding(frames)  # [B, L, D], or one longer with a leading token
        if lengths is not None:
            lengths = lengths + (x.size(1) - frames.size(1))
        return self.readout(self.encoder(x, Visibility(lengths)), lengths)  # type: ignore[no-any-return]
