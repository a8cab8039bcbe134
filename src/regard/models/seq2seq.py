"""The encoder-decoder Transformer (figure 1): a source in, the scores of each next target token out.

Axes: B batch, S source, T target, N rows being decoded, D = d_model, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.models.specs import TransformerSpec
from regard.nn import Decoder, Embedding, Encoder, KeysValues, KeyValueCache, Readers, Visibility, lengths_from_ids
from regard.nn.masks import Offset
from regard.protocols import Step


@dataclass(frozen=True)
class DecoderState:
    """All that decoding N rows needs to remember; a spent state must not be stepped again.

    Attributes:
        memory: Keys and values of the sources, one entry per layer; rows of one source share them.
        source_visible: Which source positions are real.
        caches: Keys and values of the target so far, one per layer.
        sentences: [N] which source each row reads.
    """

    memory: Sequence[KeysValues]
    source_visible: Visibility
    caches: Sequence[KeyValueCache]
    sentences: Int[Tensor, " N"]

    @property
    def length(self) -> Offset:
        """Target tokens read so far."""
        return self.caches[0].length

    def reorder(self, rows: Int[Tensor, " M"]) -> DecoderState:
        """Return the state whose row i is row ``rows[i]`` of this one."""
        sentences = self.sentences.index_select(0, rows)
        caches = [cache.reorder(rows) for cache in self.caches]
        if torch.equal(sentences, self.sentences):  # beams changed places within their sentences: sources stay
            return replace(self, caches=caches)
        kept, sentences = torch.unique(sentences, return_inverse=True)
        memory, visible = self.memory, self.source_visible
        if len(kept) < memory[0].keys.size(0):
            memory = [layer.reorder(kept) for layer in memory]
            lengths = visible.key_lengths
            visible = Visibility(key_lengths=None if lengths is None else lengths.index_select(0, kept))
        one_each = torch.equal(sentences, torch.arange(len(kept), device=sentences.device))
        readers = None if one_each else Readers.of(sentences, len(kept))
        return DecoderState(
            memory=[replace(layer, readers=readers) for layer in memory],
            source_visible=visible,
            caches=caches,
            sentences=sentences,
        )

    def fork(self) -> DecoderState:
        """Return a copy that can be stepped on its own."""
        return replace(self, caches=[cache.fork() for cache in self.caches])

    def nbytes(self) -> int:
        """Return the memory held by keys and values, in bytes."""
        return sum(layer.nbytes() for layer in self.memory) + sum(cache.nbytes() for cache in self.caches)


class Transformer(nn.Module):
    """Encoder, decoder, their embeddings and the map to the vocabulary. Made by :func:`regard.models.build`.

    Padding is on the right, with id 0. :meth:`forward` finds it by itself; the methods below it take the lengths
    that the caller knows, where None means that nothing is padded.
    """

    def __init__(
        self,
        *,
        spec: TransformerSpec,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        *,
        source_lengths: Int[Tensor, " B"] | None = None,
        source_mask: Bool[Tensor, "..."] | None = None,
        target_mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of the token after each target position; they are not probabilities.

        Args:
            source: Ids, padded on the right with 0.
            target: Ids that start with the start token, padded on the right with 0. Position t sees 0 … t alone.
            source_lengths: Real tokens per source row; left out, they are found by the padding.
            source_mask: Which source positions may be attended to, on top of the padding: [B, 1, 1, S] or [S, S].
            target_mask: Which target positions may be attended to, on top of causality: [T, T], [B, T, T] or 4 axes.

        Raises:
            ShapeError: ids are not [B, L], padded on the left, or longer than ``max_len``; or a mask is not boolean.
        """
        if source.size(0) != target.size(0):
            raise ShapeError(
                f"source and target must have as many rows, but have {source.size(0)} and {target.size(0)}"
            )
        if source_lengths is None:
            source_lengths = lengths_from_ids(source, what="source")
        lengths_from_ids(target, what="target")
        source_visible = Visibility(key_lengths=source_lengths, allowed=source_mask)
        memory = self.encoder(self.source_embedding(source), source_visible)  # [B, S, D]
        hidden = self.decoder(
            self.target_embedding(target),
            self.decoder.keys_values(memory),
            Visibility(causal=True, allowed=target_mask),
            source_visible,
        )  # [B, T, D]
        return self.output(hidden)  # type: ignore[no-any-return]

    def encode(
        self, source: Int[Tensor, "B S"], source_lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return the source as the decoder will read it."""
        visible = Visibility(key_lengths=source_lengths)
        return self.encoder(self.source_embedding(source), visible)  # type: ignore[no-any-return]

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the hidden state of each target position, which has seen itself, what is before it and the source.

        Padding of the target needs no mask: it stands behind every real position, and nobody reads its rows.
        """
        return self.decoder(  # type: ignore[no-any-return]
            self.target_embedding(target),
            self.decoder.keys_values(memory),
            Visibility(causal=True),
            Visibility(key_lengths=source_lengths),
        )

    def hidden(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return what :attr:`output` turns into logits, so that a loss need not store them."""
        return self.decode(target, self.encode(source, source_lengths), source_lengths)

    def lay_out_for_steps(self) -> Transformer:
        """Store column by column the matrices of a step that widen what they read; return the model, equal in value.

        A product with one row, which is what a step of a search often is, then reads them as they lie in memory.
        """
        for part in (self.output, *self.decoder.modules()):
            if isinstance(part, nn.Linear) and part.out_features > part.in_features:
                part.weight.data = part.weight.data.T.contiguous().T
        return self

    def start(self, source: Int[Tensor, "N S"], source_lengths: Int[Tensor, " N"] | None = None) -> DecoderState:
        """Encode ``source`` and return the state of its rows before their first token."""
        memory = self.encode(source, source_lengths)
        return DecoderState(
            memory=[layer.contiguous() for layer in self.decoder.keys_values(memory)],
            source_visible=Visibility(key_lengths=source_lengths),
            caches=[KeyValueCache() for _ in self.decoder.layers],
            sentences=torch.arange(source.size(0), device=source.device),
        )

    def step(self, tokens: Int[Tensor, " N"], state: DecoderState) -> Step:
        """Feed the last token of each row and return the logits [N, V] of the next, with the next state."""
        hidden, state = self.step_hidden(tokens[:, None], state)
        return Step(self.output(hidden[:, -1]), state)

    def step_hidden(
        self, tokens: Int[Tensor, "N L"], state: DecoderState
    ) -> tuple[Float[Tensor, "N L D"], DecoderState]:
        """Feed any number of further tokens at once and return their hidden states, with the next state."""
        offset = state.length
        hidden = self.decoder(
            self.target_embedding(tokens, offset),
            state.memory,
            Visibility(causal=True, offset=offset),
            state.source_visible,
            caches=state.caches,
        )
        return hidden, state

    def reorder(self, state: DecoderState, rows: Int[Tensor, " M"]) -> DecoderState:
        """Return the state whose row i is row ``rows[i]`` of ``state``; rows may repeat or be left out."""
        return state.reorder(rows)
