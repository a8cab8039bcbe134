"""What does looking cost? Nothing while nobody looks; seconds and kilobytes when somebody does.

Prints the median ratio of a forward of a model that was watched before to one that never was, in turn and pair by pair
(1.00 is no cost); the seconds to look at a sentence of the base model with everything that a report holds; and the
size of the report.

    python benchmarks/looking.py --pairs 40
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
from torch import Tensor, nn

from regard.inspection import choices, ledger, trace, watch_attention
from regard.inspection.report import AttentionSection, LedgerSection, WalkSection, example_of, render_page
from regard.models import build
from regard.protocols import BOS, SPECIALS


def seconds(model: nn.Module, source: Tensor, target: Tensor) -> float:
    began = time.perf_counter()
    with torch.inference_mode():
        model(source, target)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=40)
    asked = parser.parse_args()
    torch.manual_seed(0)
    never = build(asked.preset, source_vocab=10_000, target_vocab=8_000).eval()
    source = torch.randint(len(SPECIALS), 8_000, (1, asked.tokens))
    target = torch.randint(len(SPECIALS), 8_000, (1, asked.tokens))
    target[0, 0] = BOS

    once = copy.deepcopy(never)
    with watch_attention(once):
        trace(once, source, target)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in once.modules())
    for model in (never, once):
        seconds(model, source, target)
    ratios = []
    for pair in range(asked.pairs):
        first, second = (never, once) if pair % 2 else (once, never)
        times = {id(model): seconds(model, source, target) for model in (first, second)}
        ratios.append(times[id(once)] / times[id(never)])
    quarter = statistics.quantiles(ratios)
    print(
        f"forward, watched before / never watched: {quarter[1]:.3f}  (quartiles {quarter[0]:.3f} to {quarter[2]:.3f})"
    )

    began = time.perf_counter()
    with watch_attention(never) as maps:
        walk = trace(never, source, target)
    looked = time.perf_counter() - began
    names = [f"token{i}" for i in range(asked.tokens)]
    steps = choices(walk.output[0], names, target[0].tolist(), lambda ids: [str(i) for i in ids])
    sections = [
        AttentionSection([example_of(maps, names, names)]),
        WalkSection(walk, steps),
        LedgerSection(ledger(never, source, target)),
    ]
    page = render_page("Base", sections)
    print(f"{asked.preset}, {asked.tokens} tokens on each side: watched and walked in {looked:.2f} s")
    print(f"with the report: {time.perf_counter() - began:.2f} s, {len(page.encode()) / 1e3:,.0f} kB")


if __name__ == "__main__":
    main()
