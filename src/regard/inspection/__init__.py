"""See inside any ``torch.nn.Module``: where it looks, which shapes pass, where its parameters sit."""

from regard.inspection.alignment import (
    HeadChoice,
    HeadSummary,
    Link,
    align_words,
    alignment_error_rate,
    attention_rollout,
    best_head,
    from_pharaoh,
    summarise_heads,
    to_pharaoh,
    word_spans,
    word_weights,
)
from regard.inspection.attention import AttentionMaps, Kind, kind_from_path, watch_attention
from regard.inspection.drawings import draw_ledger, draw_mask, draw_walk, draw_weights
from regard.inspection.formulas import Formula, formula_of
from regard.inspection.ledger import Amounts, CacheBytes, Entry, Ledger, cache_bytes, ledger
from regard.inspection.trace import Candidate, GradientFacts, TensorFacts, Visit, Walk, top_candidates, trace

__all__ = [
    "Amounts",
    "AttentionMaps",
    "CacheBytes",
    "Candidate",
    "Entry",
    "Formula",
    "GradientFacts",
    "HeadChoice",
    "HeadSummary",
    "Kind",
    "Ledger",
    "Link",
    "TensorFacts",
    "Visit",
    "Walk",
    "align_words",
    "alignment_error_rate",
    "attention_rollout",
    "best_head",
    "cache_bytes",
    "draw_ledger",
    "draw_mask",
    "draw_walk",
    "draw_weights",
    "formula_of",
    "from_pharaoh",
    "kind_from_path",
    "ledger",
    "summarise_heads",
    "to_pharaoh",
    "top_candidates",
    "trace",
    "watch_attention",
    "word_spans",
    "word_weights",
]
