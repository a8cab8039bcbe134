"""What is fed to the module: one small padded batch, and the edits that must, or must not, change the answer.

Axes: B rows, S source, T target, C numbers per frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Tokens:
    """A side that reads ids.

    Attributes:
        size: Vocabulary size.
        pad: The id that fills rows up.
        start: The id that a target starts with, if any.
        special: Further ids that ordinary text does not hold.
    """

    size: int
    pad: int = 0
    start: int | None = None
    special: tuple[int, ...] = ()

    def ordinary(self) -> Tensor:
        """Return the ids of ordinary text, in order."""
        apart = {self.pad, self.start, *self.special}
        return torch.tensor([i for i in range(self.size) if i not in apart])

    def draw(self, batch: int, length: int, generator: torch.Generator) -> Tensor:
        """Return ordinary ids [batch, length]; a row repeats none while the vocabulary is large enough."""
        ids = self.ordinary()
        if len(ids) < length:
            return ids[torch.randint(len(ids), (batch, length), generator=generator)]
        return torch.stack([ids[torch.randperm(len(ids), generator=generator)[:length]] for _ in range(batch)])

    def other(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return ordinary ids, each of them another one than in ``x``."""
        ids = self.ordinary().to(x)
        place = torch.searchsorted(ids, x.contiguous())
        step = torch.randint(1, len(ids), x.shape, generator=generator).to(x)
        return ids[(place + step) % len(ids)]


