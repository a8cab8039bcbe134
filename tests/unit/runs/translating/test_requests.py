"""Lines of JSON become requests, and their mistakes are told with their line."""

from __future__ import annotations

import json

import pytest

from regard.errors import DataError
from regard.runs.translating.requests import from_json
from regard.translation import Request


def test_keys_have_two_names_and_others_come_back() -> None:
    ours = from_json(
        '{"text": "a", "prefix": "b", "forbid": ["c"], "constraints": ["d e"], "tag": "de", "id": [7]}', "x:1"
    )
    theirs = from_json(
        '{"source": "a", "target_prefix": "b", "avoid": ["c"], "constraints": ["d e"], "tag": "de"}', "x:1"
    )
    assert ours.request == theirs.request == Request("a", "de", "b", ("d e",), ("c",))
    assert (ours.others, theirs.others) == ({"id": [7]}, {})


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "x:1: not JSON"),
        ("[" * 100_000, "x:1: not JSON"),
        ("3", "x:1: not an object"),
        ("{}", 'x:1: `text`, or `source`, is missing; expected {"text": "…"}'),
        ('{"text": 3}', "x:1: `text` must be a text, but is 3"),
        ('{"text": "a", "source": "b"}', "`source` says again"),
        ('{"text": "a", "forbid": "b"}', '`forbid` must be a list of texts, but is "b"'),
        ('{"text": "a", "forbid": [["b"]]}', "`forbid` must be a text"),
        ('{"text": "a", "constraint": ["b"]}', "`constraint` is unknown; did you mean 'constraints'"),
        (json.dumps({"text": "\ud800"}), "half of a surrogate pair"),
    ],
)
def test_mistakes_are_told(line: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        from_json(line, "x:1")
