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

__all__ = [
    "AttentionMaps",
    "HeadChoice",
    "HeadSummary",
    "Kind",
    "Link",
    "align_words",
    "alignment_error_rate",
    "attention_rollout",
    "best_head",
    "from_pharaoh",
    "kind_from_path",
    "summarise_heads",
    "to_pharaoh",
    "watch_attention",
    "word_spans",
    "word_weights",
]
