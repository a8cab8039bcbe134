"""The model on one page is the model of the library."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch

from parity.weights import Names, copy_by_name, scramble
from regard.models import Dropout, TransformerSpec, build

PAGE = Path(__file__).parents[2] / "examples" / "one_page.py"
LAYERS = 2


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = spec_from_file_location("one_page", PAGE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names() -> Names:
    """The library's names → those on the page, where queries, keys and values are three maps."""
    found: dict[str, str | tuple[str, ...]] = {
        "source_embedding.vectors.table.weight": "source_table.weight",
        "target_embedding.vectors.table.weight": "target_table.weight",
    }
    sublayers = {"self": "see", "cross": "look_up"}
    for part in ("weight", "bias"):
        found[f"output.{part}"] = f"output.{part}"
        for side in ("encoder", "decoder"):
            for layer in range(LAYERS):
                ours, theirs = f"{side}.layers.{layer}", f"{side}.{layer}"
                attentions = ["self", "cross"] if side == "decoder" else ["self"]
                for number, name in enumerate(attentions):
                    found[f"{ours}.{name}_attention.qkv.{part}"] = tuple(
                        f"{theirs}.{sublayers[name]}.{x}.{part}" for x in ("query", "key", "value")
                    )
                    found[f"{ours}.{name}_attention.out.{part}"] = f"{theirs}.{sublayers[name]}.out.{part}"
                    found[f"{ours}.{name}_residual.norm.{part}"] = f"{theirs}.norms.{number}.{part}"
                found[f"{ours}.feed_forward.inner.{part}"] = f"{theirs}.think.0.{part}"
                found[f"{ours}.feed_forward.outer.{part}"] = f"{theirs}.think.2.{part}"
                found[f"{ours}.feed_forward_residual.norm.{part}"] = f"{theirs}.norms.{len(attentions)}.{part}"
    return found


def test_the_page_and_the_library_give_the_same_logits(page: ModuleType) -> None:
    """Logits are of size one in float32; two orders of summation differ by some 1e-7, and 1e-5 is asked for."""
    theirs = scramble(page.Transformer((11, 13), d=14, heads=2, d_ff=19, layers=LAYERS, dropout=0.1), seed=1)
    spec = TransformerSpec(
        source_vocab=11,
        target_vocab=13,
        d_model=14,
        num_heads=2,
        d_ff=19,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        max_len=17,
        dropout=Dropout(),
    )
    ours = build(spec)
    assert not copy_by_name(ours, theirs.state_dict(), names())
    source = torch.tensor([[5, 9, 2, 7, 3], [8, 3, 0, 0, 0], [4, 10, 6, 3, 0]])
    target = torch.tensor([[2, 11, 5, 0, 0, 0, 0], [2, 6, 4, 9, 12, 7, 5], [2, 4, 0, 0, 0, 0, 0]])
    logits = ours.eval()(source, target)
    torch.testing.assert_close(logits, theirs.eval()(source, target), rtol=0, atol=1e-5)
    assert logits.abs().max() > 0.5


def test_the_task_is_digits_backwards(page: ModuleType) -> None:
    torch.manual_seed(1)
    sources, targets = page.reversals(23)
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        digits = source[: source.index(3)]
        assert all(4 <= digit < 14 for digit in digits) and 1 <= len(digits) <= 7
        assert target[: len(digits) + 2] == [2, *reversed(digits), 3]
        assert not any(source[len(digits) + 1 :]) and not any(target[len(digits) + 2 :])


def test_importing_the_page_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    state = torch.get_rng_state()
    spec = spec_from_file_location("one_page_again", PAGE)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))
    assert torch.equal(torch.get_rng_state(), state)
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_the_page_learns_when_it_is_run() -> None:
    result = subprocess.run([sys.executable, str(PAGE)], capture_output=True, text=True, encoding="utf-8", check=True)
    written = [line.split(" → ") for line in result.stdout.splitlines() if "→" in line]
    assert len(written) == 5
    assert all(backwards == digits[::-1] for digits, backwards in written)
