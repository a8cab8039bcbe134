"""How fast is a training step beside ``torch.nn.Transformer`` and Hugging Face's Marian?

The same sizes, batches, optimiser, smoothing and dropout (embeddings and residuals, nothing else) on every side. Each
peer runs twice: as a plain loop, and with the allocator settings that the command line of Regard makes for itself. Also
printed: the useful matrix work per second beside what the machine's own matrix product reaches.

    python benchmarks/train.py --preset tiny --tokens 4096 --steps 12 [--data multi30k-en-de] [--threads 2]
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import sentencepiece
import torch
from peers import marian
from torch import Tensor, nn
from torch.nn import functional as F
from turns import Work, table, take_turns

from regard.cli.allocator import environment_without_caches, keep_freed_memory
from regard.data import PairBatch, collate
from regard.models import Dropout, TransformerSpec, build, preset
from regard.protocols import BOS, EOS, PAD, SPECIALS, UNK
from regard.training import Seq2SeqObjective

VOCABULARY = 10_000
SMOOTHING = 0.1
Pairs = list[tuple[list[int], list[int]]]


class Stock(nn.Module):
    """``torch.nn.Transformer`` with the embeddings that it lacks."""

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
            dropout=spec.dropout.residual,
            batch_first=True,
        )
        for module in self.core.modules():  # attention weights and inner features are dropped on no side
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0
        self.scale = spec.d_model**0.5

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * self.scale + self.places[: ids.size(1)])

    def forward(self, batch: PairBatch) -> Tensor:
        padding = batch.source == PAD
        triangle = nn.Transformer.generate_square_subsequent_mask(batch.target_in.size(1), dtype=torch.bool)
        hidden = self.core(
            self.embed(batch.source),
            self.embed(batch.target_in),
            tgt_mask=triangle,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return mean_loss(hidden @ self.table.weight.T, batch)


class Marian(nn.Module):
    """Hugging Face's Marian, with the loss written out because its own does not smooth."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.core = marian(spec)

    def forward(self, batch: PairBatch) -> Tensor:
        out = self.core(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=batch.target_in,
            use_cache=False,
        )
        return mean_loss(out.logits, batch)


class Ours(nn.Module):
    """Regard, as its own training calls it."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.objective = Seq2SeqObjective(build(spec), smoothing=SMOOTHING)

    def forward(self, batch: PairBatch) -> Tensor:
        total, count = self.objective(batch)
        return total / count


def mean_loss(logits: Tensor, batch: PairBatch) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
    )


def trainer(
    kind: Callable[[TransformerSpec], nn.Module], spec: TransformerSpec, pairs: list[Pairs], threads: int, kept: bool
) -> Work:
    torch.set_num_threads(threads)
    if kept:
        keep_freed_memory()
    torch.manual_seed(1)
    module = kind(spec).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    batches = [collate([(source, target, row) for row, (source, target) in enumerate(rows)]) for rows in pairs]

    def update(piece: int) -> int:
        batch = batches[piece]
        module(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        return batch.num_target_tokens

    return update


def random_batches(count: int, tokens: int) -> list[Pairs]:
    """Return batches of random ids whose lengths are like those of image captions: 6 to 30, sorted into buckets."""
    generator = torch.Generator().manual_seed(1)
    batches = []
    for _ in range(count):
        longest = int(torch.randint(8, 31, (1,), generator=generator))
        rows = []
        for _ in range(max(1, tokens // (longest + 1))):
            lengths = torch.randint(max(6, longest - 3), longest + 1, (2,), generator=generator).tolist()
            source, target = (
                torch.randint(len(SPECIALS), VOCABULARY, (n,), generator=generator).tolist() for n in lengths
            )
            rows.append((source, target))
        batches.append(rows)
    return batches


def real_batches(folder: Path, count: int, tokens: int) -> list[Pairs]:
    """Return ``count`` batches spread evenly over the lengths of Multi30k, with a joint vocabulary of 10,000 pieces."""
    texts = (gzip.decompress((folder / f"tok/train.{side}.gz").read_bytes()).decode() for side in ("en", "de"))
    sides = [text.split("\n") for text in texts]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sides[0] + sides[1]),
        model_writer=model,
        vocab_size=VOCABULARY,
        model_type="bpe",
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pairs = sorted(
        ((s, t) for s, t in zip(*(pieces.encode(lines) for lines in sides), strict=True) if s and t),
        key=lambda pair: (len(pair[1]), len(pair[0])),
    )
    batches: list[Pairs] = [[]]
    for pair in pairs:
        if (len(batches[-1]) + 1) * (len(pair[1]) + 1) > tokens:
            batches.append([])
        batches[-1].append(pair)
    return [batches[(2 * i + 1) * len(batches) // (2 * count)] for i in range(count)]


def matrix_rate(threads: int) -> float:
    """Return the floating-point operations per second of a large matrix product."""
    torch.set_num_threads(threads)
    a = torch.randn(2048, 2048)
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        a @ a
        taken.append(time.perf_counter() - began)
    return 2 * 2048**3 / statistics.median(taken[2:])


def step_flops(spec: TransformerSpec, pairs: Pairs) -> float:
    """Return the operations of the matrix products on real tokens, forward and backward, without attention's own."""
    source = sum(len(s) + 1 for s, _ in pairs)
    target = sum(len(t) + 1 for _, t in pairs)
    d, f = spec.d_model, spec.d_ff
    encoder = spec.encoder_layers * source * (4 * d * d + 2 * d * f)
    decoder = spec.decoder_layers * (target * (6 * d * d + 2 * d * f) + source * 2 * d * d)
    return 3 * 2 * (encoder + decoder + target * d * spec.target_vocab)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--data", type=Path, help="folder of Multi30k; left out, random ids of like lengths")
    words = parser.parse_args()
    spec = replace(
        preset(words.preset, source_vocab=VOCABULARY, target_vocab=VOCABULARY),
        tie="all",
        output_bias=False,
        dropout=Dropout(embedding=0.1, residual=0.1, attention=0.0, feed_forward=0.0),
    )
    count, tokens = words.steps, words.tokens
    pairs = real_batches(words.data, count, tokens) if words.data else random_batches(count, tokens)
    kinds: dict[str, tuple[Callable[[TransformerSpec], nn.Module], bool]] = {
        "regard": (Ours, True),
        "torch.nn": (Stock, False),
        "torch.nn, memory kept": (Stock, True),
        "Marian": (Marian, False),
        "Marian, memory kept": (Marian, True),
    }
    sides = {name: partial(trainer, kind, spec, pairs, words.threads, kept) for name, (kind, kept) in kinds.items()}
    tuned = {name: environment_without_caches(os.environ) for name, (_, kept) in kinds.items() if kept}
    times = take_turns(sides, words.steps, environments=tuned)
    print(f"{words.preset}, {words.tokens} tokens a batch, {words.threads} threads, torch {torch.__version__}")
    print(table(times, "target tokens", "torch.nn"))
    print("\nregard against the peers with the same allocator setting:")
    for peer in ("torch.nn, memory kept", "Marian, memory kept"):
        print(f"  {statistics.median(times['regard'].speed_against(times[peer])):.2f} × {peer}")
    ceiling = matrix_rate(words.threads)
    reached = statistics.median(
        step_flops(spec, batch) / seconds for batch, seconds in zip(pairs, times["regard"].seconds, strict=True)
    )
    of = f"{reached / ceiling:.0%} of the {ceiling / 1e9:.0f} of a large product"
    print(f"\nuseful matrix work {reached / 1e9:.0f} GFLOPS, {of}")


if __name__ == "__main__":
    main()
