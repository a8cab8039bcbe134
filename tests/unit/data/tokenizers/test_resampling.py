"""Pieces drawn anew: each segmentation as often as it should be, and the same ones in every process."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from regard.data import train_sentencepiece
from regard.data.tokenizers.resampling import MergeDropout, UnigramSampler
from unit.data.tokenizers.test_sentencepiece import NASTY, corpus

LOG_PROBS = {"a": -1.0, "b": -2.0, "ab": -1.5, "ba": -2.5, "aba": -4.0}
UNIGRAM = UnigramSampler(LOG_PROBS)
MERGES = MergeDropout({"a": -9.0, "b": -9.0, "c": -9.0, "ab": 0.0, "bc": -1.0, "abc": -2.0})


def test_each_segmentation_is_drawn_as_often_as_it_is_probable() -> None:
    alpha, draws = 0.7, 20_000
    ways = [("a", "b", "a"), ("ab", "a"), ("a", "ba"), ("aba",)]
    weights = [math.exp(alpha * sum(LOG_PROBS[piece] for piece in way)) for way in ways]
    draw = random.Random(2)
    found = Counter(tuple(UNIGRAM("aba", alpha, draw)) for _ in range(draws))
    assert found.keys() == {*ways}
    for way, weight in zip(ways, weights, strict=True):
        share = weight / sum(weights)
        assert found[way] == pytest.approx(draws * share, abs=4 * math.sqrt(draws * share * (1 - share)))  # 4 sigma


def test_merges_are_left_out_as_often_as_asked() -> None:
    draw = random.Random(3)
    assert MERGES("ab▁abc", 0.0, draw) == ["ab", "▁", "abc"]
    assert MERGES("ab▁abc", 1.0, draw) == ["a", "b", "▁", "a", "b", "c"]
    found = Counter(tuple(MERGES("ab", 0.3, draw)) for _ in range(10_000))
    assert found["a", "b"] == pytest.approx(3000, abs=4 * math.sqrt(10_000 * 0.3 * 0.7))  # 4 sigma


def slowly(word: str, share: float, draw: random.Random) -> tuple[str, ...]:
    """The algorithm as it is written down: a draw for each possible merge at each step."""
    parts = list(word)
    while True:
        pairs = [(MERGES.scores.get(a + b), -i) for i, (a, b) in enumerate(pairwise(parts))]
        kept = [(score, place) for score, place in pairs if score is not None and draw.random() >= share]
        if not kept:
            return tuple(parts)
        at = -max(kept)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_merges_are_those_of_the_algorithm(share: float) -> None:
    draws, draw = 10_000, random.Random(11)
    ours, theirs = (Counter(tuple(cut("abcab", share, draw)) for _ in range(draws)) for cut in (MERGES, slowly))
    assert ours.keys() == theirs.keys()
    for way, count in theirs.items():
        assert ours[way] == pytest.approx(count, abs=4 * math.sqrt(2 * count))  # 4 sigma of a difference


def test_a_word_without_end_is_cut_in_its_length() -> None:
    class Counted(random.Random):
        drawn = 0

        def random(self) -> float:
            self.drawn += 1
            return super().random()

    draw, word = Counted(13), "abc" * 997
    assert "".join(MERGES(word, 0.1, draw)) == word
    assert draw.drawn < 2 * len(word)


def test_characters_without_a_piece_stand_alone() -> None:
    draw = random.Random(5)
    assert UNIGRAM("a☃☃b", 1.0, draw) == ["a", "☃", "☃", "b"]
    assert MERGES("a☃b", 0.0, draw) == ["a", "☃", "b"]
    assert UNIGRAM("", 1.0, draw) == MERGES("", 0.0, draw) == []


@pytest.mark.parametrize(("model_type", "strength"), [("unigram", 100.0), ("bpe", 0.0)])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_without_chance_the_best_segmentation_comes(model_type: str, strength: float, byte_fallback: bool) -> None:
    trained = train_sentencepiece(
        corpus(), vocab_size=317 if byte_fallback else 61, model_type=model_type, byte_fallback=byte_fallback
    )
    for text in [*corpus(97, seed=11), *NASTY]:
        assert trained.tokenizer.encode_sampled(text, seed=7, strength=strength) == trained.tokenizer.encode(text)


def test_another_process_draws_the_same() -> None:
    code = f"""
import sys
sys.path[:] = {sys.path!r}
from regard.data import train_sentencepiece
from unit.data.tokenizers.test_sentencepiece import corpus
for kind in ("unigram", "bpe"):
    tokenizer = train_sentencepiece(corpus(), vocab_size=317, model_type=kind).tokenizer
    print([tokenizer.encode_sampled(text, seed=i, strength=0.2) for i, text in enumerate(corpus(53, seed=5))])
"""
    told = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(told) == 1 and told != {b""}
