"""Training of any ``nn.Module`` that gives a sum of losses and a count: objective, schedule, step, loop, checkpoints.

Names are loaded when first used, so that `TrainingOptions` can be read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.training.checkpoints import Checkpoints, average
    from regard.training.class_objective import ClassObjective, class_cross_entropy
    from regard.training.loop import train
    from regard.training.objective import Seq2SeqObjective, chunked_cross_entropy, smoothed_cross_entropy
    from regard.training.options import TrainingOptions
    from regard.training.state import Better, Outcome
    from regard.training.validation import held_out_loss
    from regard.training.weights import load_tensors, tensor_bytes

_HOME = {
    "Better": "state",
    "Checkpoints": "checkpoints",
    "ClassObjective": "class_objective",
    "Outcome": "state",
    "Seq2SeqObjective": "objective",
    "TrainingOptions": "options",
    "average": "checkpoints",
    "chunked_cross_entropy": "objective",
    "class_cross_entropy": "class_objective",
    "held_out_loss": "validation",
    "load_tensors": "weights",
    "smoothed_cross_entropy": "objective",
    "tensor_bytes": "weights",
    "train": "loop",
}

__all__ = [
    "Better",
    "Checkpoints",
    "ClassObjective",
    "Outcome",
    "Seq2SeqObjective",
    "TrainingOptions",
    "average",
    "chunked_cross_entropy",
    "class_cross_entropy",
    "held_out_loss",
    "load_tensors",
    "smoothed_cross_entropy",
    "tensor_bytes",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
