"""What is minimised: label-smoothed cross-entropy, as a sum over real tokens and their count.

`smoothed_cross_entropy` is the formula; `chunked_cross_entropy` is its fast twin, which takes the projection to the
vocabulary along and never stores the logits.

Axes: B batch, T target length, N target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.protocols import PAD, Batch

CHUNK_ROWS = 512
"""Rows of logits alive at a time: enough to keep a matrix product busy, few enough to stay near the cache."""


def smoothed_cross_entropy(
    logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """Return the loss summed over the labels that are not PAD.

    With ``p = softmax(logits)``, each token costs::

        (1 - smoothing) * -log p[label]  +  smoothing * mean over all V of -log p

    that is, cross-entropy against the label mixed with the uniform distribution (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4). A class with logit -inf costs infinity only if something asks for it.
    """
    real = labels != PAD
    log_p = F.log_softmax(logits[real], dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    loss = -(1 - smoothing) * log_p.gather(-1, labels[real, None]).sum()
    if smoothing:  # or else 0 times an infinite cost
        loss = loss - smoothing * log_p.mean(dim=-1).sum()
    return loss


def chunked_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    labels: Int[Tensor, " N"],
    smoothing: float,
    *,
    chunk_rows: int = CHUNK_ROWS,
) -> Float[Tensor, ""]:
    """Return ``smoothed_cross_entropy(hidden @ weight.T + bias, labels, smoothing)`` without storing the logits.

    No label may be PAD here. The gradients are made in the forward pass, chunk by chunk while the probabilities are at
    hand, so the cost in memory is one chunk of logits and the gradients themselves. The second derivative is refused.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias)):
        return ChunkedCrossEntropy.apply(hidden, weight, bias, labels, smoothing, chunk_rows)  # type: ignore[no-any-return, no-untyped-call]
    return _by_chunks(hidden, weight, bias, labels, smoothing, chunk_rows, with_gradients=False)[0]


class ChunkedCrossEntropy(torch.autograd.Function):
    """The autograd side of `chunked_cross_entropy`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        chunk_rows: int,
    ) -> Tensor:
        """Sum the loss and keep its gradients by hidden, weight and bias."""
        loss, *gradients = _by_chunks(hidden, weight, bias, labels, smoothing, chunk_rows, with_gradients=True)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the kept gradients; the loss is a sum, so usually by 1."""
        wanted = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(gradient * scale if is_wanted else None for gradient, is_wanted in wanted), None, None, None


def _by_chunks(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    smoothing: float,
    chunk_rows: int,
    *,
    with_gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the summed loss and its gradients by hidden, weight and bias (meaningless if not asked for).

    With z the logits, a row costs ``lse(z) - (1 - smoothing) z[label] - smoothing mean(z)``, whose gradient by z is
    ``softmax(z) - (1 - smoothing) onehot(label) - smoothing / V``. The uniform parts need no pass over the logits, as
    the mean of z over the vocabulary is linear in the row: ``hidden · mean(weight) + mean(bias)``.
    """
    N, V = len(hidden), len(weight)
    hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    exact = torch.promote_types(dtype, torch.float32)  # of sums and softmax, whatever the products run in
    # float16 loses probabilities under 6e-8, which is what most of a gradient over a vocabulary is made of
    product = exact if dtype == torch.float16 else dtype

    with torch.autocast(device, enabled=False):
        h, w, b = hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        h_product, w_product = h.to(product), w.to(product)
        z_labels = torch.zeros((), dtype=exact, device=hidden.device)
        p_labels = torch.empty(N, dtype=exact, device=hidden.device)
        d_hidden = torch.empty_like(hidden, dtype=exact)
        d_weight = torch.zeros_like(weight, dtype=exact)
        d_bias = torch.zeros(V, dtype=exact, device=weight.device)

        for start in range(0, N, chunk_rows):
            rows = slice(start, start + chunk_rows)
            label = labels[rows, None]
            z = F.linear(h[rows], w, b).to(exact)  # [chunk, V]
            z_labels += z.gather(1, label).sum()
            p = torch.softmax(z, dim=1, out=z)
            p_labels[rows] = p.gather(1, label)[:, 0]
            if with_gradients:
                d_z = p.scatter_add_(1, label, torch.full_like(label, smoothing - 1, dtype=exact))
                if bias is not None:
                    d_bias += d_z.sum(dim=0)
                d_z = d_z.to(product)
                d_hidden[rows] = d_z @ w_product
                if product == exact:
                    d_weight.addmm_(d_z.T, h_product[rows])  # adds while it multiplies: no other matrix of this size
                else:
                    d_weight += d_z.T @ h_product[rows]
                del d_z
            del z, p  # or the next chunk would be made beside this one

        log_p = p_labels.log()
        # a probability that is no normal number has lost digits, or all of them; its logarithm has not
        improbable = (p_labels < torch.finfo(exact).tiny).nonzero()[:, 0]
        for start in range(0, len(improbable), chunk_rows):
            few = improbable[start : start + chunk_rows]
            log_p[few] = F.linear(h[few], w, b).to(exact).log_softmax(dim=1).gather(1, labels[few, None])[:, 0]
        loss = -log_p.sum()

        if smoothing:
            mean_weight, mean_bias = weight.mean(dim=0, dtype=exact), 0 if bias is None else bias.mean(dtype=exact)
            sum_hidden = hidden.sum(dim=0, dtype=exact)
            loss += smoothing * (z_labels - sum_hidden @ mean_weight - N * mean_bias)
            d_hidden -= smoothing * mean_weight
            d_weight -= smoothing / V * sum_hidden
            d_bias -= smoothing / V * N
    return loss, d_hidden.to(hidden.dtype), d_weight.to(weight.dtype), d_bias.to(weight.dtype)


class Seq2SeqObjective(nn.Module):
    """A sequence-to-sequence model and its criterion as one module: a batch in, a sum of losses and a count out.

    Args:
        model: anything with ``hidden(source, target_in, source_lengths) -> [B, T, D]`` and ``output``, an
            ``nn.Linear(D, V)``, whose weight may be shared with an embedding.
        smoothing: the share of the target distribution that is spread over the whole vocabulary.
    """

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        """Return the smoothed loss summed over the real target tokens, in nats, and their count."""
        return self._loss(batch, self.smoothing)

    def hidden(
        self, source: Int[Tensor, "B S"], target_in: Int[Tensor, "B T"], source_lengths: Int[Tensor, " B"] | None
    ) -> Float[Tensor, "B T D"]:
        """Return what the last layer of the model gives, before projection and loss."""
        hidden: Tensor = self.model.hidden(source, target_in, source_lengths)  # type: ignore[operator]
        return hidden

    @torch.no_grad()
    def nll(self, batch: Batch) -> tuple[Tensor, int]:
        """Return the negative log-likelihood summed over the real target tokens, in nats, unsmoothed, and their count.

        ``exp(sum / count)`` over a whole set is its perplexity.
        """
        return self._loss(batch, 0.0)

    def _loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, int]:
        output = cast(nn.Linear, self.model.output)
        device = output.weight.device
        lengths = None if batch.source_lengths is None else batch.source_lengths.to(device)
        hidden = self.hidden(batch.source.to(device), batch.target_in.to(device), lengths)
        labels = batch.target_out.to(device)
        if batch.target_lengths is None:  # nothing is padded, and nobody had to ask the device
            hidden, labels = hidden.flatten(0, 1), labels.flatten()
        else:
            real = labels != PAD
            hidden, labels = hidden[real], labels[real]
        loss = chunked_cross_entropy(hidden, output.weight, output.bias, labels, smoothing)
        return loss, batch.num_target_tokens
