"""The last words of a training: why it ended, how it goes on, and whether the model is worth a look."""

from __future__ import annotations

import pytest

from regard.runs.training.ending import ending, worth
from regard.training import Outcome, TrainingOptions
from regard.training.verdict import Curve


def outcome(reason: str, began_at: int = 0) -> Outcome:
    return Outcome(reason, 37, (), (), began_at, 150.0)


@pytest.mark.parametrize(
    ("reason", "began_at", "told"),
    [
        ("updates", 0, "done after update 37 and 2.5 minutes"),
        ("minutes", 0, "time is up after update 37 and 2.5 minutes; everything is saved: the same command with more"),
        ("terminated", 0, "asked to stop after update 37"),
        ("terminated", 37, "asked to stop after update 37"),
        ("patience", 0, "stopped after update 37 and 2.5 minutes: the validations brought nothing better"),
        (
            "minutes",
            37,
            "nothing to do: this run reached `minutes` = 2.5 before, after update 37 and 2.5 minutes; raise it",
        ),
        ("epochs", 37, "nothing to do: this run reached `epochs` = 3 before"),
    ],
)
def test_why_it_ended(reason: str, began_at: int, told: str) -> None:
    assert ending(outcome(reason, began_at), TrainingOptions(minutes=2.5, epochs=3)).startswith(told)


def falling(updates: int = 40) -> Curve:
    return Curve([(u, 8 * u**-0.3, 100) for u in range(1, updates + 1)], [])


@pytest.mark.parametrize(
    ("corpus_tokens", "outputs", "told"),
    [
        (1000, [], []),  # four passes
        (2000, [], ["it has seen the text only 2.0 times"]),
        (1000, ["", "", " "] * 4 + ["x"], ["8 of its 13 validation outputs are empty"]),
        (1000, ["a man"] * 7 + list("abcdef"), ["7 of its 13 validation outputs are the same, 'a man'"]),
        (1000, ["a man"] * 6 + list("abcdefg"), []),
        (1000, ["a man"] * 9, ["9 of its 9 validation outputs are the same, 'a man'"]),
        (1000, ["a man"] * 8 + ["b"], []),  # too few lines to say so
        (1000, ["a man"] * 2, []),
        (4000, [""] * 10, ["it has seen the text only 1.0 times and 10 of its 10 validation outputs are empty"]),
    ],
)
def test_a_model_that_has_hardly_been_trained(corpus_tokens: int, outputs: list[str], told: list[str]) -> None:
    first, *warnings = worth(falling(), corpus_tokens, outputs, length_chosen=False)
    assert "still falling" in first and first.endswith(f"({4000 / corpus_tokens:.1f} passes over the text so far)")
    assert warnings == [
        f"warning: this model has hardly been trained: {one}; train it longer to judge it" for one in told
    ]


@pytest.mark.parametrize(
    ("corpus_tokens", "outputs", "told"),
    [
        (2000, [], []),
        (4000, [], []),
        (5000, [], ["it has seen the text only 0.8 times"]),
        (2000, [""] * 10, ["10 of its 10 validation outputs are empty"]),
    ],
)
def test_whoever_chose_a_length_is_warned_below_one_pass_alone(
    corpus_tokens: int, outputs: list[str], told: list[str]
) -> None:
    first, *warnings = worth(falling(), corpus_tokens, outputs, length_chosen=True)
    assert "longer training will help" in first
    assert warnings == [
        f"warning: this model has hardly been trained: {one}; train it longer to judge it" for one in told
    ]


def test_one_pass_over_a_large_text_may_be_enough() -> None:
    flat = Curve([(u, 2.0, 100) for u in range(1, 41)], [])
    assert len(list(worth(flat, 4000, [], length_chosen=False))) == 1
