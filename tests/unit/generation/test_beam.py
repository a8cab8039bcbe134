"""Beam search against enumeration, against greedy search, and against itself in other batches."""

from __future__ import annotations

import math
import random

import pytest
import torch

from regard.errors import RegardError
from regard.generation import BeamSearch, Hypothesis, SearchOptions, beam_search, generate, generate_all, greedy_search
from regard.generation.scores import LengthPenalty
from regard.protocols import EOS, Step
from unit.generation.toys import History, TableDecoder, every_sentence, forced, padded, random_sources

MODELS = TableDecoder(end_bias=-0.5)
SOURCES = [(4 + model % 89, 4 + model // 89, EOS) for model in range(500)]  # each makes the table another model
ALPHAS = [-1.0, 0.0, 0.6, 1.0, 2.0]


def compare_with_enumeration(alpha: float, num_models: int, longest: int) -> None:
    """The vocabulary has 4 words; as many places as the last step has candidates leave nothing out."""
    options = SearchOptions(
        beam=2 * 7 * 4**longest, nbest=7, length_penalty=alpha, max_length=longest, max_length_margin=longest
    )
    score = LengthPenalty(alpha)
    sources = SOURCES[:num_models]
    for source, hypotheses in zip(sources, beam_search(MODELS, torch.tensor(sources), None, options), strict=True):
        sentences = every_sentence(MODELS, source, longest)
        scored = {ids: score(math.fsum(parts), len(parts)) for ids, parts in sentences.items()}
        assert [hypothesis.ids for hypothesis in hypotheses] == sorted(scored, key=lambda ids: -scored[ids])[:7]
        assert all(hypothesis.finished for hypothesis in hypotheses)
        # float32 log-softmax against float64: some 5 tokens at 1e-7 each, at most doubled by the penalty
        assert all(abs(hypothesis.score - scored[hypothesis.ids]) < 2e-6 for hypothesis in hypotheses)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_exhaustive_beam_equals_enumeration(alpha: float) -> None:
    compare_with_enumeration(alpha, num_models=60, longest=2)
    compare_with_enumeration(alpha, num_models=5, longest=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_exhaustive_beam_equals_enumeration_in_500_random_models(alpha: float) -> None:
    compare_with_enumeration(alpha, num_models=500, longest=4)


def test_search_stops_as_soon_as_nothing_better_can_follow() -> None:
    """The empty sentence is by far the best, and nothing else would end: one step proves it, 97 would find no more."""

    class Early(TableDecoder):
        def logits(self, state: History) -> torch.Tensor:
            logits = super().logits(state)
            logits[:, EOS] = 9.0 if state.num_fed == 1 else -9.0
            return logits

    for alpha in (0.0, -1.0, 0.01):
        decoder = Early()
        options = SearchOptions(beam=5, length_penalty=alpha, max_length=97, max_length_margin=97)
        found = beam_search(decoder, *padded(random_sources(11)), options)
        assert [hypothesis.ids for (hypothesis,) in found] == [()] * 11
        assert len(decoder.steps) == 1


def test_search_goes_on_while_the_next_end_mark_could_win() -> None:
    """With alpha -1 the empty sentence scores log .22 = -1.51, and `4` with .3 and a sure end -1.2 * 7/6 = -1.4."""

    class Close(TableDecoder):
        def logits(self, state: History) -> torch.Tensor:
            first, later = [0, 0.16, 0, 0.22, 0.3, 0.16, 0.16], [0, 0, 0, 1, 0, 0, 0]
            return torch.tensor(first if state.num_fed == 1 else later).log().expand(len(state.cell), -1)

    ((best,),) = beam_search(Close(), torch.tensor([[5, EOS]]), None, SearchOptions(length_penalty=-1.0))
    assert best.ids == (4,)
    assert best.score == pytest.approx(math.log(0.3) * 7 / 6, abs=1e-6)


def test_a_finished_hypothesis_keeps_its_place() -> None:
    search = BeamSearch(TableDecoder(vocab=23), *padded(random_sources(31)), SearchOptions(beam=5, nbest=5))
    finished_early = 0
    while search.running:
        search.step()
        for sentence in range(31):
            num_running, num_done = int((search.running.sentence == sentence).sum()), len(search.races.done(sentence))
            assert num_running + num_done <= 5
            finished_early += bool(num_running and num_done)
    assert finished_early > 31


def test_beam_one_is_greedy_1000_times() -> None:
    decoder = TableDecoder(vocab=11)
    source, lengths = padded(random_sources(1000))
    for alpha in (0.0, 2.0):
        options = SearchOptions(beam=1, length_penalty=alpha, max_length=13)
        beam = [hypotheses[0] for hypotheses in beam_search(decoder, source, lengths, options)]
        assert beam == greedy_search(decoder, source, lengths, options)
        assert {hypothesis.finished for hypothesis in beam} == {True, False}


def test_greedy_takes_the_best_word_each_time() -> None:
    decoder = TableDecoder(vocab=11)
    source = [5, 7, EOS]
    (hypothesis,) = greedy_search(decoder, torch.tensor([source]), None, SearchOptions(beam=1, max_length=17))
    words = [*hypothesis.ids, EOS]
    for t, word in enumerate(words):
        others = {other: forced(decoder, source, [*words[:t], other])[-1] for other in range(11) if other not in (0, 2)}
        assert word == max(others, key=lambda other: others[other])


def same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> bool:
    return [h.ids for h in ours] == [h.ids for h in theirs] and all(
        abs(a.score - b.score) <= 1e-5 for a, b in zip(ours, theirs, strict=True)
    )


def compare_alone_with_batches(beam: int, num_sentences: int, num_batchings: int) -> None:
    decoder = TableDecoder(vocab=23, end_bias=1.0)
    sources = random_sources(num_sentences, seed=3)
    options = SearchOptions(beam=beam, nbest=beam, max_length=11)
    alone = [generate(decoder, torch.tensor([source]), None, options)[0] for source in sources]
    shuffle = random.Random(5)
    for _ in range(num_batchings):
        order = list(range(len(sources)))
        shuffle.shuffle(order)
        while order:
            batch = [order.pop() for _ in range(min(len(order), shuffle.randint(1, 31)))]
            found = generate(decoder, *padded([sources[index] for index in batch]), options)
            assert all(same(hypotheses, alone[index]) for hypotheses, index in zip(found, batch, strict=True))
    assert all(map(same, generate_all(decoder, sources, options, batch_tokens=101), alone))


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_sentence_does_not_depend_on_its_mates(beam: int) -> None:
    compare_alone_with_batches(beam, num_sentences=23, num_batchings=7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("beam", [1, 5])
def test_1000_sentences_do_not_depend_on_their_mates(beam: int) -> None:
    compare_alone_with_batches(beam, num_sentences=1000, num_batchings=20)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_scores_are_those_of_the_sentence_fed_by_force(beam: int) -> None:
    decoder = TableDecoder(vocab=13)
    sources = random_sources(50, seed=7)
    options = SearchOptions(beam=beam, nbest=beam, max_length=7, length_penalty=0.6)
    for source, hypotheses in zip(sources, generate(decoder, *padded(sources), options), strict=True):
        for hypothesis in hypotheses:
            targets = [*hypothesis.ids, EOS] if hypothesis.finished else [*hypothesis.ids]
            total = math.fsum(forced(decoder, source, targets))
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-5)
            assert hypothesis.score == pytest.approx(total / ((5 + len(targets)) / 6) ** 0.6, abs=1e-5)
            assert max(hypothesis.token_log_probs) <= 0


def test_nbest_lists_are_distinct_sorted_and_whole() -> None:
    """At a limit of 5 words on purpose: some are cut, none repeats, none holds an end mark, finished ones lead."""
    decoder = TableDecoder(vocab=9, end_bias=-1.0)
    source, lengths = padded(random_sources(100))
    for hypotheses in beam_search(decoder, source, lengths, SearchOptions(beam=10, nbest=10, max_length=5)):
        assert len({hypothesis.ids for hypothesis in hypotheses}) == 10
        assert all(not {0, 2, EOS} & {*hypothesis.ids} for hypothesis in hypotheses)
        keys = [(not hypothesis.finished, -hypothesis.score) for hypothesis in hypotheses]
        assert keys == sorted(keys)
        for hypothesis in hypotheses:
            assert hypothesis.length == len(hypothesis.ids) + hypothesis.finished
            assert hypothesis.finished or len(hypothesis.ids) == 5


def test_fewer_hypotheses_only_when_fewer_exist() -> None:
    """One word at most, five words in the vocabulary: the empty sentence, the 5 words, and nothing else."""
    decoder = TableDecoder(vocab=8)
    options = SearchOptions(beam=50, nbest=50, max_length=1)
    ((*hypotheses,),) = beam_search(decoder, torch.tensor([[5, EOS]]), None, options)
    assert sorted(hypothesis.ids for hypothesis in hypotheses) == [(), (1,), (4,), (5,), (6,), (7,)]


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("fewest", [0, 1, 5])
def test_minimum_length_is_exact(beam: int, fewest: int) -> None:
    decoder = TableDecoder(vocab=11, end_bias=50.0)
    found = generate(decoder, *padded(random_sources(7)), SearchOptions(beam=beam, min_length=fewest))
    assert {len(hypothesis.ids) for (hypothesis,) in found} == {fewest}
    assert all(hypothesis.finished for (hypothesis,) in found)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("end_bias", [-50.0, -1e9, -math.inf])
def test_a_model_that_never_ends_is_cut_at_the_limit(beam: int, end_bias: float) -> None:
    decoder = TableDecoder(vocab=11, end_bias=end_bias)
    sources = random_sources(7)
    options = SearchOptions(beam=beam, nbest=beam, max_length=11, max_length_ratio=2.0, max_length_margin=1)
    for source, hypotheses in zip(sources, generate(decoder, *padded(sources), options), strict=True):
        limit = min(11, 2 * (len(source) - 1) + 1)
        assert [len(hypothesis.ids) for hypothesis in hypotheses] == [limit] * beam
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        assert all(hypothesis.length == limit for hypothesis in hypotheses)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_longest_allowed_sentence_is_finished_not_cut(beam: int) -> None:
    decoder = TableDecoder(vocab=11, end_bias=50.0)
    options = SearchOptions(beam=beam, min_length=5, max_length=5)
    for (hypothesis,) in generate(decoder, *padded(random_sources(7)), options):
        assert len(hypothesis.ids) == 5
        assert hypothesis.finished


@pytest.mark.parametrize("beam", [1, 4])
def test_impossible_words_are_never_chosen(beam: int) -> None:
    """All words but 4 are impossible, and so is the end after the third word: the search runs into a wall."""

    class Wall(TableDecoder):
        def logits(self, state: History) -> torch.Tensor:
            logits = torch.full((len(state.cell), 7), -math.inf)
            logits[:, 4] = 0.0
            logits[:, 0 if state.num_fed == 4 else EOS] = -1.0
            if state.num_fed == 4:
                logits[:, 4] = -math.inf
            return logits

    source = torch.tensor([[5, EOS]])
    (best, *others) = generate(Wall(), source, None, SearchOptions(beam=beam, nbest=beam, length_penalty=2.0))[0]
    if beam == 1:
        assert (best.ids, best.finished) == ((4, 4, 4), False)
    else:
        assert best.finished
        assert [hypothesis.ids for hypothesis in others if not hypothesis.finished] == [(4, 4, 4)]
    for hypothesis in [best, *others]:
        assert math.isfinite(hypothesis.score)


@pytest.mark.parametrize("beam", [1, 4])
def test_no_sentence_gives_no_result(beam: int) -> None:
    empty = torch.zeros(0, 3, dtype=torch.int64)
    assert generate(TableDecoder(), empty, torch.zeros(0, dtype=torch.int64), SearchOptions(beam=beam)) == []
    assert generate_all(TableDecoder(), [], SearchOptions(beam=beam)) == []


@pytest.mark.parametrize("beam", [1, 4])
def test_nan_is_an_error(beam: int) -> None:
    class Broken(TableDecoder):
        def step(self, tokens: torch.Tensor, state: object) -> Step:
            return Step(torch.full((len(tokens), 7), math.nan), state)

    with pytest.raises(RegardError, match="NaN"):
        generate(Broken(), torch.tensor([[5, EOS]]), None, SearchOptions(beam=beam))


def test_low_precision_logits_are_scored_in_float32() -> None:
    class Half(TableDecoder):
        def logits(self, state: History) -> torch.Tensor:
            return super().logits(state).bfloat16()

    ((hypothesis,),) = beam_search(Half(vocab=97), torch.tensor([[5, EOS]]), None, SearchOptions(max_length=1))
    decoder = Half(vocab=97)
    state = decoder.start(torch.tensor([[5, EOS]]))
    first = decoder.step(torch.tensor([2]), state).logits.float().log_softmax(-1)[0]
    assert hypothesis.token_log_probs[0] == float(first[[*hypothesis.ids, EOS][0]])


@pytest.mark.parametrize("beam", [1, 5])
def test_many_short_sentences_take_no_more_memory_than_a_few_long_ones(beam: int) -> None:
    """What a step holds is its rows times the vocabulary, however few tokens their sources have."""
    decoder, options = TableDecoder(), SearchOptions(beam=beam, max_length=2)
    generate_all(decoder, [(5, EOS)] * 2003, options, batch_tokens=1024)
    assert max(decoder.steps) <= 1024 / 8


def test_finished_sentences_leave_the_batch() -> None:
    decoder = TableDecoder(vocab=23, end_bias=1.0)
    beam_search(decoder, *padded(random_sources(31)), SearchOptions(beam=3, max_length=40, max_length_margin=40))
    assert decoder.steps[0] == 31
    assert max(decoder.steps) <= 93
    assert decoder.steps[-1] <= 6
