"""Attention is heard from any module, and looking changes nothing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import InputError
from regard.inspection import AttentionMaps, kind_from_path, watch_attention

B, S, T, E, H = 2, 7, 5, 12, 2


class Spoken(nn.Module):
    """Attention that tells its weights, as Regard's own does."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Callable[[Tensor], None]] = []

    def listen(self, hear: Callable[[Tensor], None]) -> Callable[[], None]:
        self.listeners.append(hear)
        return lambda: self.listeners.remove(hear)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        for hear in self.listeners:
            hear(weights[:, None])
        return weights @ k


class ByHand(nn.Module):
    """Two heads of attention written out in full, after the paper's equation 1."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(E, 2 * E)

    def forward(self, x: Tensor) -> Tensor:
        q, k = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in self.project(x).chunk(2, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(E / H), dim=-1)
        return (weights @ k).transpose(1, 2).flatten(2)


class Fused(nn.Module):
    """The same by the fused kernel, with whatever arguments a test gives."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.arguments = arguments

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, k, **self.arguments)


def torch_transformer(**options: object) -> nn.Transformer:
    torch.manual_seed(3)
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 1, "dim_feedforward": 19, "batch_first": True}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")  # told of every pre-norm encoder
        return nn.Transformer(E, H, **layers, **options)


def test_a_module_that_offers_listen_is_heard_by_its_path_and_left_alone_afterwards() -> None:
    model = nn.ModuleDict({"decoder": nn.ModuleDict({"cross_attention": Spoken()})})
    attention = model["decoder"]["cross_attention"]
    q, k = torch.randn(B, T, E), torch.randn(B, S, E)
    with watch_attention(model) as maps:
        attention(q, k)
        attention(q[:1], k[:1])
    attention(q, k)
    assert maps.names("cross") == ["decoder.cross_attention"]
    assert [weights.shape for weights in maps["decoder.cross_attention"]] == [(B, 1, T, S), (1, 1, T, S)]
    assert attention.listeners == []


@pytest.mark.parametrize("mode", ["train", "eval", "eval without gradient"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_transformer_gives_the_same_bits_while_watched(mode: str, norm_first: bool) -> None:
    model = torch_transformer(norm_first=norm_first, dropout=0.1).train(mode == "train")
    source, target = torch.randn(B, S, E), torch.randn(B, T, E)
    causal = nn.Transformer.generate_square_subsequent_mask(T)

    def run() -> Tensor:
        torch.manual_seed(5)
        return model(source, target, tgt_mask=causal, tgt_is_causal=True)

    with torch.set_grad_enabled("without" not in mode):
        plain = run()
        with watch_attention(model) as maps:
            watched = run()
    assert torch.equal(plain, watched)
    assert {name: maps.kind(name) for name in maps} == {
        "encoder.layers.0.self_attn": "encoder",
        "encoder.layers.1.self_attn": "encoder",
        "decoder.layers.0.self_attn": "decoder",
        "decoder.layers.0.multihead_attn": "cross",
    }
    assert maps["decoder.layers.0.multihead_attn"][0].shape == (B, H, T, S)
    [own] = maps["decoder.layers.0.self_attn"]
    assert torch.equal(own.triu(1), torch.zeros_like(own)), "a causal mask lets nobody see the future"
    assert "forward" not in vars(model.encoder.layers[0].self_attn)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_path_of_torch_is_taken_while_watched_and_its_padding_is_seen(norm_first: bool) -> None:
    """Hooks would switch the fast path off; the padded batch of a post-norm encoder even travels as a nested tensor."""
    model = torch_transformer(norm_first=norm_first).encoder.eval()
    calls = []
    kernel = torch._transformer_encoder_layer_fwd
    padding = torch.zeros(B, S, dtype=torch.bool)
    padding[1, 4:] = True
    x = torch.randn(B, S, E)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch, "_transformer_encoder_layer_fwd", lambda *a, **k: calls.append(1) or kernel(*a, **k))
        plain = model(x, src_key_padding_mask=padding)
        with watch_attention(model) as maps:
            watched = model(x, src_key_padding_mask=padding)
    assert len(calls) == 4
    assert torch.equal(plain, watched)
    [weights] = maps["layers.0.self_attn"]
    assert weights.shape == (B, H, S, S)
    assert torch.equal(weights[1, :, :, 4:], torch.zeros(H, S, 3))
    with watch_attention(model) as slow:  # gradients lead around the fast path
        model(x, src_key_padding_mask=padding)
    # padded queries are another row there: only the real ones are the same; float32 in another order
    torch.testing.assert_close(weights[0], slow["layers.0.self_attn"][0][0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights[1, :, :4], slow["layers.0.self_attn"][0][1, :, :4], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"batch_first": True},
        {"kdim": 13, "vdim": 11},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
    ],
    ids=str,
)
def test_weights_of_multihead_attention_are_those_torch_itself_reports(options: dict[str, object]) -> None:
    attention = nn.MultiheadAttention(E, H, **options)
    query, key = torch.randn(T, B, E), torch.randn(S, B, attention.kdim)
    value = torch.randn(S, B, attention.vdim)
    if attention.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    blocked = torch.rand(B * H, T, S) < 0.3
    blocked[:, :, 0] = False
    padding = torch.zeros(B, S, dtype=torch.bool)
    padding[1, 5:] = True
    with watch_attention(attention) as maps:
        _, reported = attention(query, key, value, padding, attn_mask=blocked, average_attn_weights=False)
    # the same formula in another order of operations
    torch.testing.assert_close(maps["MultiheadAttention"][0], reported, rtol=1e-5, atol=1e-6)


