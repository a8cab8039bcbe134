"""Ensembles and forced scoring."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.errors import DataError, InputError, ShapeError
from regard.generation import Ensemble, SearchOptions, beam_search, force, generate, score_at_once
from regard.protocols import BOS, EOS, Step
from unit.generation.toys import History, TableDecoder, forced, padded, random_sources

FIRST, SECOND = TableDecoder(vocab=11, seed=1), TableDecoder(vocab=11, seed=2)
SOURCES = random_sources(13, seed=4)


def step_of(decoder: TableDecoder | Ensemble) -> Tensor:
    source, lengths = padded(SOURCES)
    return decoder.step(torch.full((13,), BOS), decoder.start(source, lengths)).logits.log_softmax(-1)  # type: ignore[arg-type]


def test_averages_by_their_formulas() -> None:
    first, second = step_of(FIRST).double(), step_of(SECOND).double()
    linear = step_of(Ensemble([FIRST, SECOND], [3.0, 1.0], "linear"))
    log = step_of(Ensemble([FIRST, SECOND], [3.0, 1.0], "log"))
    # float32 against float64
    assert torch.allclose(linear.exp().double(), 0.75 * first.exp() + 0.25 * second.exp(), atol=1e-6)
    product = first.exp() ** 0.75 * second.exp() ** 0.25
    assert torch.allclose(log.exp().double(), product / product.sum(-1, keepdim=True), atol=1e-6)


@pytest.mark.parametrize("average", ["log", "linear"])
def test_an_ensemble_of_one_model_is_the_model(average: str) -> None:
    options = SearchOptions(beam=3, nbest=3, max_length=7)
    twice = beam_search(Ensemble([FIRST, FIRST], average=average), *padded(SOURCES), options)  # type: ignore[arg-type]
    for ours, theirs in zip(twice, beam_search(FIRST, *padded(SOURCES), options), strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_ensembles_are_searched_and_scored_like_models() -> None:
    both = Ensemble([FIRST, SECOND], [0.3, 0.7], "linear")
    options = SearchOptions(beam=3, max_length=7)
    found = [hypotheses[0] for hypotheses in generate(both, *padded(SOURCES), options)]
    source, lengths = padded(SOURCES)
    again = force(both, source, [h.ids for h in found], lengths, options, finished=[h.finished for h in found])
    assert [h.score for h in found] == pytest.approx([scored.hypothesis.score for scored in again], abs=1e-5)


def test_ensembles_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="at least one model"):
        Ensemble([])
    with pytest.raises(InputError, match="has 2 weights for 1 model"):
        Ensemble([FIRST], [1.0, 1.0])
    with pytest.raises(InputError, match="above 0"):
        Ensemble([FIRST, SECOND], [1.0, 0.0])
    with pytest.raises(ShapeError, match=r"\[11, 7\]"):
        step_of(Ensemble([FIRST, TableDecoder(vocab=7)]))


class Looking(TableDecoder):
    """Looks at source position t as it predicts word t, and at the last one when there are no more."""

    def step(self, tokens: Tensor, state: History) -> Step:
        step = super().step(tokens, state)
        attention = torch.zeros(len(tokens), 5)
        attention[:, min(state.num_fed, 4)] = 1.0
        return Step(step.logits, step.state, attention)


@pytest.mark.parametrize("beam", [1, 5])
def test_force_reproduces_what_search_reports(beam: int) -> None:
    options = SearchOptions(beam=beam, max_length=7, score="average", length_penalty=1.0)
    source, lengths = padded(SOURCES)
    for (best,), scored in zip(
        found := generate(FIRST, source, lengths, options),
        force(FIRST, source, [h.ids for (h,) in found], lengths, options, finished=[h.finished for (h,) in found]),
        strict=True,
    ):
        assert scored.hypothesis.ids == best.ids
        assert scored.hypothesis.token_log_probs == pytest.approx(best.token_log_probs, abs=1e-5)
        assert scored.hypothesis.score == pytest.approx(best.score, abs=1e-5)
        assert scored.attention is None


def test_force_by_hand_alone_and_in_a_batch() -> None:
    targets = [[4, 5, 6], [], [7], [8, 9, 10, 4, 5]]
    source, lengths = padded(SOURCES[:4])
    for number, scored in enumerate(force(FIRST, source, targets, lengths)):
        expected = forced(FIRST, SOURCES[number], [*targets[number], EOS])
        assert scored.hypothesis.token_log_probs == pytest.approx(expected, abs=1e-5)
        assert scored.hypothesis.finished
    (cut,) = force(FIRST, torch.tensor([SOURCES[0]]), [[4, 5, 6]], finished=[False])
    assert cut.hypothesis.token_log_probs == pytest.approx(forced(FIRST, SOURCES[0], [4, 5, 6]), abs=1e-5)


def test_attention_is_cut_to_the_words_of_both_sides() -> None:
    source = torch.tensor([[5, 6, 7, 8, EOS], [5, 6, EOS, 0, 0]])
    first, second = force(Looking(vocab=11), source, [[4, 5, 6, 7, 8, 9], [4]], torch.tensor([5, 3]))
    assert first.attention is not None and second.attention is not None
    assert first.attention.argmax(-1).tolist() == [0, 1, 2, 3, 4, 4, 4]
    assert second.attention.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_scoring_at_once_is_scoring_by_steps() -> None:
    def logits(source: Tensor, target_in: Tensor, source_lengths: Tensor | None, target_lengths: Tensor) -> Tensor:
        assert target_lengths.tolist() == [4, 1, 2, 6]
        state, rows = FIRST.start(source, source_lengths), []
        for t in range(target_in.shape[1]):
            step = FIRST.step(target_in[:, t], state)
            state = step.state
            rows.append(step.logits)
        return torch.stack(rows, dim=1)

    targets = [[4, 5, 6], [], [7], [8, 9, 10, 4, 5]]
    source, lengths = padded(SOURCES[:4])
    at_once = score_at_once(logits, source, targets, lengths)
    assert at_once == [scored.hypothesis for scored in force(FIRST, source, targets, lengths)]


def test_nothing_to_score_and_too_little() -> None:
    nothing = torch.zeros(0, 3, dtype=torch.int64)
    assert force(FIRST, nothing, []) == []
    assert score_at_once(lambda *_: nothing, nothing, []) == []
    with pytest.raises(DataError, match="1 source and 2 targets"):
        force(FIRST, torch.tensor([[5, EOS]]), [[4], [5]])


def test_coverage_penalty_by_its_formula() -> None:
    """5 source tokens, each seen once in turn: a sentence of n steps leaves 5 - n of them with (nearly) nothing."""
    decoder, source = Looking(vocab=11, end_bias=1.0), torch.tensor([[5, 6, 7, 8, EOS], [5, 6, EOS, 0, 0]])
    options = SearchOptions(beam=4, nbest=4, coverage_penalty=0.2, max_length=7)
    for length, hypotheses in zip((5, 3), beam_search(decoder, source, torch.tensor([5, 3]), options), strict=True):
        for h in hypotheses:
            unseen = max(0, length - h.length)
            expected = h.log_prob / ((5 + h.length) / 6) ** 0.6 + 0.2 * unseen * math.log(1e-9)
            assert h.score == pytest.approx(expected, abs=1e-5)
    assert all(h.length >= 5 for h in beam_search(decoder, source[:1], None, options)[0][:1])
    with pytest.raises(InputError, match="coverage_penalty"):
        beam_search(FIRST, source, torch.tensor([5, 3]), options)
