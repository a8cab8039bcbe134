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


def test_alignments_by_a_flat_look_are_doubted() -> None:
    def aligned(flatness: float) -> Tally:
        one = Translation("x", 0.0, 0.0, True, False, (5,), alignment=((0, 0),), flatness=flatness)
        return Tally.of("a", one, replaced=False)

    (said,) = (aligned(0.96) + aligned(0.9) + Tally(lines=3)).sentences()
    assert "looks at all words nearly alike (entropy 93 % of the largest possible)" in said
    assert not [*(aligned(0.96) + aligned(0.8)).sentences()]


def test_most_is_more_than_half_of_enough() -> None:
    assert Tally(lines=4, empty=2).doubt() is None
    assert Tally(lines=4, empty=3).doubt(least=5) is None
    assert Tally().doubt() is None
    said = Tally(lines=1000, empty=501).doubt(least=20)
    assert said is not None and said.startswith("most outputs are empty (501 of 1,000)")


def test_one_output_for_all_lines_is_a_doubt() -> None:
    def counts(*pairs: tuple[str, str]) -> Tally:
        found, before = Tally(), None
        for text, output in pairs:
            best = Translation(output, 0.0, 0.0, True, False, (5,))
            found, before = found + Tally.of(text, best, replaced=False, before=before), (text, best)
        return found

    said = counts(("a", "x"), ("b", "x"), ("c", "x")).doubt()
    assert said is not None and said.startswith("one line after the other gets the same output (3 lines)")
    assert counts(("a", "x"), ("b", "x"), ("c", "x")).doubt(least=4) is None
    assert counts(("a", "x"), ("a", "x"), ("a", "x")).doubt() is None
    assert counts(("a", "x"), ("b", "x")).doubt() is None
    assert counts(("a", "x"), ("b", "y"), ("c", "y"), ("d", "x")).doubt() is None