def test_multihead_attention_without_a_batch_and_with_a_float_mask() -> None:
    attention = nn.MultiheadAttention(E, H)
    query, key = torch.randn(T, E), torch.randn(S, E)
    bias, padding = torch.randn(T, S), torch.randn(S)
    with watch_attention(attention) as maps:
        _, reported = attention(query, key, key, padding, attn_mask=bias, average_attn_weights=False)
    torch.testing.assert_close(maps["MultiheadAttention"][0][0], reported, rtol=1e-5, atol=1e-6)


def test_a_query_that_may_see_nothing_has_a_row_of_zeros() -> None:
    attention = nn.MultiheadAttention(E, H, batch_first=True)
    x = torch.randn(1, S, E)
    with watch_attention(attention) as maps:
        attention(x, x, x, torch.ones(1, S, dtype=torch.bool))
    assert torch.equal(maps["MultiheadAttention"][0], torch.zeros(1, H, S, S))


def test_attention_written_by_hand_is_overheard() -> None:
    model = nn.Sequential(ByHand(), ByHand())
    x = torch.randn(B, S, E)
    plain = model(x)
    with watch_attention(model, kinds={"1": "cross"}) as maps:
        watched = model(x)
    assert torch.equal(plain, watched)
    assert maps.names() == ["0", "1"]
    assert maps.names("cross") == ["1"]
    assert maps.kind("0") == "self"
    assert maps["0"][0].shape == (B, H, S, S)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"is_causal": True},
        {"scale": 0.7},
        {"attn_mask": torch.arange(S)[None] < 5},
        {"attn_mask": torch.linspace(-2, 2, S)[None]},
    ],
    ids=["plain", "causal", "scale", "boolean mask", "float mask"],
)
def test_overheard_weights_give_the_output_of_the_fused_kernel(arguments: dict[str, object]) -> None:
    model = Fused(**arguments)
    q, k = torch.randn(B, H, T, 6), torch.randn(B, H, S, 6)
    with watch_attention(model) as maps:
        out = model(q, k)
    # float32 sums of seven terms in another order
    torch.testing.assert_close(maps["Fused"][0] @ k, out, rtol=1e-5, atol=1e-6)


def test_grouped_queries_share_their_keys() -> None:
    model = Fused(enable_gqa=True)
    q, k = torch.randn(B, 6, T, 4), torch.randn(B, 2, S, 4)
    with watch_attention(model) as maps:
        out = model(q, k)
    torch.testing.assert_close(maps["Fused"][0] @ k.repeat_interleave(3, dim=1), out, rtol=1e-5, atol=1e-6)


def test_weights_are_told_before_dropout_and_the_generator_is_not_touched() -> None:
    model = Fused(dropout_p=0.5)
    q = torch.randn(B, H, S, 6)
    torch.manual_seed(1)
    plain = model(q, q)
    torch.manual_seed(1)
    with watch_attention(model) as maps:
        watched = model(q, q)
    assert torch.equal(plain, watched)
    torch.testing.assert_close(maps["Fused"][0].sum(-1), torch.ones(B, H, S))


def test_half_precision_is_told_in_float32() -> None:
    with watch_attention(model := Fused()) as maps:
        model(torch.randn(B, H, T, 6, dtype=torch.bfloat16), torch.randn(B, H, S, 6, dtype=torch.bfloat16))
    assert maps["Fused"][0].dtype == torch.float32


def test_gradients_flow_as_before() -> None:
    model = torch_transformer(dropout=0.0)
    source, target = torch.randn(B, S, E), torch.randn(B, T, E)
    model(source, target).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with watch_attention(model):
        model(source, target).sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(plain, model.parameters(), strict=True))


