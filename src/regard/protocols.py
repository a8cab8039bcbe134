"""The small structural types that join rooms: nothing inherits from them, everything may be handed in.

Axes: B batch, S source length, T target length, N rows being decoded, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The four special ids, the same in every vocabulary; no text can spell them."""

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""Their printed names, by id."""


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back. Ids 0-3 are the specials above and never come out of ``encode`` but for UNK."""

    @property
    def kind(self) -> str:
        """The word that names it in recipes and ``config.json``: ``sentencepiece``, ``char``, ``word``, ``byte``."""
        ...

    def __len__(self) -> int:
        """Return the vocabulary size V, specials and tags included."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, with neither BOS nor EOS."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``; specials and tags are left out."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a printable name for each id, for people and plots."""
        ...

    def tag_id(self, tag: str) -> int:
        """Return the id of a tag such as ``de``: one token that text cannot spell. Unknown tags raise InputError."""
        ...

    def to_files(self) -> Mapping[str, bytes]:
        """Return all that is needed to make it again, as file names and their bytes."""
        ...


@runtime_checkable
class Batch(Protocol):
    """A padded batch of pairs. ``*_lengths`` is None when no row of that side is padded.

    ``target_in`` starts with BOS, ``target_out`` is the same shifted by one and ends with EOS, then PAD.
    """

    @property
    def source(self) -> Tensor:  # [B, S] int64
        """Source ids, each row ended by EOS."""
        ...

    @property
    def source_lengths(self) -> Tensor | None:  # [B]
        """Real source tokens per row."""
        ...

    @property
    def target_in(self) -> Tensor:  # [B, T] int64
        """What the decoder reads."""
        ...

    @property
    def target_out(self) -> Tensor:  # [B, T] int64
        """What it must predict."""
        ...

    @property
    def target_lengths(self) -> Tensor | None:  # [B]
        """Real target tokens per row."""
        ...

    @property
    def num_target_tokens(self) -> int:
        """Real tokens in ``target_out``, EOS included, known without asking the device."""
        ...

    @property
    def example_ids(self) -> Sequence[int]:
        """Which example each row is."""
        ...


BatchT = TypeVar("BatchT", covariant=True)


@runtime_checkable
class BatchSource(Protocol[BatchT]):
    """Batches in an order that depends on nothing but the seed and the epoch."""

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[BatchT]:
        """Yield the batches of ``epoch`` (from 0), leaving out the first ``skip`` without making them."""
        ...


@runtime_checkable
class Objective(Protocol):
    """Model and criterion as one module: a batch in, a loss summed over real target tokens and their count out."""

    def __call__(self, batch: Any) -> tuple[Tensor, int]:
        """Return (sum of losses, scalar tensor with gradient; number of tokens it was summed over)."""
        ...


Observer = Callable[[str, Mapping[str, Any]], None]
"""Told what happens in a run: an event's name (``update``, ``validation``, ``saved``, ...) and its facts."""


@dataclass(frozen=True)
class Step:
    """What one decoding step gives.

    Attributes:
        logits: [N, V] unnormalised scores of the next token.
        state: the decoder's next state; the one passed in is spent.
        attention: [N, S] where each row looked in the source, if the decoder says so.
    """

    logits: Tensor
    state: Any
    attention: Tensor | None = None


@runtime_checkable
class StepDecoder(Protocol):
    """All that search knows of a model. State is owned by whoever holds it, never by the model."""

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> Any:
        """Encode ``source`` [B, S] and return the state of B rows before their first token."""
        ...

    def step(self, tokens: Tensor, state: Any) -> Step:
        """Feed the last token of each row, [N]; the first is BOS."""
        ...

    def reorder(self, state: Any, rows: Tensor) -> Any:
        """Return a state whose row i is row ``rows[i]`` of ``state``; ``rows`` [M] may repeat, drop or permute."""
        ...


@runtime_checkable
class Stepped(Protocol):
    """A module that does part of its work in methods of its own, which a walk through the model shall show."""

    inner_steps: tuple[str, ...]
    """The names of these methods."""


@runtime_checkable
class Listened(Protocol):
    """Attention that tells its weights to whoever listens, and computes them for nobody else."""

    def listen(self, hear: Callable[[Tensor], None]) -> Callable[[], None]:
        """Call ``hear(weights)`` with [B, H, Lq, Lk] at each forward; the returned function stops it."""
        ...
