"""The TOML writer against the standard library's reader."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.runs.recipes.toml import write_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALAR = st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans())
INLINE = st.recursive(SCALAR, lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXT, inner)), max_leaves=7)
SECTION = st.dictionaries(TEXT, INLINE, min_size=1, max_size=3)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(TEXT, SECTION, max_size=3))
def test_what_is_written_is_read_back_equal(tables: dict[str, dict[str, object]]) -> None:
    assert tomllib.loads(write_toml(tables)) == tables


def test_layout_is_exact() -> None:
    tables = {
        "data": {"source": "a\tb.en", "columns": (1, 2), "corpora": [{"pairs": "x.tsv", "weight": 2.0}, {"tag": "de"}]},
        "model": {"preset": "tiny", "dropout": {"attention": 0.1, "residual": None}, "tied": True, "seed": None},
        "empty": {"nothing": None},
    }
    assert write_toml(tables) == (
        '[data]\nsource = "a\\tb.en"\ncolumns = [1, 2]\n\n'
        '[[data.corpora]]\npairs = "x.tsv"\nweight = 2.0\n\n'
        '[[data.corpora]]\ntag = "de"\n\n'
        '[model]\npreset = "tiny"\ndropout = {attention = 0.1}\ntied = true\n'
    )


def test_a_stranger_type_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        write_toml({"data": {"x": {1}}})
