"""The walk: every call, in order, with what went in and out, and nothing of the model changed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard.models
from regard.errors import InputError
from regard.inspection import Walk, formula_of, top_candidates, trace
from regard.inspection.axes import infer_sizes, name_axes, side_of, sides_of_arguments

B, S, T, V_S, V_T = 2, 7, 5, 23, 29


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(2)
    spec = regard.models.preset("tiny", source_vocab=V_S, target_vocab=V_T)
    return regard.models.build(replace(spec, encoder_layers=2, decoder_layers=1, d_ff=96)).eval()


def ids(length: int, vocab: int) -> Tensor:
    return torch.randint(4, vocab, (B, length))


def twice(model: nn.Module) -> nn.Module:
    """Return a model whose feed-forward is as wide as keys and values together."""
    return regard.models.build(replace(model.spec, d_ff=256)).eval()


def spec_heads(model: nn.Module) -> int:
    return model.encoder.layers[0].self_attention.num_heads


class Chain(nn.Module):
    """Two maps around a ReLU, small enough to work out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3, bias=False)
        self.act = nn.ReLU()
        self.last = nn.Linear(3, 1, bias=False)
        with torch.no_grad():
            self.first.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
            self.last.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x)))


def test_steps_come_in_order_of_call_with_their_depth_and_numbers() -> None:
    walk = trace(Chain(), torch.tensor([[3.0, 4.0]]))
    assert [(v.path, v.kind, v.depth) for v in walk] == [
        ("", "Chain", 0),
        ("first", "Linear", 1),
        ("act", "ReLU", 1),
        ("last", "Linear", 1),
    ]
    [facts] = walk.at("first")[0].outputs  # 3, 4, -7
    assert facts.shape == (1, 3)
    assert (facts.mean, facts.low, facts.high) == (0.0, -7.0, 4.0)
    assert facts.std == pytest.approx(math.sqrt((9 + 16 + 49) / 3))
    assert facts.num_bytes == 12
    assert walk.at("first")[0].num_parameters == 6
    assert walk.output.item() == 11.0
    assert walk.at("last")[0].inputs == walk.at("act")[0].outputs


def test_a_regard_model_is_walked_with_letters_formulas_and_masks(model: nn.Module) -> None:
    source, target = ids(S, V_S), ids(T, V_T)
    source[1, 5:] = 0
    plain = model(source, target)
    walk = trace(model, source, target)
    assert torch.equal(walk.output, plain)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())

    [attention] = walk.at("encoder.layers.1.self_attention")
    assert attention.outputs[0].axes == f"B={B}, S={S}, D=128"
    assert attention.formula.source == "section 3.2, equation 1"
    [inner] = walk.at("decoder.layers.0.feed_forward.inner")
    assert inner.outputs[0].axes == f"B={B}, T={T}, F=96"
    assert walk.at("output")[0].outputs[0].axes == f"B={B}, T={T}, V={V_T}"
    assert walk.at("")[0].inputs[0].axes == f"B={B}, S={S}"
    assert [v.kind for v in walk if not v.formula.text] == []

    # what no module of its own does: positions, queries, keys and values, scores and weights, heads apart and together
    heads = spec_heads(model)
    path = "decoder.layers.0.cross_attention"
    shapes = {v.path.removeprefix(f"{path}."): v.outputs[0].axes for v in walk if v.path.startswith(f"{path}.")}
    assert shapes == {
        "keys_values": f"B={B}, H={heads}, S={S}, K={128 // heads}",
        "split_heads": f"B={B}, H={heads}, T={T}, K={128 // heads}",
        "queries": f"B={B}, T={T}, D=128",
        "scores": f"B={B}, H={heads}, T={T}, S={S}",
        "weights": f"B={B}, H={heads}, T={T}, S={S}",
        "merge_heads": f"B={B}, T={T}, D=128",
        "out": f"B={B}, T={T}, D=128",
    }
    assert [v.name for v in walk if v.depth == 1] == [
        "source_embedding", "encoder", "target_embedding", "decoder.layers:1.cross_attention.keys_values", "decoder",
        "output",
    ]  # fmt: skip
    assert len(walk.at(f"{path}.keys_values")[0].outputs) == 2
    # inside of it S is read, even where T is as long; and 2·D is no F, even where F is as large
    walked = trace(twice(model), ids(S, V_S), ids(S, V_T))
    inner = walked.at(f"{path}.split_heads")[0]
    assert inner.inputs[0].axes == f"B={B}, S={S}, 256" and inner.outputs[0].axes.startswith(f"B={B}, H={heads}, S={S}")
    [added] = walk.at("source_embedding.positions.embed")
    assert (added.name, added.kind, added.num_parameters) == ("positions.embed", "step", 0)
    assert added.formula.source == "section 3.5"
    [scores] = walk.at("encoder.layers.1.self_attention.scores")
    [weights] = walk.at("encoder.layers.1.self_attention.weights")
    assert scores.name == "scores" and weights.outputs[0].axes == f"B={B}, H={heads}, S={S}, S={S}"
    assert weights.outputs[0].mean == pytest.approx(1 / S)  # rows of S weights add up to 1
    assert walk.at("decoder.layers.0")[0].name == "DecoderLayer 1"
    assert not any(vars(part).keys() & {"scores", "split_heads", "embed"} for part in model.modules())

    triangle = torch.ones(T, T).tril().bool()
    assert torch.equal(walk.masks["decoder.layers.0.self_attention"], triangle)
    assert walk.masks["decoder.layers.0.cross_attention"].shape == (T, S)
    with pytest.raises(
        InputError, match=r"no module 'encoder\.layer\.0' was called; did you mean 'encoder\.layers\.0'"
    ):
        walk.at("encoder.layer.0")


