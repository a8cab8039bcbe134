"""What a Transformer is made of. Read: masks, attention, residual, layers, stacks."""

from regard.nn.attention import MultiHeadAttention, attend, attend_plain
from regard.nn.cache import KeysValues, KeyValueCache, Readers
from regard.nn.dropout import Dropout, drop
from regard.nn.embedding import Embedding, FrameMap, LeadingToken, TokenTable
from regard.nn.feed_forward import FeedForward, GatedFeedForward
from regard.nn.fronts import Convolutions, Windows, num_windows
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.masks import (
    EVERYTHING,
    Visibility,
    causal_mask,
    check_mask,
    combine,
    lengths_from_ids,
    padding_mask,
)
from regard.nn.positions import Learned, Positions, RelativeBias, Rotary, Sinusoidal, sinusoidal_table
from regard.nn.readout import AttentionReadout, FirstReadout, LastReadout, MeanReadout
from regard.nn.residual import NoResidual, PostNorm, PreNorm
from regard.nn.stacks import Decoder, Encoder

__all__ = [
    "EVERYTHING",
    "AttentionReadout",
    "Convolutions",
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "FirstReadout",
    "FrameMap",
    "GatedFeedForward",
    "KeyValueCache",
    "KeysValues",
    "LastReadout",
    "LeadingToken",
    "Learned",
    "MeanReadout",
    "MultiHeadAttention",
    "NoResidual",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Readers",
    "RelativeBias",
    "Rotary",
    "Sinusoidal",
    "TokenTable",
    "Visibility",
    "Windows",
    "attend",
    "attend_plain",
    "causal_mask",
    "check_mask",
    "combine",
    "drop",
    "lengths_from_ids",
    "num_windows",
    "padding_mask",
    "sinusoidal_table",
]
