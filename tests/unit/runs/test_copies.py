"""One file for both sides is doubted, and some lines that are alike are not."""

from __future__ import annotations

from regard.runs.copies import doubt_of_copies


def test_copies_are_doubted_where_they_are_most() -> None:
    assert doubt_of_copies(0, 0) is None and doubt_of_copies(7, 14) is None
    said = doubt_of_copies(8, 15)
    assert said is not None and said.startswith("source and target are the same text in 53% of the pairs; look whether")