def test_seconds_of_the_parts_fit_into_the_whole(model: nn.Module) -> None:
    walk = trace(model, ids(S, V_S), ids(T, V_T))
    whole, *rest = walk.visits
    assert sum(v.seconds for v in rest if v.depth == 1) <= whole.seconds
    assert all(v.seconds > 0 for v in walk)


def test_bad_numbers_are_counted_and_left_out_of_the_rest() -> None:
    walk = trace(nn.Identity(), torch.tensor([[1.0, float("nan"), float("inf"), -float("inf"), 3.0]]))
    [facts] = walk.at("")[0].outputs
    assert (facts.num_nan, facts.num_inf, facts.mean, facts.high) == (1, 2, 2.0, 3.0)
    [nothing] = trace(nn.Identity(), torch.zeros(0, 3)).at("")[0].outputs
    assert (nothing.mean, nothing.low) == (None, None)
    [numbers] = trace(nn.Identity(), torch.tensor([[3, 9]])).at("")[0].outputs
    assert (numbers.dtype, numbers.mean, numbers.low, numbers.high) == ("int64", None, 3, 9)
    [flags] = trace(nn.Identity(), torch.tensor([[True]])).at("")[0].outputs
    assert (flags.dtype, flags.low) == ("bool", None)


def test_gradients_are_told_and_the_callers_own_are_not_touched() -> None:
    chain = Chain()
    chain.unused = nn.Parameter(torch.ones(2, 2))
    walk = trace(chain, torch.tensor([[3.0, 4.0]]), loss=lambda y: y.sum())
    first, last, unused = (next(g for g in walk.gradients if g.path.startswith(p)) for p in ("first", "last", "unused"))
    # the third unit is below zero: ReLU lets nothing back; the others get their weight times (3, 4)
    assert first.norm == pytest.approx(math.sqrt((1 + 4) * 25))
    assert (first.num_dead, first.num_units, first.num_bad) == (1, 3, 0)
    assert last.norm == pytest.approx(5.0)
    half = trace(chain, torch.tensor([[3.0, 0.0]]), loss=lambda y: y.sum()).gradients[0]
    assert half.num_dead == 2, "a row with one gradient that is not zero is alive"
    assert (unused.norm, unused.num_dead) == (None, 2)
    assert all(p.grad is None for p in chain.parameters())
    with pytest.raises(InputError, match=r"one number that depends on the parameters, but gives \[2, 1\] with"):
        trace(chain, torch.ones(2, 2), loss=lambda y: y)
    with pytest.raises(InputError, match="without a gradient"):
        trace(chain, torch.tensor([[3.0, 4.0]]), loss=lambda y: y.detach().sum())


def test_the_gradient_of_a_regard_model_reaches_every_parameter(model: nn.Module) -> None:
    target = ids(T, V_T)
    walk = trace(model, ids(S, V_S), target, loss=lambda y: F.cross_entropy(y.flatten(0, 1), target.flatten()))
    assert len(walk.gradients) == len(list(model.parameters()))
    assert all(g.norm is not None and math.isfinite(g.norm) for g in walk.gradients)
    table = next(g for g in walk.gradients if g.path.startswith("source_embedding"))
    assert table.num_units == V_S
    assert table.num_dead >= V_S - B * S, "tokens that did not occur have no gradient"


@pytest.mark.parametrize("by_name", [False, True])
def test_sides_are_told_apart_where_both_are_as_long(model: nn.Module, by_name: bool) -> None:
    inputs = {"source": ids(S, V_S), "target": ids(S, V_T)}
    walk = trace(model, named=inputs) if by_name else trace(model, *inputs.values())
    cross, K, H = "decoder.layers.0.cross_attention", 128 // spec_heads(model), spec_heads(model)
    assert axes_in(walk, "") == [f"B={B}, S={S}", f"B={B}, T={S}"]
    assert axes_in(walk, f"{cross}.keys_values") == [f"B={B}, S={S}, D=128"]
    assert axes_in(walk, f"{cross}.scores") == [f"B={B}, H={H}, T={S}, K={K}", f"B={B}, H={H}, S={S}, K={K}"]
    assert axes_in(walk, cross) == axes_in(walk, "output") == [f"B={B}, T={S}, D=128"]
    assert axes_in(walk, "encoder.layers.0") == [f"B={B}, S={S}, D=128"]


def axes_in(walk: Walk, path: str) -> list[str]:
    return [facts.axes for facts in walk.at(path)[0].inputs]


