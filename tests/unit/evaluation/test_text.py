"""BLEU, chrF and TER against sacrebleu's own front door."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import sacrebleu

from regard.errors import DataError
from regard.evaluation import Bleu, ChrF, ExactMatch, Ter, measure

WORDS = ["Ein", "ein", "Hund", "läuft", "schnell", ",", "über", "die", "Straße", "."]


def corpus(num_references: int) -> tuple[list[str], list[list[str]]]:
    draw = random.Random(num_references)
    references = [
        [" ".join(draw.choices(WORDS, k=draw.randint(3, 11))) for _ in range(num_references)] for _ in range(53)
    ]
    hypotheses = []
    for of_line in references:
        words = draw.choice(of_line).split()
        words[draw.randrange(len(words))] = draw.choice(WORDS)
        hypotheses.append(" ".join(words))
    return hypotheses, references


@pytest.mark.parametrize("num_references", [1, 3])
@pytest.mark.parametrize("lowercase", [False, True])
def test_figures_and_signatures_are_sacrebleus(num_references: int, lowercase: bool) -> None:
    hypotheses, references = corpus(num_references)
    streams = [list(stream) for stream in zip(*references, strict=True)]
    for ours, peer in [
        (Bleu("none", lowercase), sacrebleu.BLEU(tokenize="none", lowercase=lowercase, force=True)),
        (Bleu("13a", lowercase), sacrebleu.BLEU(lowercase=lowercase)),
        (ChrF(0, lowercase), sacrebleu.CHRF(lowercase=lowercase)),
        (ChrF(2, lowercase), sacrebleu.CHRF(word_order=2, lowercase=lowercase)),
        (Ter(lowercase), sacrebleu.TER(case_sensitive=not lowercase)),
    ]:
        score = peer.corpus_score(hypotheses, streams)
        assert measure(ours, hypotheses, references) == pytest.approx(score.score, abs=1e-9)
        assert ours.signature(references) == str(peer.get_signature())
        assert ours.name == score.name.replace("chrF2", "chrF")


def test_lines_may_differ_in_the_number_of_references() -> None:
    hypotheses = ["ein Hund läuft schnell", "die Straße ."]
    references = [["ein Hund läuft", "ein Hund läuft schnell"], ["die Straße ."]]
    for metric in (Bleu(), ChrF(), Ter(), ExactMatch()):
        assert measure(metric, hypotheses, references) == pytest.approx(100.0 if metric.higher_is_better else 0.0)
        assert "nrefs:var" in metric.signature(references)


def test_empty_lines_are_lines() -> None:
    for metric in (Bleu(), ChrF(), Ter()):
        assert measure(metric, ["", "a b c d"], [[""], ["a b c d"]]) == pytest.approx(
            100.0 if metric.higher_is_better else 0.0
        )


def test_exact_match_by_hand() -> None:
    assert measure(ExactMatch(), ["a", "B", "c", "d "], [["x", "a"], ["b"], ["c"], ["d"]]) == 50.0
    assert measure(ExactMatch(lowercase=True), ["a", "B", "c", "d "], [["x", "a"], ["b"], ["c"], ["d"]]) == 75.0


def test_unequal_counts_are_told() -> None:
    with pytest.raises(DataError, match="have 2 and 3"):
        measure(ExactMatch(), ["a", "b"], [["a"], ["b"], ["c"]])
    with pytest.raises(DataError, match="nothing to evaluate"):
        measure(ExactMatch(), [], [])
    with pytest.raises(DataError, match="line 2 must have a list of at least one reference, but has 'b'"):
        measure(ExactMatch(), ["a", "b"], [["a"], "b"])


def test_importing_does_not_import_sacrebleu_or_torch() -> None:
    code = "import sys, regard.evaluation; print('sacrebleu' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
