from __future__ import annotations

import json

import pytest

from regard.errors import DataError, RecipeError
from regard.evaluation import EvaluationOptions, ExactMatch, TokenErrorRate, compare, evaluate

REFERENCES = [["a b"], ["c d"], ["e f"], ["g h"]]


def test_a_report_is_lines_and_json() -> None:
    report = evaluate([ExactMatch(), TokenErrorRate("WER")], ["a b", "c d", "e x", "g h"], REFERENCES)
    assert report["exact"] == 75.0
    assert report.lines() == [
        "exact 75.00  (nrefs:1|case:mixed)",
        "WER 12.50  (nrefs:1|case:mixed|tok:space)",
    ]
    facts = json.loads(report.to_json())
    assert facts["num_lines"] == 4
    assert facts["figures"][1] == {
        "name": "WER", "value": 12.5, "low": None, "high": None, "p": None,
        "signature": "nrefs:1|case:mixed|tok:space",
    }  # fmt: skip


def test_systems_are_compared_with_the_first() -> None:
    systems = {"old": ["a b", "x", "x", "x"], "new": ["a b", "c d", "e f", "g h"]}
    for test in ("bootstrap", "randomisation"):
        reports = compare([ExactMatch()], systems, REFERENCES, test=test)  # type: ignore[arg-type]
        (old,), (new,) = reports["old"].figures, reports["new"].figures
        assert (old.value, old.p) == (25.0, None)
        assert new.value == new.low == new.high == 100.0
        assert new.p is not None and 0 < new.p < 0.5
        assert f"[100.00, 100.00] p = {new.p:.3f}" in new.line()


def test_each_system_must_have_all_lines() -> None:
    with pytest.raises(DataError, match="have 1 and 4"):
        compare([ExactMatch()], {"whole": ["a b"] * 4, "short": ["a b"]}, REFERENCES)


def test_options_name_every_metric_and_refuse_others() -> None:
    options = EvaluationOptions(
        metrics=("bleu", "chrf", "chrf++", "ter", "exact", "wer", "per", "cer", "line-errors"), bleu_tokenize="none"
    )
    names = [metric.name for metric in options.build()]
    assert names == ["BLEU", "chrF", "chrF++", "TER", "exact", "WER", "PER", "CER", "line errors"]
    assert "tok:none" in options.build()[0].signature(REFERENCES)
    for key, value, sentence in [
        ("metrics", ("blue",), "'blue', which is no metric; did you mean 'bleu'"),
        ("metrics", (), "at least one"),
        ("bleu_tokenize", "13b", "'13b', which is no tokenizer; did you mean '13a'"),
    ]:
        options = EvaluationOptions()
        object.__setattr__(options, key, value)  # past the type check that tests put on constructors
        with pytest.raises(RecipeError, match=sentence):
            options.__post_init__()
