"""The books: every number once, and all of them together the whole."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce
from operator import add

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import regard.models
from regard.errors import InputError
from regard.inspection import Amounts, CacheBytes, cache_bytes, ledger, trace
from regard.inspection.names import module_name

B, S, T, D, H, F_ = 3, 7, 5, 12, 2, 19


@pytest.fixture(scope="module")
def base() -> nn.Module:
    with torch.device("meta"):
        return regard.models.build(regard.models.preset("base", source_vocab=10_000, target_vocab=8_000))


def tiny() -> nn.Module:
    torch.manual_seed(1)
    return regard.models.build(regard.models.preset("tiny", source_vocab=23, target_vocab=29))


def test_the_base_model_is_booked_as_the_paper_builds_it(base: nn.Module) -> None:
    books = ledger(base)
    count = {entry.path: entry.total.parameters for entry in books}
    assert books.total.parameters == books.total.trainable == 57_458_496
    assert count["source_embedding"] + count["target_embedding"] == 9_216_000
    assert {n for path, n in count.items() if path.endswith("attention")} == {1_050_624}
    assert {n for path, n in count.items() if path.endswith("feed_forward")} == {2_099_712}
    assert count["encoder"] == 18_914_304
    assert count["decoder"] == 25_224_192
    assert count["output"] == 4_104_000
    assert books.total.num_bytes == 4 * (57_458_496 + books.total.buffers)


def test_own_amounts_sum_to_the_total_in_all_columns() -> None:
    model = tiny()
    books = ledger(model, torch.randint(4, 23, (B, S)), torch.randint(4, 29, (B, T)))
    assert reduce(add, (entry.own for entry in books)) == books.total
    assert books.total.flops > 0
    assert books.total.activations > 0
    assert books.at("encoder").total == reduce(
        add, (entry.own for entry in books if entry.path == "encoder" or entry.path.startswith("encoder."))
    )
    assert [entry.depth for entry in books][:2] == [0, 1]


def test_flops_are_torchs_own_on_the_plain_path() -> None:
    model = nn.Transformer(D, H, 2, 3, F_, batch_first=True).eval()  # without dropout, or torch takes its plain path
    source, target = torch.randn(B, S, D), torch.randn(B, T, D)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source, target)
    assert counter.get_total_flops() > 0
    # our own count runs on the fused kernel, of which torch's counter sees nothing on a CPU
    assert ledger(model, source, target).total.flops == counter.get_total_flops()


def test_flops_worked_by_hand() -> None:
    layer = nn.TransformerEncoderLayer(D, H, F_, batch_first=True)
    books = ledger(layer, torch.randn(B, S, D))
    assert books.at("linear1").total.flops == 2 * B * S * D * F_
    # q, k, v; scores and their sum of values; the output map is used through its weight, not called
    attention = 2 * B * S * D * 3 * D + 2 * (2 * B * S * S * D) + 2 * B * S * D * D
    assert books.at("self_attn").total.flops == attention
    assert books.total.flops == attention + 2 * (2 * B * S * D * F_)


def test_what_goes_past_a_matrix_is_booked_to_its_attention() -> None:
    width = 128
    books = ledger(tiny(), torch.ones(B, S, dtype=torch.long), torch.ones(B, T, dtype=torch.long))
    assert books.at("").own.flops == 0  # keys and values of the source are asked for outside of the decoder's forward
    for layer in range(4):
        attention = books.at(f"decoder.layers.{layer}.cross_attention")
        products = 2 * B * width * (T * width + S * 2 * width)  # queries; keys and values
        assert attention.own.flops == products + 4 * B * T * S * width  # scores; their sum of values


def test_activations_are_what_the_backward_keeps() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(D, F_)
            self.last = nn.Linear(F_, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.relu(self.map(x)))

    books = ledger(Chain(), torch.randn(B, D))
    assert books.at("map").own.activations == 4 * B * D  # its input, for the gradient of the weight
    assert books.at("").own.activations == 4 * B * F_  # the result of the ReLU
    assert books.at("last").own.activations == 0  # its input is that result, its weight is no activation
    one_more = ledger(Chain(), torch.randn(2 * B, D))
    assert one_more.total.activations == 2 * books.total.activations


def test_tied_and_frozen_parameters_and_buffers() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(23, D)
            self.output = nn.Linear(D, 23)
            self.output.weight = self.table.weight
            self.register_buffer("places", torch.zeros(7, dtype=torch.float64))
            self.output.bias.requires_grad_(False)

    books = ledger(Tied())
    assert books.total == Amounts(
        parameters=23 * D + 23,
        trainable=23 * D,
        buffers=7,
        num_bytes=4 * (23 * D + 23) + 8 * 7,
        trainable_bytes=4 * 23 * D,
    )
    assert books.at("output").own.parameters == 23
    assert books.at("output").shared == ("table.weight",) and books.at("").shared == ()
    assert books.shared_with(books.at("output")) == ["table"]
    # weights, gradients and two states of Adam
    assert books.training_bytes() == books.total.num_bytes + 3 * 4 * 23 * D
    with pytest.raises(InputError, match="no module 'ouput'; did you mean 'output'"):
        books.at("ouput")


def test_what_is_shared_is_told_of_every_part_that_lacks_it() -> None:
    spec = replace(regard.models.preset("tiny", source_vocab=23, target_vocab=23), tie="all")
    books = ledger(regard.models.build(spec))
    table = "source_embedding.vectors.table.weight"
    told = {entry.path: books.shared_with(entry) for entry in books if entry.shared}
    lacking = ["target_embedding", "target_embedding.vectors", "target_embedding.vectors.table", "output"]
    assert told == {path: ["source_embedding"] for path in lacking}
    assert {books.at(path).shared for path in lacking} == {(table,)}

    layer = nn.Linear(D, D)
    again = nn.ModuleList([nn.Sequential(layer), nn.Sequential(nn.Linear(D, D))])
    again[1][0].weight = layer.weight
    books = ledger(nn.Sequential(again))
    assert books.shared_with(books.at("0.1.0")) == books.shared_with(books.at("0.1")) == ["Sequential 1"]


def test_walk_and_ledger_call_a_module_by_one_name_at_one_depth() -> None:
    model = tiny().eval()
    books = ledger(model)
    walk = trace(model, *(torch.randint(4, 23, (B, length)) for length in (S, T)))
    modules = [visit for visit in walk if visit.kind != "step"]
    named = {entry.path: module_name(entry.path, entry.kind) for entry in books}
    assert {visit.path: visit.name for visit in modules} == {path: named[path] for path in (v.path for v in modules)}
    assert "encoder.layers" not in named and books.at("encoder.layers.0").depth == 2
    # what a residual is handed is called by it, and belongs to the layer
    handed = re.compile(r"\.(self_attention|cross_attention|feed_forward)(\.|$)")
    assert {v.path for v in modules if v.depth != books.at(v.path).depth} == {
        v.path for v in modules if handed.search(v.path)
    }


def test_nothing_is_left_behind_and_other_calls_can_be_booked() -> None:
    model = tiny().eval()
    state = model.start(torch.randint(4, 23, (B, S)))
    step = ledger(model, torch.full((B,), 2), state, call=model.step)
    assert step.at("encoder").total.flops == 0
    assert step.at("output").total.flops == 2 * B * 128 * 29
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_cache_bytes_are_those_a_decoder_state_holds() -> None:
    model = tiny().eval()
    per_row = cache_bytes(model)
    assert per_row == CacheBytes(per_target_token=4 * 2 * 128 * 4, per_source_token=4 * 2 * 128 * 4)
    state = model.start(torch.randint(4, 23, (B, S)))
    assert state.nbytes() == B * S * per_row.per_source_token
    state = model.step(torch.full((B,), 2), state).state
    room = 8  # the cache is made for as many tokens at first
    assert state.nbytes() == B * (S * per_row.per_source_token + room * per_row.per_target_token)
