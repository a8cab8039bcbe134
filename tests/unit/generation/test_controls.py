"""Controls change what they must and nothing else; min and max lengths hold beside them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.generation import (
    Bias,
    ForcedPrefix,
    Hypothesis,
    NoRepeat,
    RepetitionPenalty,
    SearchOptions,
    Suppress,
    beam_search,
    generate,
    generate_all,
)
from regard.generation.controls import Control, asked_by, controlled
from regard.generation.prefixes import Prefixes
from regard.protocols import EOS
from unit.generation.toys import History, TableDecoder, every_sentence, forced, padded, random_sources

SOURCES = random_sources(17, seed=11)
OPTIONS = SearchOptions(beam=4, nbest=4, max_length=7)
DECODER = TableDecoder(vocab=11, end_bias=-1.0)


def found_with(*controls: Control, options: SearchOptions = OPTIONS) -> list[list[Hypothesis]]:
    return beam_search(DECODER, *padded(SOURCES), options, controls=controls)


def check_scores(found: list[list[Hypothesis]], *, adjusted: bool = False) -> None:
    """Reported log-probabilities are the model's own, whatever the control did."""
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            targets = [*hypothesis.ids, EOS] if hypothesis.finished else [*hypothesis.ids]
            assert hypothesis.log_prob == pytest.approx(math.fsum(forced(DECODER, source, targets)), abs=1e-5)
            assert adjusted or hypothesis.adjustment == 0.0


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(("fewest", "most"), [(0, 7), (5, 5), (3, 4)])
def test_a_forced_prefix_begins_the_output_and_counts_as_its_words(beam: int, fewest: int, most: int) -> None:
    options = SearchOptions(beam=beam, nbest=beam, min_length=fewest, max_length=most)
    found = found_with(ForcedPrefix({0: (7, 9, 4), 5: (10,)}), options=options)
    check_scores(found)
    assert all(hypothesis.ids[:3] == (7, 9, 4) for hypothesis in found[0])
    assert all(hypothesis.ids[:1] == (10,) for hypothesis in found[5])
    assert all(fewest <= len(hypothesis.ids) <= most for hypotheses in found for hypothesis in hypotheses)
    free = generate(DECODER, *padded(SOURCES), options)
    assert [found[i] for i in range(17) if i not in (0, 5)] == [free[i] for i in range(17) if i not in (0, 5)]


def test_a_forced_prefix_is_followed_by_the_best_rest() -> None:
    """Exhaustive: of all sentences that begin with the prefix, the best."""
    decoder = TableDecoder()
    source = (5, EOS)
    options = SearchOptions(beam=500, max_length=3, score="sum")
    prefix = ForcedPrefix({0: (6,)})
    ((best,),) = beam_search(decoder, torch.tensor([source]), None, options, controls=[prefix])
    sums = {ids: math.fsum(parts) for ids, parts in every_sentence(decoder, source, 3).items() if ids[:1] == (6,)}
    assert best.ids == max(sums, key=lambda ids: sums[ids])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_nothing_repeats(size: int) -> None:
    decoder = TableDecoder(vocab=6, end_bias=-5.0)  # three words, and it likes to go on
    options = SearchOptions(beam=3, nbest=3, max_length=11)

    def repeats(found: list[list[Hypothesis]]) -> bool:
        grams = [[h.ids[i : i + size] for i in range(len(h.ids) - size + 1)] for hs in found for h in hs]
        return any(len(set(of_one)) < len(of_one) for of_one in grams)

    assert repeats(beam_search(decoder, *padded(SOURCES), options))
    assert not repeats(beam_search(decoder, *padded(SOURCES), options, controls=[NoRepeat(size)]))


def test_suppressed_words_do_not_occur() -> None:
    found = found_with(Suppress([4, 7]))
    check_scores(found)
    assert not any({4, 7} & {*h.ids} for hypotheses in found for h in hypotheses)


def one_row(*ids: int) -> Prefixes:
    return (
        Prefixes.beginnings(np.arange(1), np.array([97])).extended(np.array([ids[0]]), np.zeros(1), np.zeros(1))
        if len(ids) == 1
        else one_row(*ids[:-1]).extended(np.array([ids[-1]]), np.zeros(1), np.zeros(1))
    )


def test_penalty_and_bias_by_hand() -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]])
    scores = controlled(log_probs, [RepetitionPenalty(1.5), Bias({5: 2.0, 3: -1.0})], one_row(4, 5, 4))
    assert scores.tolist() == [[-1.0, -2.0, -3.0, -5.0, -7.5, -7.0]]
    assert log_probs[0, 4] == -5.0


