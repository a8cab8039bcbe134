"""Compile attention under random masks and compare it with itself uncompiled: ``python compiled.py BACKEND COUNT``.

A program of its own, for the checks of signatures that tests put on the library are not made for a compiler.
"""

from __future__ import annotations

import sys

import torch
from hypothesis import HealthCheck, Phase, assume, given, settings

from properties.attended import Attended
from properties.settings import Setting, mask_settings


def compare(setting: Setting, backend: str) -> None:
    """Compare output and gradients; float32, and tolerances as for any two ways of running attention."""
    torch.compiler.reset()
    attended = Attended(setting, torch.float32)
    results = []
    for compiled in (False, True):
        attended.module.zero_grad()
        module = torch.compile(attended.module, backend=backend, fullgraph=setting.kind != "cached")
        output = attended.run(module if compiled else attended.module)
        output.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in attended.module.parameters() if parameter.grad is not None]
        results.append([output.detach(), *gradients])
    for eager, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, eager, rtol=1e-5, atol=1e-5)


def main(backend: str, count: str) -> None:
    """Try ``count`` settings."""

    @settings(
        max_examples=int(count),
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],  # each example costs seconds: no smaller ones are looked for
        suppress_health_check=list(HealthCheck),
    )
    @given(mask_settings())
    def check(setting: Setting) -> None:
        assume(setting.lengths or setting.causal or setting.axes)
        compare(setting, backend)
        print(setting, flush=True)

    check()


if __name__ == "__main__":
    main(*sys.argv[1:])
