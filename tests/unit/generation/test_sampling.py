"""Samples follow the distribution they say, whatever the batch."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

from regard.errors import RecipeError
from regard.generation import (
    Hypothesis,
    SamplingOptions,
    SearchOptions,
    Suppress,
    generate_all,
    greedy_search,
    least_risk,
    sample,
)
from regard.generation.prefixes import Prefixes
from regard.generation.sampling import MinP, Temperature, TopK, TopP, draw, filters
from regard.protocols import EOS
from unit.generation.toys import TableDecoder, every_sentence, forced, padded, random_sources

NOBODY = Prefixes.beginnings(np.arange(1), np.array([97]))
PROBABILITIES = torch.tensor([[0.05, 0.4, 0.25, 0.1, 0.2]])


def kept(control: TopK | TopP | MinP, probabilities: torch.Tensor = PROBABILITIES) -> list[int]:
    scores = control(probabilities.log(), NOBODY)
    words = (scores[0] > -math.inf).nonzero()[:, 0].tolist()
    assert torch.equal(scores[0, words], probabilities.log()[0, words])
    return words


def test_filters_by_hand() -> None:
    assert kept(TopK(2)) == [1, 2]
    assert kept(TopK(99)) == [0, 1, 2, 3, 4]
    assert kept(TopP(0.39)) == [1]
    assert kept(TopP(0.41)) == [1, 2]  # the word that crosses is kept
    assert kept(TopP(0.66)) == [1, 2, 4]
    assert kept(MinP(0.5)) == [1, 2, 4]
    assert kept(MinP(0.51)) == [1, 2]
    assert kept(MinP(1.0)) == [1]
    assert Temperature(0.5)(PROBABILITIES.log(), NOBODY).softmax(-1)[0, 1] == pytest.approx(0.16 / 0.275, abs=1e-6)


def test_a_threshold_that_is_hit_exactly_is_reached() -> None:
    """Probabilities are whole twentieths: the first k words have the mass, and the k-th its share, but for rounding."""
    for twentieths in itertools.combinations_with_replacement(range(1, 20), 4):
        if sum(twentieths) != 20:
            continue
        probabilities = torch.tensor([[number / 20 for number in reversed(twentieths)]])
        for count in (1, 2, 3):
            mass = sum(twentieths[-count:]) / 20
            assert kept(TopP(mass), probabilities.log().softmax(-1)) == [*range(count)]
            share = twentieths[-count] / twentieths[-1]
            assert kept(MinP(share), probabilities)[:count] == [*range(count)]


@pytest.mark.parametrize("mass", [1e-30, 1e-8, 1e-3, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_nucleus_always_keeps_the_best_word(mass: float, dtype: torch.dtype) -> None:
    logits = torch.randn(31, 1009, generator=torch.Generator().manual_seed(3)).to(dtype)
    scores = TopP(mass)(logits.float().log_softmax(-1), NOBODY)
    assert torch.equal(scores.argmax(-1), logits.float().argmax(-1))
    assert torch.isfinite(scores.max(-1).values).all()
    if mass < 1e-2:
        assert ((scores > -math.inf).sum(-1) == 1).all()


def test_a_temperature_near_zero_is_still_a_distribution() -> None:
    for temperature in (1e-45, 1e-30, 1e-3):
        assert Temperature(temperature)(PROBABILITIES.log(), NOBODY).softmax(-1)[0].tolist() == [0, 1, 0, 0, 0]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("tiny", [1e-320, 5e-324])
def test_what_float32_takes_for_nothing_still_leaves_the_best_word(tiny: float) -> None:
    assert filters(SamplingOptions(temperature=tiny)) == [TopK(1)]
    (kept,) = filters(SamplingOptions(top_p=tiny))
    assert kept(PROBABILITIES.log(), NOBODY).softmax(-1)[0].tolist() == [0, 1, 0, 0, 0]


def test_100000_draws_are_distributed_as_they_should() -> None:
    numbers = torch.rand(100_000, generator=torch.Generator().manual_seed(1))
    words = draw(PROBABILITIES.log().expand(100_000, -1), numbers)
    for word, share in enumerate(PROBABILITIES[0].tolist()):
        sigma = math.sqrt(share * (1 - share) / 100_000)
        assert (words == word).float().mean() == pytest.approx(share, abs=3 * sigma)


def test_forbidden_words_are_not_drawn_even_at_the_edges() -> None:
    scores = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]]).expand(3, -1)
    assert draw(scores, torch.tensor([0.0, 1 - 2**-24, 1.0])).tolist() == [1, 3, 3]


def test_whole_sentences_are_distributed_as_the_model_says() -> None:
    """8,000 sentences of up to 2 words drawn from 21; 3.5 sigma for 21 looks."""
    decoder, source = TableDecoder(end_bias=1.0), (5, 8, EOS)
    sampling = SamplingOptions(samples=8_000, seed=1)
    (found,) = sample(decoder, torch.tensor([source]), None, sampling, SearchOptions(max_length=2))
    times = Counter(h.ids for h in found if h.finished)
    words = torch.tensor([True, True, True, True, True, True, True])
    words[[0, 2]] = False
    for ids, parts in every_sentence(decoder, source, 2).items():
        share = 1.0  # PAD and BOS are never drawn: what remains is made whole again at each step
        state, fed = decoder.start(torch.tensor([source])), 2
        for target in [*ids, EOS]:
            step = decoder.step(torch.tensor([fed]), state)
            probabilities = step.logits[0].softmax(-1) * words
            share *= float(probabilities[target] / probabilities.sum())
            state, fed = step.state, target
        sigma = math.sqrt(share * (1 - share) / 8_000)
        assert times[ids] / 8_000 == pytest.approx(share, abs=3.5 * sigma)
        assert all(
            h.log_prob == pytest.approx(math.fsum(parts), abs=1e-5) for h in found[:50] if h.finished and h.ids == ids
        )


def test_a_draw_depends_on_seed_and_sentence_alone() -> None:
    decoder, sources = TableDecoder(vocab=23), random_sources(31, seed=2)
    options = SearchOptions(max_length=13, sampling=SamplingOptions(samples=3, seed=5))
    together = generate_all(decoder, sources, options)
    apart = generate_all(decoder, sources, options, batch_tokens=30)
    later = generate_all(decoder, sources[7:], options, sentences=[*range(7, len(sources))])
    assert [[h.ids for h in of_one] for of_one in together] == [[h.ids for h in of_one] for of_one in apart]
    assert together[7:] == later
    more = generate_all(decoder, sources, SearchOptions(max_length=13, sampling=SamplingOptions(samples=5, seed=5)))
    assert [of_one[:3] for of_one in more] == together
    assert len({h.ids for h in more[0]}) > 1
    other = generate_all(decoder, sources, SearchOptions(max_length=13, sampling=SamplingOptions(samples=3, seed=6)))
    assert other != together


def test_temperature_zero_is_greedy() -> None:
    decoder, (source, lengths) = TableDecoder(vocab=23), padded(random_sources(31))
    options = SearchOptions(beam=1, max_length=13, min_length=2)
    found = sample(decoder, source, lengths, SamplingOptions(temperature=0.0), options)
    assert [hypothesis for (hypothesis,) in found] == greedy_search(decoder, source, lengths, options)


def test_samples_obey_limits_and_controls_and_are_scored_by_force() -> None:
    decoder, sources = TableDecoder(vocab=11), random_sources(31)
    options = SearchOptions(max_length=6, min_length=2)
    sampling = SamplingOptions(samples=5, temperature=1.7, top_k=7, top_p=0.95, min_p=0.01)
    for source, found in zip(
        sources, sample(decoder, *padded(sources), sampling, options, controls=[Suppress([5])]), strict=True
    ):
        assert len(found) == 5
        for h in found:
            assert 2 <= len(h.ids) <= 6
            assert not {0, 2, EOS, 5} & {*h.ids}
            assert h.finished or len(h.ids) == 6
            targets = [*h.ids, EOS] if h.finished else [*h.ids]
            assert h.log_prob == pytest.approx(math.fsum(forced(decoder, source, targets)), abs=1e-5)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"samples": 0}, "samples"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": -1.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": math.nan}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": math.nan}, "min_p"),
        ({"seed": -1}, "seed"),
    ],
)
def test_values_out_of_range_are_refused_by_name(values: dict[str, float], key: str) -> None:
    with pytest.raises(RecipeError, match=rf"`generation\.sampling\.{key}` must be"):
        SamplingOptions(**values)  # type: ignore[arg-type]


def test_filters_come_in_their_order_and_only_when_asked() -> None:
    assert filters(SamplingOptions()) == []
    assert filters(SamplingOptions(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1)) == [
        Temperature(0.5), TopK(3), TopP(0.9), MinP(0.1)
    ]  # fmt: skip


def test_least_risk_by_hand() -> None:
    """Utility is the number of equal words: (4, 5) was drawn twice, (4, 6) and (7, 6) once each."""

    def equal_words(ours: tuple[int, ...], theirs: tuple[int, ...]) -> float:
        return sum(a == b for a, b in zip(ours, theirs, strict=True))

    samples = [Hypothesis(ids, (-1.0, -1.0, -1.0), -3.0, True) for ids in [(4, 5), (4, 6), (4, 5), (7, 6)]]
    best, second, third = least_risk(samples, equal_words)
    assert (best.ids, best.score) == ((4, 5), 5 / 4)
    assert (second.ids, second.score) == ((4, 6), 5 / 4)
    assert (third.ids, third.score) == ((7, 6), 3 / 4)
    assert best.log_prob == -3.0