def test_a_bias_is_told_apart_from_the_log_probability() -> None:
    plain, found = found_with(), found_with(Bias({5: 3.0}))
    check_scores(found, adjusted=True)
    count = [sum(h.ids.count(5) for hypotheses in lists for h in hypotheses) for lists in (plain, found)]
    assert count[1] > 2 * count[0]
    for hypotheses in found:
        for h in hypotheses:
            assert h.adjustment == pytest.approx(3.0 * h.ids.count(5), abs=1e-5)
            assert h.score == pytest.approx((h.log_prob + h.adjustment) / ((5 + h.length) / 6) ** 0.6, abs=1e-5)


def test_search_goes_on_while_a_bias_can_still_win() -> None:
    """The empty sentence has -0.17, the first word 4 -3.67 + 3, each further one log(1/7) + 3 = 1.05, the end -1.95.

    After one word nothing looks as good as the empty sentence; four of them end at 0.54.
    """

    class Uniform(TableDecoder):
        def logits(self, state: History) -> torch.Tensor:
            logits = torch.zeros(len(state.cell), 7)
            logits[:, EOS] = 3.5 if state.num_fed == 1 else 0.0
            return logits

    options = SearchOptions(beam=97, max_length=4, score="sum")
    ((best,),) = beam_search(Uniform(), torch.tensor([[5, EOS]]), None, options, controls=[Bias({4: 3.0})])
    assert best.ids == (4, 4, 4, 4)
    assert best.score == pytest.approx(0.54, abs=0.01)


def test_sentences_keep_their_numbers_in_any_batch() -> None:
    prefix = ForcedPrefix({1000 + index: (4 + index % 7,) for index in range(17)})
    found = generate_all(
        DECODER, SOURCES, OPTIONS, controls=[prefix], sentences=[*range(1000, 1000 + len(SOURCES))], batch_tokens=60
    )
    assert [hypotheses[0].ids[0] for hypotheses in found] == [4 + index % 7 for index in range(17)]


def test_a_dead_end_is_cut() -> None:
    """Every word and the end are forbidden after the first word."""

    class DeadEnd:
        ceiling = 0.0

        def __call__(self, scores: torch.Tensor, prefixes: Prefixes) -> torch.Tensor:
            return scores - math.inf if prefixes.num_words == 1 else scores

    for hypotheses in found_with(DeadEnd(), options=SearchOptions(beam=4, nbest=4, min_length=1)):
        assert len(hypotheses) == 4
        assert all(len(h.ids) == 1 and not h.finished for h in hypotheses)


def test_nonsense_is_refused() -> None:
    for make, sentence in [
        (lambda: ForcedPrefix({3: (5, EOS)}), "forced prefix of sentence 3 must hold ids of words, but holds 3"),
        (lambda: NoRepeat(0), "at least 1"),
        (lambda: RepetitionPenalty(0.0), "above 0"),
        (lambda: RepetitionPenalty(math.nan), "above 0"),
        (lambda: Suppress([-1]), "holds -1"),
        (lambda: Bias({5: math.inf}), "from -1e"),
        (lambda: Bias({5: math.nan}), "from -1e"),
        (lambda: Bias({5: -1e308}), "from -1e"),
    ]:
        with pytest.raises(InputError, match=sentence):
            make()


@pytest.mark.parametrize(
    "control",
    [
        ForcedPrefix({0: (4, 99)}),
        Suppress((99,)),
        Bias({99: 1.0}),
    ],
)
def test_ids_that_the_model_does_not_have_are_refused_in_words(control: Control) -> None:
    with pytest.raises(InputError, match=r"must hold ids below the vocabulary's size \d+, but holds 99"):
        generate(DECODER, torch.tensor([SOURCES[0]]), None, OPTIONS, controls=[control])


def test_options_ask_for_controls_before_those_of_the_caller() -> None:
    asked = replace(OPTIONS, no_repeat=2, repetition_penalty=1.5, suppress_unknown=True)
    assert asked_by(asked) == [Suppress((1,)), NoRepeat(2), RepetitionPenalty(1.5)]
    assert asked_by(OPTIONS) == []
    by_hand = generate_all(DECODER, SOURCES, OPTIONS, controls=asked_by(asked))
    assert generate_all(DECODER, SOURCES, asked) == by_hand
    assert by_hand != generate_all(DECODER, SOURCES, OPTIONS)
