"""Numbers with what they count, in sentences for people."""

from __future__ import annotations

from regard.plural import plural


def test_one_is_one_and_everything_else_is_several() -> None:
    assert [plural(count, "case") for count in (0, 1, 2, 1203)] == ["0 cases", "1 case", "2 cases", "1,203 cases"]
    assert [plural(count, "entry is", "entries are") for count in (1, 7)] == ["1 entry is", "7 entries are"]
