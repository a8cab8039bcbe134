"""The Transformer: stepping is a full forward, and nobody sees padding, the future or a batch mate.

Everything runs in float64, so that equal means equal to 1e-12: a few roundings of numbers of about one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import ShapeError
from regard.models import (
    DecoderState,
    Dropout,
    Learned,
    NoPositions,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Transformer,
    TransformerSpec,
    build,
)
from regard.nn import causal_mask, padding_mask
from regard.nn.attention import SHORT

SPEC = TransformerSpec(
    source_vocab=13,
    target_vocab=13,
    d_model=12,
    num_heads=3,
    d_ff=17,
    encoder_layers=2,
    decoder_layers=2,
    max_len=41,
    dropout=Dropout(0.0, 0.0, 0.0, 0.0),
)

POSITIONS = [
    Sinusoidal(),
    Sinusoidal("half"),
    Learned(),
    Rotary(),
    Rotary(layout="half"),
    RelativeBias(8, 20),
    NoPositions(),
]

SOURCE = torch.tensor([[7, 5, 9, 11, 3], [4, 12, 3, 0, 0], [6, 3, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[2, 8, 6, 10], [2, 5, 0, 0], [2, 7, 9, 0]])


def model_of(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    model = build(replace(SPEC, **changes)).double().eval()
    with torch.no_grad():  # away from zero biases and equal norms
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 13, (rows, length), generator=torch.Generator().manual_seed(seed))


class TestForward:
    def test_shape(self) -> None:
        assert model_of()(SOURCE, TARGET).shape == (3, 4, 13)

    def test_is_encode_decode_output(self) -> None:
        model = model_of()
        hidden = model.decode(TARGET, model.encode(SOURCE, LENGTHS), LENGTHS)
        close(model(SOURCE, TARGET), model.output(hidden))
        close(model.hidden(SOURCE, TARGET, LENGTHS), hidden)

    def test_finds_the_lengths_by_the_padding(self) -> None:
        model = model_of()
        close(model(SOURCE, TARGET), model(SOURCE, TARGET, source_lengths=LENGTHS))

    def test_lengths_that_are_left_out_below_it_mean_that_nothing_is_padded(self) -> None:
        model = model_of()
        close(model.encode(SOURCE[:1]), model.encode(SOURCE[:1], LENGTHS[:1]))
        assert not torch.allclose(model.encode(SOURCE)[1, :3], model.encode(SOURCE, LENGTHS)[1, :3])

    def test_a_source_mask_comes_on_top_of_the_padding(self) -> None:
        model = model_of()
        shorter = torch.tensor([4, 2, 1])
        close(
            model(SOURCE, TARGET, source_mask=padding_mask(shorter, 5)),
            model(SOURCE, TARGET, source_lengths=shorter),
        )

    def test_a_target_mask_comes_on_top_of_causality(self) -> None:
        model = model_of()
        close(model(SOURCE, TARGET, target_mask=causal_mask(4, 4)), model(SOURCE, TARGET))
        close(model(SOURCE, TARGET, target_mask=torch.ones(4, 4).bool()), model(SOURCE, TARGET))
        # a position that may see itself alone hears nothing of its past but where it stands
        changed = TARGET.clone()
        changed[:, 0] = 3
        before, after = (model(SOURCE, each, target_mask=torch.eye(4).bool()) for each in (TARGET, changed))
        assert torch.equal(before[:, 1:], after[:, 1:])
        assert not torch.allclose(before[:, 0], after[:, 0])

    def test_every_parameter_gets_a_finite_gradient(self) -> None:
        for positions in POSITIONS:
            model = model_of(positions=positions)
            model(SOURCE, TARGET).square().sum().backward()
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None, name
                assert parameter.grad.isfinite().all(), name
                assert parameter.grad.ne(0).any(), name

    def test_a_source_without_tokens_gives_finite_logits_and_gradients(self) -> None:
        model = model_of()
        source = SOURCE.clone()
        source[1] = 0
        logits = model(source, TARGET)
        close(logits[[0, 2]], model(SOURCE, TARGET)[[0, 2]])
        logits.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())

    def test_dropout_only_while_training(self) -> None:
        model = model_of(dropout=Dropout())
        assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
        model.train()
        assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))

    def test_no_table_is_saved(self) -> None:
        names = {name for positions in POSITIONS for name in model_of(positions=positions).state_dict()}
        assert not [name for name in names if name.endswith((".table", ".cos", ".sin"))]


class TestRefusals:
    @pytest.mark.parametrize(("padded", "what"), [(SOURCE.flip(1), "source"), (TARGET.flip(1), "target")])
    def test_left_padding(self, padded: Tensor, what: str) -> None:
        inputs = {"source": SOURCE, "target": TARGET, what: padded}
        with pytest.raises(ShapeError, match=f"{what} must be padded on the right, but row 1 has padding"):
            model_of()(**inputs)

    @pytest.mark.usefixtures("unchecked")
    def test_rows_without_partner(self) -> None:
        with pytest.raises(ShapeError, match="source and target must have as many rows, but have 3 and 2"):
            model_of()(SOURCE, TARGET[:2])

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize("name", ["source_mask", "target_mask"])
    def test_masks_that_are_not_boolean(self, name: str) -> None:
        with pytest.raises(ShapeError, match="must be boolean with True = may attend"):
            model_of()(SOURCE[:, :4], TARGET, **{name: torch.ones(4, 4)})

    @pytest.mark.parametrize("positions", [Sinusoidal(), Learned(), Rotary()])
    def test_longer_than_the_positions(self, positions: Any) -> None:
        model = model_of(positions=positions)
        with pytest.raises(ShapeError, match=r"a sequence of 42 tokens does not fit .* max_len = 41"):
            model(ids(2, 42), ids(2, 3))
        with pytest.raises(ShapeError, match=r"a sequence of 42 tokens does not fit .* max_len = 41"):
            model(ids(2, 3), ids(2, 42))


class TestInvariance:
    @pytest.mark.parametrize("positions", POSITIONS)
    @pytest.mark.parametrize("width", [1, 4, 33])
    def test_wider_padding_changes_nothing(self, positions: Any, width: int) -> None:
        model = model_of(positions=positions)
        wide = torch.nn.functional.pad(SOURCE, (0, width)), torch.nn.functional.pad(TARGET, (0, width))
        close(model(*wide)[:, :4], model(SOURCE, TARGET))

    @pytest.mark.parametrize("positions", POSITIONS)
    def test_batch_mates_change_nothing(self, positions: Any) -> None:
        model = model_of(positions=positions)
        together = model(SOURCE, TARGET)
        for row, (source_length, target_length) in enumerate([(5, 4), (3, 2), (2, 3)]):
            alone = model(SOURCE[row, None, :source_length], TARGET[row, None, :target_length])
            close(together[row, None, :target_length], alone)
        close(model(SOURCE.flip(0), TARGET.flip(0)).flip(0), together)

    @pytest.mark.parametrize("positions", POSITIONS)
    def test_later_target_tokens_change_nothing_before_them(self, positions: Any) -> None:
        model, source, target = model_of(positions=positions), ids(2, 7), ids(2, 37)
        changed = target.clone()
        changed[:, 5:] = 1 + changed[:, 5:] % 12
        before, after = model(source, target), model(source, changed)
        assert torch.equal(before[:, :5], after[:, :5])
        assert not torch.allclose(before[:, 5:], after[:, 5:])

    def test_the_source_is_read(self) -> None:
        model, changed = model_of(), SOURCE.clone()
        changed[0, 2] = 1
        before, after = model(SOURCE, TARGET), model(changed, TARGET)
        assert not torch.allclose(before[0], after[0])
        assert torch.equal(before[1:], after[1:])

    @pytest.mark.parametrize("positions", POSITIONS[:-1])
    def test_order_matters(self, positions: Any) -> None:
        model = model_of(positions=positions)
        assert not torch.allclose(model(SOURCE[:1].flip(1), TARGET[:1]), model(SOURCE[:1], TARGET[:1]))

    def test_without_positions_the_source_is_a_bag(self) -> None:
        model = model_of(positions=NoPositions())
        close(model(SOURCE[:1].flip(1), TARGET[:1]), model(SOURCE[:1], TARGET[:1]))


@pytest.mark.usefixtures("unchecked")
class TestStepping:
    @pytest.mark.parametrize("positions", POSITIONS)
    @pytest.mark.parametrize(("residual", "norm"), [("post", "layer"), ("pre", "rms")])
    @pytest.mark.parametrize("tie", ["none", "target", "all"])
    def test_chunks_are_a_full_forward(self, positions: Any, residual: str, norm: str, tie: str) -> None:
        model = model_of(positions=positions, residual=residual, norm=norm, tie=tie)
        for chunk in (1, 3, 7):
            self.check(model, ids(3, 11), chunk)

    @pytest.mark.parametrize("positions", POSITIONS)
    def test_chunks_cross_the_border_between_plain_and_fused_attention(self, positions: Any) -> None:
        self.check(model_of(positions=positions), ids(3, SHORT + 5), 3)

    @staticmethod
    @torch.no_grad()
    def check(model: Transformer, target: Tensor, chunk: int) -> None:
        state, parts = model.start(SOURCE, LENGTHS), []
        for tokens in target.split(chunk, dim=1):
            hidden, state = model.step_hidden(tokens, state)
            parts.append(hidden)
        close(torch.cat(parts, dim=1), model.hidden(SOURCE, target, LENGTHS))

    def test_a_step_gives_the_logits_of_the_next_token(self) -> None:
        model, target = model_of(), ids(3, 5)
        full, state = model(SOURCE, target), model.start(SOURCE, LENGTHS)
        for place in range(5):
            assert state.length == place
            step = model.step(target[:, place], state)
            close(step.logits, full[:, place])
            assert step.attention is None
            state = step.state

    def test_lengths_that_are_left_out_mean_that_nothing_is_padded(self) -> None:
        model, target = model_of(), ids(3, 1)
        step = model.step(target[:, 0], model.start(SOURCE))
        close(step.logits, model(SOURCE, target, source_lengths=torch.tensor([5, 5, 5]))[:, 0])

    def test_a_step_past_the_last_position_is_refused(self) -> None:
        model = model_of()
        _, state = model.step_hidden(ids(3, 41), model.start(SOURCE, LENGTHS))
        with pytest.raises(ShapeError, match="a sequence of 42 tokens"):
            model.step(torch.ones(3, dtype=torch.long), state)


def decode(model: Transformer, state: DecoderState, target: Tensor) -> Tensor:
    return torch.stack([model.step(tokens, state).logits for tokens in target.unbind(1)], dim=1)


@pytest.mark.usefixtures("unchecked")
class TestReorder:
    @pytest.mark.parametrize("positions", POSITIONS)
    @pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 2, 2], [2], [0, 2]])
    def test_row_i_goes_on_as_row_rows_i(self, positions: Any, rows: list[int]) -> None:
        model = model_of(positions=positions)
        start, rest = ids(3, 5), ids(len(rows), 4, seed=1)
        state = model.start(SOURCE, LENGTHS)
        decode(model, state, start)
        state = model.reorder(state, torch.tensor(rows))
        full = model(SOURCE[rows], torch.cat([start[rows], rest], dim=1))
        close(decode(model, state, rest), full[:, 5:])

    def test_beams_within_a_sentence_share_what_they_read(self) -> None:
        model = model_of()
        state = model.reorder(model.start(SOURCE, LENGTHS), torch.tensor([0, 0, 1, 1, 2, 2]))
        start, rest, rows = ids(6, 3), ids(6, 2, seed=1), [1, 0, 3, 3, 4, 4]
        decode(model, state, start)
        again = model.reorder(state, torch.tensor(rows))
        assert again.memory is state.memory
        full = model(SOURCE[[0, 0, 1, 1, 2, 2]], torch.cat([start[rows], rest], dim=1))
        close(decode(model, again, rest), full[:, 3:])

    def test_rows_of_one_source_hold_it_once_and_who_listens_hears_every_row(self) -> None:
        model, rows = model_of(), [1, 1, 0, 2, 1]
        state = model.reorder(model.start(SOURCE, LENGTHS), torch.tensor(rows))
        assert state.memory[0].keys.size(0) == 3
        target, heard = ids(5, 2), []
        stop = model.decoder.layers[-1].cross_attention.listen(heard.append)
        model.step_hidden(target, state)
        model(SOURCE[rows], target)
        stop()
        close(heard[0], heard[1])

    def test_nobody_stays(self) -> None:
        model = model_of()
        state = model.reorder(model.start(SOURCE, LENGTHS), torch.tensor([], dtype=torch.long))
        assert decode(model, state, ids(0, 2)).size(0) == 0

    def test_sentences_leave(self) -> None:
        model = model_of()
        state = model.start(SOURCE, LENGTHS)
        for rows in ([0, 2], [1]):
            state = model.reorder(state, torch.tensor(rows))
        target = ids(1, 3)
        close(decode(model, state, target), model(SOURCE[2:], target))

    def test_without_lengths(self) -> None:
        model, source, target = model_of(), ids(3, 5), ids(2, 3)
        state = model.reorder(model.start(source), torch.tensor([2, 1]))
        close(decode(model, state, target), model(source[[2, 1]], target))


@pytest.mark.usefixtures("unchecked")
class TestFork:
    def test_both_go_their_own_way(self) -> None:
        model, start, left, right = model_of(), ids(3, 3), ids(3, 2, seed=1), ids(3, 4, seed=2)
        state = model.start(SOURCE, LENGTHS)
        decode(model, state, start)
        other = state.fork()
        close(decode(model, state, left), model(SOURCE, torch.cat([start, left], 1))[:, 3:])
        close(decode(model, other, right), model(SOURCE, torch.cat([start, right], 1))[:, 3:])


@pytest.mark.usefixtures("unchecked")
class TestRowsOfTheirOwnLength:
    @pytest.mark.parametrize("positions", POSITIONS)
    def test_go_on_where_each_prefix_ended(self, positions: Any) -> None:
        model, rest = model_of(positions=positions), ids(3, 3)
        prefixes, ends = TARGET, torch.tensor([4, 2, 3])
        state = model.start(SOURCE, LENGTHS)
        model.step_hidden(prefixes, state)
        for cache in state.caches:
            cache.length = ends
        logits = decode(model, state, rest)
        for row, end in enumerate(ends.tolist()):
            target = torch.cat([prefixes[row, :end], rest[row]])[None]
            close(logits[row, None], model(SOURCE[row, None], target)[:, end:])

    def test_stay_apart_when_reordered(self) -> None:
        model, rest = model_of(), ids(2, 3)
        state = model.start(SOURCE, LENGTHS)
        model.step_hidden(TARGET, state)
        for cache in state.caches:
            cache.length = torch.tensor([4, 2, 3])
        state = model.reorder(state, torch.tensor([2, 1]))
        logits = decode(model, state, rest)
        for row, (old, end) in enumerate([(2, 3), (1, 2)]):
            target = torch.cat([TARGET[old, :end], rest[row]])[None]
            close(logits[row, None], model(SOURCE[old, None], target)[:, end:])


class TestStateIsOwned:
    @pytest.mark.parametrize("act", [Transformer.start, Transformer.encode])
    def test_nothing_is_left_on_the_module(self, act: Callable[..., Any]) -> None:
        model = model_of()
        before = {name: dict(module.__dict__) for name, module in model.named_modules()}
        act(model, SOURCE, LENGTHS)
        assert all(module.__dict__.keys() == before[name].keys() for name, module in model.named_modules())
        first, second = model.start(SOURCE, LENGTHS), model.start(SOURCE, LENGTHS)
        token = torch.full((3,), 2)
        close(model.step(token, first).logits, model.step(token, second).logits)


def test_a_model_laid_out_for_steps_is_the_same_model() -> None:
    model, laid_out = model_of(tie="all"), model_of(tie="all").lay_out_for_steps()
    assert laid_out.output.weight.stride() == (1, 13)
    assert laid_out.decoder.layers[0].self_attention.qkv.weight.stride() == (1, 36)
    assert laid_out.decoder.layers[0].self_attention.out.weight.stride() == (12, 1)
    assert laid_out.encoder.layers[0].self_attention.qkv.weight.stride() == (12, 1)
    assert laid_out.output.weight is laid_out.target_embedding.vectors.table.weight
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), laid_out.parameters(), strict=True))
    close(laid_out(SOURCE, TARGET), model(SOURCE, TARGET))


def test_a_search_reads_keys_and_values_of_the_source_in_one_piece() -> None:
    state = model_of().start(SOURCE, LENGTHS)
    assert all(layer.keys.is_contiguous() and layer.values.is_contiguous() for layer in state.memory)
