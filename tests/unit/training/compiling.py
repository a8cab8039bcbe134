"""Train through the compiler on batches of many lengths, and beside it without: ``compiling.py BACKEND UPDATES``.

A program of its own, for the checks of signatures that tests put on the library are not made for a compiler. Prints as
JSON how many graphs there were after the warm-up and at the end, the largest difference of a loss, and what was said.
"""

from __future__ import annotations

import json
import random
import sys

import torch

from regard.data import collate
from regard.models import Dropout, TransformerSpec, build
from regard.training import Seq2SeqObjective, TrainingOptions
from regard.training.compiled import WARM_UP, Compiled
from regard.training.step import Updater


def batch(draw: random.Random, number: int):
    """Rows of random lengths, or now and then of one."""
    rows, same = draw.randint(1, 9), number % 3 == 0
    source, target = draw.randint(2, 40), draw.randint(2, 40)
    sizes = [(source, target) if same else (draw.randint(1, source), draw.randint(1, target)) for _ in range(rows)]
    ids = lambda count: [draw.randint(4, 28) for _ in range(count)]  # noqa: E731
    return collate([(ids(s), ids(t), 9 * number + row) for row, (s, t) in enumerate(sizes)])


def updater() -> Updater:
    torch.manual_seed(1)
    dropout = Dropout(0.0, 0.0, 0.0, 0.0)
    spec = TransformerSpec(
        29, 29, d_model=8, num_heads=2, d_ff=11, encoder_layers=2, decoder_layers=2, dropout=dropout, max_len=64
    )
    return Updater(Seq2SeqObjective(build(spec), 0.1), TrainingOptions(learning_rate=1e-3))


def main(backend: str, updates: int) -> None:
    draw = random.Random(3)
    plain, fast, said = updater(), updater(), []
    compiled = Compiled(fast.objective, said.append, backend=backend)
    graphs, differences = [], []
    with compiled:
        for number in range(1, updates + 1):
            group = [batch(draw, number)]
            expected, found = (one(group, number=number, rate=1e-3) for one in (plain, fast))
            differences.append(abs(expected.loss - found.loss) / expected.loss)
            compiled.count_update()
            graphs.append(compiled.graphs)
    facts = {"warm": graphs[min(WARM_UP, updates) - 1], "graphs": graphs[-1], "largest": max(differences), "said": said}
    print(json.dumps(facts | {"each": graphs}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
