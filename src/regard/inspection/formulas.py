"""What does a module compute? Its formula and where that comes from, known by the name of its class.

Sections and equations are those of "Attention Is All You Need" (Vaswani et al. 2017) unless another paper is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Formula:
    """What a module computes, and the section that says so; both empty when it is not known."""

    text: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.text}  ({self.source})" if self.source else self.text


_ATTENTION = Formula("softmax(Q Kᵀ / √K + mask) V in each head, heads joined by W_O", "section 3.2, equation 1")
_TABLE = Formula("row E[id] of the table", "section 3.4")

BY_CLASS = {
    "Linear": Formula("x Wᵀ + b"),
    "Identity": Formula("x"),
    "Embedding": Formula("dropout(vectors + positions), with a norm if asked", "sections 3.4, 3.5 and 5.4"),
    "FrameMap": Formula("x Wᵀ + b of each frame"),
    "Positions": Formula("x: no positions are added"),
    "TokenTable": Formula("√D · E[id], or E[id] unscaled", "section 3.4"),
    "Sinusoidal": Formula("x + PE; PE[pos, 2i] = sin(pos / 10000^(2i/D)), PE[pos, 2i+1] = cos(…)", "section 3.5"),
    "Learned": Formula("x + P[pos]", "section 3.5"),
    "Rotary": Formula("pairs of q and k turned by pos · θᵢ", "Su et al. 2021, equation 34"),
    "RelativeBias": Formula("scores + b[bucket(key − query)]", "Raffel et al. 2020, section 2.1"),
    "FeedForward": Formula("act(x W₁ + b₁) W₂ + b₂, act = max(0, ·) in the paper", "section 3.3, equation 2"),
    "GatedFeedForward": Formula("(act(x W_gate) ⊙ x W₁) W₂", "Shazeer 2020, equation 6"),
    "PostNorm": Formula("norm(x + dropout(sublayer(x)))", "section 5.4"),
    "PreNorm": Formula("x + dropout(sublayer(norm(x)))", "Xiong et al. 2020"),
    "NoResidual": Formula("dropout(sublayer(norm(x)))"),
    "LayerNorm": Formula("(x − mean) / √(var + ε) · γ + β, over the features", "Ba et al. 2016"),
    "RMSNorm": Formula("x / √(mean(x²) + ε) · γ", "Zhang and Sennrich 2019"),
    "Dropout": Formula("zero with probability p, the rest / (1 − p); x itself outside training", "section 5.4"),
    "ReLU": Formula("max(0, x)", "section 3.3"),
    "GELU": Formula("x · Φ(x)", "Hendrycks and Gimpel 2016"),
    "SiLU": Formula("x · sigmoid(x)", "Elfwing et al. 2017"),
    "Softmax": Formula("exp(xᵢ) / Σ exp(xⱼ)", "section 3.2.1"),
    "EncoderLayer": Formula("self-attention, then feed-forward", "section 3.1"),
    "TransformerEncoderLayer": Formula("self-attention, then feed-forward", "section 3.1"),
    "DecoderLayer": Formula("causal self-attention, cross-attention, feed-forward", "section 3.1"),
    "TransformerDecoderLayer": Formula("causal self-attention, cross-attention, feed-forward", "section 3.1"),
    "Encoder": Formula("N layers, one after the other", "section 3.1"),
    "TransformerEncoder": Formula("N layers, one after the other", "section 3.1"),
    "Decoder": Formula("N layers, one after the other", "section 3.1"),
    "TransformerDecoder": Formula("N layers, one after the other", "section 3.1"),
    "Silence": Formula("0: the sublayer was taken away"),
    "MeanReadout": Formula("Σ x / length, over the real positions"),
    "Transformer": Formula("decoder(target so far, encoder(source))", "figure 1"),
}

BY_STEP = {
    "queries": Formula("Q = x W_Q", "section 3.2.2"),
    "keys_values": Formula("K = x W_K and V = x W_V of the encoded source, made once", "section 3.2.3"),
    "split_heads": Formula("[L, n·D] → n times [H, L, K]: every head has its own K = D/H features", "section 3.2.2"),
    "scores": Formula("Q Kᵀ / √K, plus a bias where positions have one; computed aside", "section 3.2.1"),
    "weights": Formula("softmax(scores + mask), each row adds up to 1; computed aside", "section 3.2.1, equation 1"),
    "merge_heads": Formula("[H, L, K] → [L, D]: the heads side by side again", "section 3.2.2"),
}
"""What a module does in a method of its own; what is not here has the formula of its class."""


def formula_of_step(module: nn.Module, step: str) -> Formula:
    """Return the formula of the method ``step`` of ``module``."""
    return BY_STEP.get(step) or formula_of(module)


def formula_of(module: nn.Module) -> Formula:
    """Return the formula of ``module``; an unknown class whose name says "attention" has that of attention."""
    if isinstance(module, nn.Embedding):
        return _TABLE
    name = type(module).__name__
    if name in BY_CLASS:
        return BY_CLASS[name]
    return _ATTENTION if "attention" in name.lower() else Formula()
