"""See inside any ``torch.nn.Module``: where it looks, which shapes pass, where its parameters sit."""

from regard.inspection.attention import AttentionMaps, Kind, kind_from_path, watch_attention

__all__ = ["AttentionMaps", "Kind", "kind_from_path", "watch_attention"]
