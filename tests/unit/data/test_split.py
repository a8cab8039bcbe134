"""Held-out lines: a function of the text, in one part only."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from regard.data import Pair, RawCorpus, Split, hold_out, open_raw
from regard.errors import DataError
from unit.data.test_raw import jsonl


def raw_of(folder: Path, pairs: list[Pair]) -> RawCorpus:
    return open_raw([jsonl(folder / "x.jsonl", pairs)], folder / "cache")


def held_sources(raw: RawCorpus, split: Split) -> set[str]:
    return set(raw.source_lines(split.held_out))


def test_no_source_is_in_both_parts_and_every_pair_in_one(tmp_path: Path) -> None:
    pairs = [Pair(f"word {i % 701}", f"target {i}") for i in range(1009)]
    raw = raw_of(tmp_path, pairs)
    split = hold_out(raw, share=0.05, at_least=7)
    assert split.num_sources == 35 == len(held_sources(raw, split))  # 5 % of 701
    assert not held_sources(raw, split) & set(raw.source_lines(split.train))
    assert sorted([*split.train, *split.held_out]) == list(range(1009))
    assert split.sentence() == f"35 distinct source lines ({len(split.held_out)} pairs) held out, chosen by their hash"
    again = hold_out(raw, rows=split.train, share=0.05, at_least=7)
    assert not held_sources(raw, again) & (held_sources(raw, split) | set(raw.source_lines(again.train)))


def test_order_of_lines_does_not_matter_and_growth_little(tmp_path: Path) -> None:
    pairs = [Pair(f"word {i}", "x") for i in range(1009)]
    raw = raw_of(tmp_path, pairs)
    held = held_sources(raw, hold_out(raw))
    random.Random(1).shuffle(pairs)
    shuffled = raw_of(tmp_path, pairs)
    assert held_sources(shuffled, hold_out(shuffled)) == held
    grown = raw_of(tmp_path, pairs + [Pair(f"more {i}", "x") for i in range(101)])
    assert len(held_sources(grown, hold_out(grown)) & held) > 80  # about 9 of 100 give way to a tenth more lines


@pytest.mark.parametrize(
    ("lines", "held"),
    [(5, 1), (99, 19), (499, 99), (503, 100), (997, 100), (1511, 151)],
)
def test_how_many(tmp_path: Path, lines: int, held: int) -> None:
    raw = raw_of(tmp_path, [Pair(str(i), "x") for i in range(lines)])
    assert hold_out(raw, share=0.1).num_sources == held


def test_bounds(tmp_path: Path) -> None:
    raw = raw_of(tmp_path, [Pair(str(i), "x") for i in range(1009)])
    assert hold_out(raw, share=0.5, at_most=53).num_sources == 53
    with pytest.raises(DataError, match="4 distinct source lines are too few"):
        hold_out(raw_of(tmp_path, [Pair(str(i % 4), str(i)) for i in range(101)]))
