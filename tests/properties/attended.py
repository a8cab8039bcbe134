"""One attention under one setting of masks, run by the library and worked out by hand."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from properties.settings import WIDTH, Setting
from regard.nn import KeyValueCache, MultiHeadAttention, RelativeBias, Visibility


class Attended:
    """One attention under one setting: its inputs, its parts, and a way to run it."""

    def __init__(self, setting: Setting, dtype: torch.dtype) -> None:
        self.setting = setting
        generator = torch.Generator().manual_seed(setting.seed)
        d_model = setting.heads * WIDTH
        positions = RelativeBias(setting.heads, num_buckets=4, max_distance=7) if setting.bias else None
        self.module = MultiHeadAttention(d_model, setting.heads, positions=positions)
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / math.sqrt(d_model))
        self.module.to(dtype)
        self.past = torch.randn(setting.batch, setting.past, d_model, generator=generator).to(dtype)
        self.x = torch.randn(setting.batch, setting.queries, d_model, generator=generator).to(dtype)
        self.memory = torch.randn(setting.batch, setting.keys, d_model, generator=generator).to(dtype)
        self.mixed = torch.empty(0)  # the attention sum, before the output projection
        self.module.out.register_forward_pre_hook(lambda _, inputs: setattr(self, "mixed", inputs[0].detach()))

    def run(self, module: nn.Module | None = None) -> Tensor:
        """Return the output, by the module itself or by a compiled twin."""
        module = self.module if module is None else module
        cache, memory = None, None
        if self.setting.kind == "cached":
            cache = KeyValueCache(capacity=2)
            self.module(self.past, Visibility(causal=True), cache=cache)
        elif self.setting.kind == "cross":
            memory = self.module.keys_values(self.memory)
        return module(self.x, self.setting.visible(), memory=memory, cache=cache)

    def by_hand(self) -> Tensor:
        """Return the same from the formula, with the mask of each pair."""
        setting, module = self.setting, self.module
        read = {"self": self.x, "cross": self.memory, "cached": torch.cat([self.past, self.x], dim=1)}[setting.kind]
        q = nn.functional.linear(self.x, *(part.chunk(3)[0] for part in (module.qkv.weight, module.qkv.bias)))
        k, v = (
            nn.functional.linear(read, *(part.chunk(3)[index] for part in (module.qkv.weight, module.qkv.bias)))
            for index in (1, 2)
        )
        q, k, v = (part.unflatten(-1, (setting.heads, WIDTH)).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.mT / math.sqrt(WIDTH)
        bias = module.positions.bias(setting.queries, setting.keys, setting.past)
        scores = scores if bias is None else scores + bias
        shares = scores.exp() * setting.pairs  # scores are small
        total = shares.sum(dim=-1, keepdim=True)
        weights = shares / torch.where(total == 0, 1, total)
        return module.out((weights @ v).transpose(1, 2).flatten(2))