@dataclass(frozen=True)
class Frames:
    """A side that reads vectors of ``width`` numbers."""

    width: int

    def draw(self, batch: int, length: int, generator: torch.Generator) -> Tensor:
        """Return normal numbers [batch, length, width]."""
        return torch.randn(batch, length, self.width, generator=generator, dtype=torch.float64)

    def other(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return numbers of the shape of ``x`` that have nothing to do with it."""
        return torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)


Side = Tokens | Frames


@dataclass(frozen=True)
class Inputs:
    """A batch as ``regard.protocols.Batch`` has it; an absent side is None, and so are lengths when nothing is padded.

    Attributes:
        source: [B, S] ids or [B, S, C] frames.
        source_lengths: [B] real positions per row.
        target_in: [B, T] what the decoder reads.
        target_out: [B, T] what it must predict: ``target_in`` one place on.
        target_lengths: [B] real positions per row.
    """

    source: Tensor | None
    source_lengths: Tensor | None
    target_in: Tensor | None
    target_out: Tensor | None
    target_lengths: Tensor | None

    @property
    def num_target_tokens(self) -> int:
        """Real positions of the target."""
        return int(self.real("target").sum())

    @property
    def example_ids(self) -> range:
        """Which example each row is."""
        return range(self.batch)

    @property
    def batch(self) -> int:
        """Rows."""
        return len(self.side("source" if self.source is not None else "target"))

    def side(self, name: str) -> Tensor:
        """Return what is read on the ``source`` or ``target`` side."""
        x = self.source if name == "source" else self.target_in
        assert x is not None, f"these inputs have no {name}"
        return x

    def has(self, name: str) -> bool:
        """Return whether there is such a side."""
        return (self.source if name == "source" else self.target_in) is not None

    def lengths(self, name: str) -> Tensor | None:
        """Return the lengths of a side, or None when it is not padded."""
        return self.source_lengths if name == "source" else self.target_lengths

    def real(self, name: str) -> Tensor:
        """Return [B, L], True where a side is not padding."""
        x, lengths = self.side(name), self.lengths(name)
        if lengths is None:
            return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return torch.arange(x.size(1), device=x.device) < lengths[:, None]

    def padded(self, name: str) -> bool:
        """Return whether a row of that side is padded."""
        return self.has(name) and not bool(self.real(name).all())

    def put(self, name: str, x: Tensor) -> Inputs:
        """Return the same batch with ``x`` on one side; what must be predicted stays."""
        return replace(self, source=x) if name == "source" else replace(self, target_in=x)

    def cast(self, dtype: torch.dtype) -> Inputs:
        """Return a copy whose frames are of ``dtype``; ids and lengths stay integers."""
        copies = {
            field: None if x is None else x.to(dtype, copy=True) if x.is_floating_point() else x.clone()
            for field, x in vars(self).items()
        }
        return Inputs(**copies)

    def rows(self, index: list[int]) -> Inputs:
        """Return the rows ``index``, in that order."""
        picked = {
            field: None if value is None else value[torch.tensor(index, device=value.device)]
            for field, value in vars(self).items()
        }
        return Inputs(**picked)

    def cut(self, name: str, length: int) -> Inputs:
        """Return the batch with only the first ``length`` columns of one side."""
        lengths = self.lengths(name)
        shorter = None if lengths is None else lengths.clamp(max=length)
        if name == "source":
            return replace(self, source=self.side(name)[:, :length].contiguous(), source_lengths=shorter)
        out = None if self.target_out is None else self.target_out[:, :length].contiguous()
        kept = self.side(name)[:, :length].contiguous()
        return replace(self, target_in=kept, target_out=out, target_lengths=shorter)

    def widened(self, name: str, side: Side, columns: int) -> Inputs:
        """Return the batch with further columns of padding on one side."""

        def wider(x: Tensor) -> Tensor:
            shape = (x.size(0), columns, *x.shape[2:])
            return torch.cat([x, x.new_full(shape, side.pad if isinstance(side, Tokens) else 0)], dim=1)

        x = self.side(name)
        lengths = self.lengths(name)
        lengths = torch.full((x.size(0),), x.size(1), device=x.device) if lengths is None else lengths
        if name == "source":
            return replace(self, source=wider(x), source_lengths=lengths)
        out = None if self.target_out is None else wider(self.target_out)
        return replace(self, target_in=wider(x), target_out=out, target_lengths=lengths)

    def redrawn(self, name: str, side: Side, where: Tensor, generator: torch.Generator) -> Inputs:
        """Return the batch with other content at the positions ``where`` [B, L] of one side."""
        x = self.side(name)
        return self.put(name, torch.where(where if x.ndim == 2 else where[..., None], side.other(x, generator), x))


def draw_inputs(
    source: Side | None,
    target: Side | None,
    *,
    sizes: tuple[int, int, int],
    source_lengths: tuple[int, ...] | None = None,
    target_lengths: tuple[int, ...] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Inputs:
    """Return a batch of ``sizes`` (B, S, T), padded on the right behind the lengths of each row; frames in float64."""
    batch, num_source, num_target = sizes
    generator = torch.Generator().manual_seed(seed)

    def fill(side: Side, x: Tensor, lengths: tuple[int, ...] | None) -> Tensor:
        if lengths is not None:
            beyond = torch.arange(x.size(1)) >= torch.tensor(lengths)[:, None]
            x = x.masked_fill(beyond if x.ndim == 2 else beyond[..., None], side.pad if isinstance(side, Tokens) else 0)
        return x.contiguous().to(device)

    def as_tensor(lengths: tuple[int, ...] | None) -> Tensor | None:
        return None if lengths is None else torch.tensor(lengths, device=device)

    source_x = None if source is None else fill(source, source.draw(batch, num_source, generator), source_lengths)
    target_in = target_out = None
    if isinstance(target, Tokens):
        whole = target.draw(batch, num_target + 1, generator)
        if target.start is not None:
            whole[:, 0] = target.start
        target_in = fill(target, whole[:, :-1], target_lengths)
        target_out = fill(target, whole[:, 1:], target_lengths)
    elif target is not None:
        target_in = fill(target, target.draw(batch, num_target, generator), target_lengths)
    return Inputs(
        source=source_x,
        source_lengths=as_tensor(source_lengths) if source is not None else None,
        target_in=target_in,
        target_out=target_out,
        target_lengths=as_tensor(target_lengths) if target is not None else None,
    )


def draw_for(
    module: nn.Module,
    source: Side | None,
    target: Side | None,
    *,
    sizes: tuple[int, int, int],
    lengths: tuple[int, ...] | None = None,
    seed: int = 0,
) -> Inputs:
    """Return a batch as `draw_inputs` does, where ``module`` is and in its type; ``lengths`` are of both sides."""
    first = next(module.parameters(), torch.empty(0))
    drawn = draw_inputs(
        source, target, sizes=sizes, source_lengths=lengths, target_lengths=lengths, seed=seed, device=first.device
    )
    return drawn.cast(first.dtype)
