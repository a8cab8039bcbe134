"""The encoder-decoder Transformer on one page: "Attention Is All You Need", sections 3 and 5, in reading order.

    python examples/one_page.py        trains a small one to write digits backwards, in about a minute

B sentences in a batch, S source tokens, T target tokens, L either, D features per token, K = D / H per head.
Masks are boolean and True means "may attend". Ids: 0 padding, 2 start, 3 end, words from 4 on.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Equation 1, softmax(q kᵀ / √K) v: each query takes the mean of the values whose keys resemble it."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # [B, H, L, S]
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1) @ v


class MultiHead(nn.Module):
    """Section 3.2.2: H attentions side by side, each on K features of its own."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, L, D] → [B, H, L, K]
            for part in (self.query(x), self.key(memory), self.value(memory))
        )
        return self.out(attention(q, k, v, allowed).transpose(1, 2).flatten(2))  # [B, H, L, K] → [B, L, D]


def feed_forward(d: int, d_ff: int) -> nn.Module:
    """Equation 2, max(0, x W₁ + b₁) W₂ + b₂: each position alone."""
    return nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))


class Layer(nn.Module):
    """Section 3.1: see one's own sequence, look things up in the source (a decoder only), think."""

    def __init__(self, d: int, heads: int, d_ff: int, dropout: float, *, decoder: bool) -> None:
        super().__init__()
        self.see, self.think = MultiHead(d, heads), feed_forward(d, d_ff)
        self.look_up = MultiHead(d, heads) if decoder else None
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3 if decoder else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, allowed: Tensor, source: tuple[Tensor, Tensor] | None = None) -> Tensor:
        x = self.norms[0](x + self.dropout(self.see(x, x, allowed)))
        if self.look_up and source:
            x = self.norms[1](x + self.dropout(self.look_up(x, *source)))
        return self.norms[-1](x + self.dropout(self.think(x)))


def positions(length: int, d: int) -> Tensor:
    """Section 3.5: PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D))."""
    angles = torch.arange(length)[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)  # [L, D/2]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Transformer(nn.Module):
    """Figure 1: source ids [B, S] and target ids [B, T] in, scores [B, T, V] of each next target token out."""

    def __init__(self, vocabs: tuple[int, int], d: int, heads: int, d_ff: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.source_table, self.target_table = (nn.Embedding(vocab, d) for vocab in vocabs)
        self.encoder = nn.ModuleList(Layer(d, heads, d_ff, dropout, decoder=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(d, heads, d_ff, dropout, decoder=True) for _ in range(layers))
        self.output, self.dropout = nn.Linear(d, vocabs[1]), nn.Dropout(dropout)
        for table in (self.source_table, self.target_table):
            nn.init.normal_(table.weight, std=d**-0.5)  # times √D below: then they are as large as the positions

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        vectors = table(ids) * math.sqrt(table.embedding_dim)  # section 3.4
        return self.dropout(vectors + positions(*vectors.shape[1:]))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        real = (source != 0)[:, None, None, :]  # [B, 1, 1, S]: nobody looks at padding
        past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()  # [T, T]: nor at the future
        memory, x = self.embed(self.source_table, source), self.embed(self.target_table, target)
        for layer in self.encoder:
            memory = layer(memory, real)
        for layer in self.decoder:
            x = layer(x, past, (memory, real))
        return self.output(x)


# ---- A task to learn: digits (ids 4 to 13) backwards -------------------------------------------------------------


def reversals(pairs: int) -> tuple[Tensor, Tensor]:
    """Return strings of one to seven digits and their reversals, as padded ids."""
    rows = [torch.randint(4, 14, (length,)) for length in torch.randint(1, 8, (pairs,)).tolist()]
    start, end, pad = torch.tensor([2]), torch.tensor([3]), nn.utils.rnn.pad_sequence
    sources, targets = zip(
        *((torch.cat([row, end]), torch.cat([start, row.flip(0), end])) for row in rows), strict=True
    )
    return pad(list(sources), batch_first=True), pad(list(targets), batch_first=True)


@torch.no_grad()
def write(model: Transformer, source: Tensor) -> Tensor:
    """Greedy search: take the likeliest next token, again and again."""
    target = torch.full((len(source), 1), 2)
    for _ in range(source.size(1)):
        target = torch.cat([target, model(source, target)[:, -1:].argmax(dim=-1)], dim=1)
    return target


def main() -> None:
    torch.manual_seed(1)
    model = Transformer((14, 14), d=64, heads=4, d_ff=128, layers=2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))  # section 5.3
    for step in range(1, 501):
        source, target = reversals(64)
        scores = model(source, target[:, :-1])  # what is read up to token t predicts token t + 1
        loss = F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    source, _ = reversals(5)
    for row, written in zip(source, write(model.eval(), source), strict=True):
        print(*("".join(str(i - 4) for i in ids.tolist() if i > 3) for ids in (row, written)), sep=" → ")


if __name__ == "__main__":
    main()
