"""What is told at the end."""

from __future__ import annotations

from regard.runs.translating.tally import Tally
from regard.translation import Translation


def test_counts_add_up_and_empty_lines_do_not_count() -> None:
    bad = Translation("", 0.0, 0.0, False, True, (1,), missing=("x",), source_unknown=2)
    one = Tally.of("text", bad, replaced=False)
    assert one == Tally(1, 1, 1, 1, 1, 1, 1)
    assert Tally.of(" ", bad, replaced=False) == Tally()
    assert Tally.of("text", bad, replaced=True).unknown == 0
    assert one + one + Tally() == Tally(2, 2, 2, 2, 2, 2, 2)
    assert len([*one.sentences()]) == 5 and not [*Tally(lines=9).sentences()]


def test_most_is_more_than_half_of_enough() -> None:
    assert Tally(lines=4, empty=2).emptiness() is None
    assert Tally(lines=4, empty=3).emptiness(least=5) is None
    assert Tally().emptiness() is None
    said = Tally(lines=1000, empty=501).emptiness(least=20)
    assert said is not None and said.startswith("most outputs are empty (501 of 1,000)")