def test_sides_are_told_by_the_names_of_other_models_too() -> None:
    model = nn.Transformer(12, 2, 1, 1, 19, batch_first=True).eval()
    walk = trace(model, torch.randn(B, S, 12), torch.randn(B, S, 12))
    source, target = f"B={B}, S={S}, D=12", f"B={B}, T={S}, D=12"
    assert axes_in(walk, "") == axes_in(walk, "decoder.layers.0")[::-1] == [source, target]
    assert axes_in(walk, "decoder.layers.0.multihead_attn") == [target, source, source]
    assert axes_in(walk, "decoder.layers.0.self_attn") == [target] * 3
    for path, name, side in [
        ("model.decoder.layers.0.encoder_attn", "hidden_states", "T"),
        ("model.decoder.layers.0.encoder_attn", "key_value_states", "S"),
        ("model.decoder.layers.0.encoder_attn.k_proj", "input", "S"),
        ("decoder.block.0.layer.1.EncDecAttention.v", "input", "S"),
        ("model.decoder.layers.0.self_attn.k_proj", "input", "T"),
        ("model.decoder", "encoder_hidden_states", "S"),
        ("model.encoder.layers.0.fc1", "", "S"),
        ("layers.0", "x", ""),
    ]:
        assert side_of(path, name) == side, (path, name)
    given = {"input_ids": ids(S, V_S), "attention_mask": ids(S, V_S), "decoder_input_ids": ids(T, V_T)}
    assert [side for _, side in sides_of_arguments("", lambda **_: None, (), given)] == ["S", "S", "T"]


def test_anything_the_model_can_do_can_be_walked(model: nn.Module) -> None:
    walk = trace(model, ids(S, V_S), call=lambda source: model.encode(source))
    assert walk.visits[0].path == "source_embedding"
    assert not any("decoder" in v.path for v in walk)
    by_name = trace(model, named={"source": ids(S, V_S), "target": ids(T, V_T)})
    assert by_name.at("output")[0].outputs[0].axes == f"B={B}, T={T}, V={V_T}"


def test_torch_and_hugging_face_are_walked_too() -> None:
    torch.manual_seed(1)
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 19, batch_first=True), 2)
    walk = trace(stack, torch.randn(B, S, 12))
    assert walk.at("layers.1.linear1")[0].outputs[0].axes == f"B={B}, S={S}, F=19"
    assert sorted(walk.masks) == ["layers.0.self_attn", "layers.1.self_attn"]
    [weights] = walk.at("layers.1.self_attn.weights")
    assert weights.outputs[0].axes == f"B={B}, H=2, S={S}, S={S}" and weights.name == "weights"
    assert weights.outputs[0].mean == pytest.approx(1 / S)  # rows of S weights add up to 1

    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=V_S, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=19
    )
    bert = transformers.BertModel(config).eval()
    walk = trace(bert, named={"input_ids": ids(S, V_S)})
    assert walk.at("encoder.layer.0.attention.self")[0].formula.source == "section 3.2, equation 1"
    assert walk.at("encoder.layer.0.intermediate.dense")[0].outputs[0].axes == f"B={B}, S={S}, F=19"


def test_a_failing_model_leaves_no_hooks() -> None:
    chain = Chain()
    with pytest.raises(RuntimeError):
        trace(chain, torch.randn(1, 5))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in chain.modules())


def test_axes_are_named_by_place_and_side() -> None:
    sizes = {"B": 2, "S": 7, "T": 7, "D": 12, "H": 4, "K": 3, "V": 29}
    assert name_axes((2, 7, 12), sizes, side="S") == "B=2, S=7, D=12"
    assert name_axes((2, 7, 12), sizes, side="T") == "B=2, T=7, D=12"
    assert name_axes((2, 4, 7, 3), sizes, side="T") == "B=2, H=4, T=7, K=3"
    assert name_axes((2, 11, 36), sizes) == "B=2, 11, 36"
    assert name_axes((), sizes) == ""
    assert name_axes((12,), sizes) == "D=12"
    model = nn.Transformer(12, 2, 1, 1, 19, batch_first=True)
    assert infer_sizes(model, [torch.zeros(2, 7, 12), torch.zeros(2, 5, 12)]) == {
        "B": 2, "S": 7, "T": 5, "D": 12, "F": 19, "H": 2, "K": 6,
    }  # fmt: skip


def test_top_candidates_are_probabilities_with_names() -> None:
    logits = torch.tensor([0.0, math.log(3), -math.inf, math.log(4)])
    best = top_candidates(logits, lambda found: ["abcd"[i] for i in found], k=2)
    assert [(c.token, c.id) for c in best] == [("d", 3), ("b", 1)]
    assert [c.probability for c in best] == pytest.approx([0.5, 0.375])
    assert len(top_candidates(logits, lambda found: [str(i) for i in found], k=9)) == 4


def test_unknown_modules_have_no_formula_and_tables_have_theirs() -> None:
    assert formula_of(Chain()).text == ""
    assert "table" in formula_of(nn.Embedding(3, 2)).text
