"""What is taken away is gone, the rest is as it was, and what cannot be taken away says why."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.inspection import ledger, watch_attention
from regard.models import (
    Ablated,
    ClassifierSpec,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    SequenceClassifier,
    Transformer,
    TransformerSpec,
    ablate,
    ablation_names,
    build,
    build_classifier,
)
from regard.protocols import StepDecoder

B, S, T, V_S, V_T, D, H, F, C = 2, 7, 5, 19, 23, 12, 3, 17, 2
SPEC = TransformerSpec(
    V_S, V_T, d_model=D, num_heads=H, d_ff=F, encoder_layers=2, decoder_layers=3, dropout=Dropout(0.0, 0.0, 0.0, 0.0)
)
CLASSES = ClassifierSpec(5, C, d_model=D, num_heads=H, d_ff=F, readout="attention")
SPECS = [
    SPEC,
    replace(SPEC, positions=Learned(), residual="pre", encoder_final_norm=True, decoder_final_norm=True),
    replace(SPEC, positions=Rotary(), bias=False, norm="rms"),
    replace(SPEC, positions=RelativeBias(), gated=True, tie="target"),
]


def made(spec: TransformerSpec | ClassifierSpec) -> Transformer | SequenceClassifier:
    torch.manual_seed(5)
    model = build(spec) if isinstance(spec, TransformerSpec) else build_classifier(spec)
    with torch.no_grad():  # biases and norms away from where they start, so that none of them hides a change
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def output(model: Transformer | SequenceClassifier) -> Tensor:
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        if isinstance(model, SequenceClassifier):
            return model(torch.randn(B, S, C, generator=draw))
        source = torch.randint(4, V_S, (B, S), generator=draw)
        source[1, 4:] = 0
        return model(source, torch.randint(4, V_T, (B, T), generator=draw))


@pytest.mark.parametrize("spec", [*SPECS, CLASSES], ids=["post", "pre", "rotary", "bias", "classifier"])
def test_each_changes_the_output_or_says_why_it_cannot(spec: TransformerSpec | ClassifierSpec) -> None:
    model = made(spec)
    before = output(model)
    weights = copy.deepcopy(model.state_dict())
    refused = []
    for name in ablation_names(model):
        try:
            lacking = ablate(model, name)
        except InputError as error:
            assert "cannot" in str(error), name
            refused.append(name)
            continue
        after = output(lacking.model)
        assert lacking.sentence.endswith("."), name
        assert after.shape == before.shape and after.isfinite().all(), name
        assert not torch.allclose(after, before, rtol=0, atol=1e-4), name
        total = ledger(lacking.model).total.parameters
        assert total <= ledger(model).total.parameters + 2 * 2 * D, name  # two new norms at most
        assert total < ledger(model).total.parameters or name in WITH_THE_SAME_NUMBERS or ".head:" in name, name
    assert refused == (["cross-attention"] if isinstance(spec, ClassifierSpec) else [])
    assert torch.equal(output(model), before)
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in weights.items())


WITH_THE_SAME_NUMBERS = {
    "positions",
    "residual",
    "scale",
    "focus",
    "norm-order",
    *(f"{stack}.layer:{i}.self" for stack in ("encoder", "decoder") for i in (1, 2, 3)),
}


def test_there_is_a_name_for_every_part() -> None:
    names = ablation_names(made(SPEC))
    # per encoder layer: itself, two sublayers, H heads; per decoder layer one sublayer and its heads more
    assert len(names) == 6 + 2 * (3 + H) + 3 * (4 + 2 * H)
    assert {"encoder.layer:2.self.head:3", "decoder.layer:3.cross", "decoder.layer:1.feed-forward"} <= set(names)


@pytest.mark.parametrize("spec", SPECS, ids=["post", "pre", "rotary", "bias"])
def test_what_lacks_something_still_decodes_step_by_step(spec: TransformerSpec) -> None:
    model = made(spec)
    source, target = torch.randint(4, V_S, (B, S)), torch.randint(4, V_T, (B, T))
    for name in [*ablation_names(model)[:6], "decoder.layer:1", "decoder.layer:1.self", "decoder.layer:2.feed-forward"]:
        lacking = ablate(model, name).model
        assert isinstance(lacking, StepDecoder)
        with torch.no_grad():
            whole = lacking(source, target)
            state = lacking.start(source)
            rows = []
            for t in range(T):
                step = lacking.step(target[:, t], state)
                state = lacking.reorder(step.state, torch.arange(B))
                rows.append(step.logits)
        # float32, a dozen features: one order of sums against another
        torch.testing.assert_close(torch.stack(rows, dim=1), whole, rtol=1e-4, atol=1e-4)


def test_positions_gone_make_a_bag() -> None:
    lacking = ablate(made(SPEC), "positions")
    assert lacking.sentence.startswith("No positions: the sinusoidal ones are gone")
    assert lacking.model.spec.positions == NoPositions()
    source, target = torch.randint(4, V_S, (B, S)), torch.randint(4, V_T, (B, T))
    with torch.no_grad():
        same = lacking.model(source.flip(1), target)
        torch.testing.assert_close(same, lacking.model(source, target), rtol=1e-4, atol=1e-4)


def test_without_focus_all_keys_weigh_alike() -> None:
    for spec in SPECS:
        lacking = ablate(made(spec), "focus").model
        with watch_attention(lacking) as maps:
            output(lacking)
        weights = maps["encoder.layers.1.self_attention"][0]
        torch.testing.assert_close(weights[0], torch.full((H, S, S), 1 / S))
        torch.testing.assert_close(weights[1, :, :, :4], torch.full((H, S, 4), 1 / 4))
        triangle = torch.ones(T, T).tril()
        own = maps["decoder.layers.0.self_attention"][0][0, 0]
        torch.testing.assert_close(own, triangle / triangle.sum(dim=1, keepdim=True))


def test_without_cross_attention_the_source_is_not_read() -> None:
    model = made(SPEC)
    lacking = ablate(model, "cross-attention")
    target = torch.randint(4, V_T, (B, T))
    a, b = torch.randint(4, V_S, (B, S)), torch.randint(4, V_S, (B, S + 4))
    with torch.no_grad():
        assert torch.equal(lacking.model(a, target), lacking.model(b, target))
    gone = ledger(model).total.parameters - ledger(lacking.model).total.parameters
    assert gone == 3 * (4 * D * D + 4 * D)
    assert lacking.idle == 0


def test_a_head_off_leaves_the_others_and_its_numbers_are_counted() -> None:
    model = made(SPEC)
    lacking = ablate(model, "decoder.layer:3.cross.head:2")
    assert lacking.sentence == "Head 2 of 3 in the cross-attention of layer 3 of the decoder is off."
    width = D // H
    assert lacking.idle == 4 * D * width + 3 * width
    ours, theirs = lacking.model.decoder.layers[2].cross_attention, model.decoder.layers[2].cross_attention
    kept = [i for i in range(D) if not width <= i < 2 * width]
    assert torch.equal(ours.out.weight[:, kept], theirs.out.weight[:, kept])
    assert not ours.out.weight[:, width : 2 * width].any()
    with torch.no_grad():  # no number of the head has a say: the count is right
        rows = torch.cat([torch.arange(part * D + width, part * D + 2 * width) for part in range(3)])
        spoilt = copy.deepcopy(lacking.model)
        spoilt.decoder.layers[2].cross_attention.qkv.weight[rows] = 7.0
        spoilt.decoder.layers[2].cross_attention.qkv.bias[rows] = 7.0
        assert torch.equal(output(spoilt), output(lacking.model))


def test_layers_go_and_the_spec_says_so() -> None:
    lacking: Ablated = ablate(made(SPEC), "encoder.layer:1")
    assert lacking.sentence == "Layer 1 of the encoder is dropped: 1 is left."
    assert lacking.model.spec.encoder_layers == 1
    build(lacking.model.spec).load_state_dict(lacking.model.state_dict())
    with pytest.raises(InputError, match=r"encoder\.layer:1 cannot be dropped: it is the only one"):
        ablate(lacking.model, "encoder.layer:1")


def test_the_other_order_of_norms_is_that_of_a_model_built_so() -> None:
    there = ablate(made(SPEC), "norm-order").model
    assert (there.spec.residual, there.spec.encoder_final_norm, there.spec.decoder_final_norm) == ("pre", True, True)
    fresh = build(there.spec)
    fresh.load_state_dict(there.state_dict())
    assert torch.equal(output(fresh.eval()), output(there))
    back = ablate(there, "norm-order").model
    assert back.spec == SPEC
    assert torch.equal(output(back), output(made(SPEC)))


@pytest.mark.parametrize(
    ("spec", "name", "sentence"),
    [
        (replace(SPEC, positions=NoPositions()), "positions", "positions cannot be taken away: the model has none"),
        (replace(SPEC, scale_attention=False), "scale", "not divided by √K in this model"),
        (replace(SPEC, num_heads=D), "scale", "one feature wide"),
        (CLASSES, "cross-attention", "the model has no decoder"),
        (replace(CLASSES, residual="none"), "residual", "residuals cannot be taken away: the model has none"),
        (replace(CLASSES, residual="none"), "norm-order", "the order of norms cannot change"),
        (SPEC, "cross-atention", "nothing of the model is called 'cross-atention'; did you mean 'cross-attention'?"),
        (SPEC, "xyz", "valid: positions, residual, .*, and parts such as decoder"),
        (SPEC, "decoder.layer:4.cross", "did you mean 'decoder.layer:3.cross'"),
    ],
)
def test_what_cannot_be_taken_away_says_why(spec: TransformerSpec | ClassifierSpec, name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ablate(made(spec), name)
