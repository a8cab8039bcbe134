"""How fast is a training step beside ``torch.nn.Transformer``? Same sizes, same batches, in turn, in one process.

Prints the median of target tokens per second of each and the median of the ratios, pair by pair: machines drift, ratios
of neighbours do not. Both keep freed memory (the allocator setting that the command line makes), both drop embeddings
and residuals alone where they can: the stock layer also drops attention weights and inner features, so its share is set
to 0 there and its embeddings are dropped by hand.

    python benchmarks/train.py --preset tiny --tokens 4096 --steps 12
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import PairBatch, collate
from regard.models import TransformerSpec, build, preset
from regard.training import Seq2SeqObjective
from regard.training.allocator import keep_freed_memory


class Stock(nn.Module):
    """``torch.nn.Transformer`` with what it lacks, in the plainest way."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.target_vocab, spec.d_model)
        nn.init.normal_(self.table.weight, std=spec.d_model**-0.5)
        self.places = nn.Parameter(torch.randn(spec.max_len, spec.d_model), requires_grad=False)
        self.dropout = nn.Dropout(spec.dropout.embedding)
        self.core = nn.Transformer(
            spec.d_model,
            spec.num_heads,
            spec.encoder_layers,
            spec.decoder_layers,
            spec.d_ff,
            dropout=0.0,
            batch_first=True,
        )
        self.scale = spec.d_model**0.5

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * self.scale + self.places[: ids.size(1)])

    def forward(self, batch: PairBatch) -> Tensor:
        padding = batch.source == 0
        triangle = nn.Transformer.generate_square_subsequent_mask(batch.target_in.size(1), dtype=torch.bool)
        hidden = self.core(
            self.embed(batch.source),
            self.embed(batch.target_in),
            tgt_mask=triangle,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits = hidden @ self.table.weight.T
        return F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=0, label_smoothing=0.1)


def batches(count: int, tokens: int, vocabulary: int) -> list[PairBatch]:
    """Return batches of random ids whose lengths are like those of image captions: 6 to 30, sorted into buckets."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        longest = int(torch.randint(8, 31, (1,), generator=generator))
        rows = []
        for row in range(max(1, tokens // (longest + 1))):
            lengths = torch.randint(max(6, longest - 3), longest + 1, (2,), generator=generator).tolist()
            source, target = (torch.randint(4, vocabulary, (n,), generator=generator).tolist() for n in lengths)
            rows.append((source, target, row))
        made.append(collate(rows))
    return made


def updater(module: nn.Module, mean_loss: Callable[[PairBatch], Tensor]) -> Callable[[PairBatch], None]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)

    def update(batch: PairBatch) -> None:
        mean_loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    words = parser.parse_args()
    torch.set_num_threads(words.threads)
    keep_freed_memory()
    torch.manual_seed(1)
    spec = replace(preset(words.preset, source_vocab=10_000, target_vocab=10_000), tie="all", output_bias=False)
    ours, stock = Seq2SeqObjective(build(spec), smoothing=0.1), Stock(spec)

    def mean(batch: PairBatch) -> Tensor:
        total, count = ours(batch)
        return total / count

    sides = {"regard": updater(ours, mean), "torch.nn": updater(stock, stock)}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    tokens = []
    for step, batch in enumerate(batches(words.steps + 2, words.tokens, spec.target_vocab)):
        for name, update in sides.items():
            began = time.perf_counter()
            update(batch)
            if step >= 2:  # the first two warm up
                seconds[name].append(time.perf_counter() - began)
        tokens.append(batch.num_target_tokens)
    for name, taken in seconds.items():
        speed = statistics.median(count / second for count, second in zip(tokens[2:], taken, strict=True))
        print(f"{name:9} {speed:8,.0f} target tokens/s")
    ratios = [b / a for a, b in zip(seconds["regard"], seconds["torch.nn"], strict=True)]
    print(f"ratio     {statistics.median(ratios):8.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} pairs)")


if __name__ == "__main__":
    main()