@pytest.mark.parametrize("fused", ["sdpa", "eager"])
def test_hugging_face_marian_while_called_and_while_generating(fused: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(
        vocab_size=37, d_model=E, encoder_layers=1, decoder_layers=2, encoder_attention_heads=H,
        decoder_attention_heads=H, encoder_ffn_dim=19, decoder_ffn_dim=19, max_position_embeddings=23,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0, dropout=0.0,
    )  # fmt: skip
    model = transformers.MarianMTModel._from_config(config, attn_implementation=fused).eval()
    inputs = {"input_ids": torch.randint(4, 37, (B, S)), "attention_mask": torch.ones(B, S, dtype=torch.long)}
    inputs["attention_mask"][1, 5:] = 0
    target = torch.randint(4, 37, (B, T))
    with torch.no_grad():
        plain = model(**inputs, decoder_input_ids=target).logits
        with watch_attention(model) as maps:
            watched = model(**inputs, decoder_input_ids=target).logits
    assert torch.equal(plain, watched)
    assert maps.names("encoder") == ["model.encoder.layers.0.self_attn"]
    assert maps.layers("cross").shape == (2, H, T, S)
    assert maps.layers("decoder", row=1).shape == (2, H, T, T)
    cross = maps["model.decoder.layers.1.encoder_attn"][0]
    assert torch.equal(cross[1, :, :, 5:], torch.zeros(H, T, 2))

    reference = transformers.MarianMTModel._from_config(config, attn_implementation="eager").eval()
    reference.load_state_dict(model.state_dict())
    reported = reference(**inputs, decoder_input_ids=target, output_attentions=True).cross_attentions[1]
    torch.testing.assert_close(cross, reported, rtol=1e-5, atol=1e-6)

    with watch_attention(model) as maps:
        model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, num_beams=1, do_sample=False)
    assert len(maps["model.decoder.layers.0.encoder_attn"]) == 4
    assert maps.layers("cross").shape == (2, H, 4, S)
    own = maps.layers("decoder")
    assert own.shape == (2, H, 4, 4)
    assert torch.equal(own.triu(1), torch.zeros_like(own))


@pytest.mark.parametrize("fused", ["sdpa", "eager"])
def test_hugging_face_t5_whose_attention_also_returns_its_position_bias(fused: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=37, d_model=E, d_kv=5, d_ff=19, num_layers=1, num_heads=H, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration._from_config(config, attn_implementation=fused).eval()
    with watch_attention(model) as maps, torch.no_grad():
        model(input_ids=torch.randint(4, 37, (B, S)), decoder_input_ids=torch.randint(4, 37, (B, T)))
    assert {name.split(".")[-1]: maps.kind(name) for name in maps} == {
        "SelfAttention": "decoder",
        "EncDecAttention": "cross",
    }
    for name in maps:
        [weights] = maps[name]
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_without_attention_the_caller_is_told() -> None:
    with (
        pytest.raises(InputError, match="no attention was heard from Linear: it was not called"),
        watch_attention(model := nn.Linear(3, 5)),
    ):
        model(torch.randn(2, 3))


def test_an_exception_in_the_model_passes_and_leaves_nothing_behind() -> None:
    model = nn.Sequential(ByHand(), nn.Linear(E + 1, 3))
    with pytest.raises(RuntimeError, match="shapes"), watch_attention(model):
        model(torch.randn(B, S, E))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert len(torch.overrides._get_current_function_mode_stack()) == 0


def test_unknown_names_and_kinds_get_the_nearest_one() -> None:
    with watch_attention(model := nn.Sequential(ByHand())) as maps:
        with pytest.raises(InputError, match="no attention was heard"):
            maps["0"]
        model(torch.randn(B, S, E))
        with pytest.raises(InputError, match="no attention named '00' was heard"):
            maps["00"]
        with pytest.raises(InputError, match=r"no attention of kind 'cross' was heard; heard: 0 \(self\)"):
            maps.layers("cross")
    with (
        pytest.raises(InputError, match="unknown kind of attention 'corss'; did you mean 'cross'"),
        watch_attention(model, kinds={"*": "corss"}),
    ):
        pass


def test_stacked_rows_grow_with_the_cache_and_refuse_another_batch() -> None:
    maps = AttentionMaps("Model")
    maps.hear("decoder.self", torch.ones(1, 1, 1, 1))
    maps.hear("decoder.self", torch.tensor([[[[0.25, 0.75]]]]))
    assert maps.stacked("decoder.self").tolist() == [[[[1.0, 0.0], [0.25, 0.75]]]]
    maps.hear("decoder.self", torch.ones(2, 1, 1, 3))
    with pytest.raises(InputError, match=r"the batch of 'decoder\.self' changed"):
        maps.stacked("decoder.self")
    maps.clear()
    assert len(maps) == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("encoder.layers.0.self_attention", "encoder"),
        ("decoder.layers.0.self_attention", "decoder"),
        ("decoder.layers.0.cross_attention", "cross"),
        ("model.decoder.layers.3.encoder_attn", "cross"),
        ("decoder.block.1.layer.1.EncDecAttention", "cross"),
        ("decoder.layers.2.multihead_attn", "cross"),
        ("bert.encoder.layer.0.crossattention.self", "cross"),
        ("transformer.h.0.attn", "self"),
    ],
)
def test_the_kind_is_read_from_the_path(path: str, kind: str) -> None:
    assert kind_from_path(path) == kind
