"""The encoder alone, put to classifying sequences of numbers: frames in, the scores of each class out.

Axes: B batch, L frames, C features of a frame, D = d_model.
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.models.specs import ClassifierSpec
from regard.nn import Embedding, Encoder, Visibility


class SequenceClassifier(nn.Module):
    """Fronts, embedding, encoder, readout and map to the classes. Made by :func:`regard.models.build_classifier`."""

    def __init__(
        self,
        *,
        spec: ClassifierSpec,
        fronts: Iterable[nn.Module],
        embedding: Embedding,
        encoder: Encoder,
        readout: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.fronts = nn.ModuleList(fronts)
        self.embedding = embedding
        self.encoder = encoder
        self.readout = readout
        self.output = output

    def forward(
        self, frames: Float[Tensor, "B L C"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B classes"]:
        """Return the logits of each class.

        Args:
            frames: Sequences, padded on the right with any finite numbers; a signal of single numbers has C = 1.
            lengths: Real frames per row; None when no row is padded.

        Raises:
            ShapeError: the frames are not as wide as the spec says, or more than ``max_len``.
        """
        return self.output(self.encode(frames, lengths))  # type: ignore[no-any-return]

    def encode(self, frames: Float[Tensor, "B L C"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B D"]:
        """Return what is read out of each sequence, before the map to the classes."""
        if frames.ndim != 3 or frames.size(-1) != self.spec.num_features:
            wanted = self.spec.num_features
            raise ShapeError(f"frames must be [B, L, {wanted}], but have shape {list(frames.shape)}")
        for front in self.fronts:
            frames, lengths = front(frames, lengths)
        x = self.embedding(frames)  # [B, L, D], or one longer with a leading token
        if lengths is not None:
            lengths = lengths + (x.size(1) - frames.size(1))
        return self.readout(self.encoder(x, Visibility(lengths)), lengths)  # type: ignore[no-any-return]
