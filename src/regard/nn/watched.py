"""Does anybody look at what a part makes?"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules import module as torch_module

_KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_watched(part: nn.Module) -> bool:
    """Tell whether a hook may see or change what ``part`` reads or makes, or a compiler takes it apart.

    What is not watched may be made in another way, or in the place of what nobody reads any more. Hooks that torch
    keeps under another name, some day, count as there.
    """
    return torch.compiler.is_compiling() or any(
        getattr(torch_module, f"_global{kind}", True) or getattr(part, kind, True) for kind in _KINDS
    )
