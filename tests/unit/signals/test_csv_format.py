"""Tables of comma-separated values: what names columns, what is a label, and what is refused, with the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import DataError
from regard.signals.readers import Layout, read_signals


class TestTables:
    def read(self, tmp_path: Path, text: str, **options: Any) -> Any:
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        return read_signals(tmp_path / "a.csv", **options)

    def test_header_label_and_groups(self, tmp_path: Path) -> None:
        text = "\ufeffsite,t0,t1,t2,label\nnorth,1,2,3,up\nsouth,4,5,,down\n"
        found = self.read(tmp_path, text, layout=Layout(groups=("site",)))
        assert found.labels == ["up", "down"]
        assert found.groups == {"site": ["north", "south"]}
        assert found.cases.lengths.tolist() == [3, 2]
        assert found.cases[1].tolist() == [[4, 5]]

    def test_without_header(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, "1,2,a\n,3,b\n").labels == ["a", "b"]
        found = self.read(tmp_path, "7,1,2\n8,3,4\n", layout=Layout(labels="1"))
        assert (found.labels, found.cases[1].tolist()) == (["7", "8"], [[3, 4]])
        found = self.read(tmp_path, "7,1,2\n8,3,4\n", labelled=False)
        assert (found.labels, found.cases[0].tolist()) == (None, [[7, 1, 2]])

    def test_a_first_row_of_words_and_numbers(self, tmp_path: Path) -> None:
        """It is a header if it has a name that is wanted, and else a row whose words stand where words may stand."""
        found = self.read(tmp_path, "site,0,1,kind\nnorth,5,6,up\n", layout=Layout(labels="kind", groups=("site",)))
        assert (found.labels, found.cases[0].tolist()) == (["up"], [[5, 6]])
        found = self.read(tmp_path, "north,5,6,up\neast,7,8,down\n", layout=Layout(labels="4", groups=("1",)))
        assert (found.labels, found.groups) == (["up", "down"], {"1": ["north", "east"]})
        assert self.read(tmp_path, "1,2,y\n3,4,n\n5,6,y\n").labels == ["y", "n", "y"]

    def test_labels_that_nobody_asks_for_are_no_values(self, tmp_path: Path) -> None:
        for text, labels in (("1,2,up\n", None), ("up,1,2\n", "1"), ("t0,t1,label\n1,2,up\n", None)):
            found = self.read(tmp_path, text, layout=Layout(labels=labels), labelled=False)
            assert found.cases[0].tolist() == [[1, 2]]

    def test_missing_values_and_rows_of_nothing_at_the_end(self, tmp_path: Path) -> None:
        found = self.read(tmp_path, "t0,t1,t2,t3,y\n1,NA,,n/a,up\nNaN,2,N/A,4,down\n,,,,\n\n , ,,,\n")
        assert [[repr(value) for value in case[0]] for case in (found.cases[0], found.cases[1])] == [
            [repr(np.float64(1))] + [repr(np.float64("nan"))] * 3,
            [repr(np.float64(value)) for value in ("nan", 2, "nan", 4)],
        ]

    def test_quotes_are_those_of_a_table(self, tmp_path: Path) -> None:
        text = 't0,label\n1,"a, ""b"""\n2,u"p\n3,"c"\n'
        assert self.read(tmp_path, text).labels == ['a, "b"', 'u"p', "c"]

    def test_without_labels_where_none_are_asked_for(self, tmp_path: Path) -> None:
        found = self.read(tmp_path, "t0,t1,t2\n1,2,3\n", labelled=False)
        assert (found.labels, found.cases[0].tolist()) == (None, [[1, 2, 3]])
        found = self.read(tmp_path, "7,1,2\n", layout=Layout(labels="1"), labelled=False)
        assert found.cases[0].tolist() == [[1, 2]]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("0,1,2\n5,6,7\n", "a.csv:1: names columns by numbers"),
            (",0,1,2\n0,5,6,7\n", "a.csv:1: names columns by numbers"),
            ("1,2,3,4\n5,6,7,1\n", "a.csv:1: names columns by numbers"),
            ("0,1,label\n5,6,a\n", "a.csv:1: names columns by numbers"),
            ("t0;t1;label\n0,5;0,7;up\n", "a.csv:1: columns are parted by ';', it seems, but commas are expected"),
            ("0,5;0,7;up\n", "a.csv:1: columns are parted by ';'"),
            ("0.5\t0.7\tup\n", "a.csv:1: columns are parted by tabs"),
            ("t0,season,season\n1,2,up\n", "a.csv:1: column 'season' comes twice"),
            ("\n1,2,a\n", "a.csv:1: the row is empty"),
            ("1,2,a\n,,\n3,4,a\n", "a.csv:2: the row is empty, but others follow"),
            ("1,1_000,a\n", "a.csv:1: '1_000' is no number"),
            ("1,2,a\n1,1_000,a\n", "a.csv:2: '1_000' is no number"),
            ('1,2,a\n3,4,"b\n5,6,c\n', "a.csv:2: the row cannot be parted into cells .* close in its line"),
            ('1,2,"a\n3,4,b\n5,6,"c\n', "a.csv:1: the row cannot be parted into cells"),
        ],
    )
    @pytest.mark.parametrize("labelled", [True, False])
    def test_refused_with_labels_and_without(self, tmp_path: Path, text: str, words: str, labelled: bool) -> None:
        with pytest.raises(DataError, match=words):
            self.read(tmp_path, text, labelled=labelled)

    @pytest.mark.parametrize(
        ("text", "options", "words"),
        [
            ("", {}, "a.csv: is empty"),
            ("t0,t1,y\n", {}, "no row follows"),
            ("1,2,a\n1,a\n", {}, "a.csv:2: the row has 2 columns, but the first one has 3"),
            ("1,2,a\n1,x,a\n", {}, "a.csv:2: 'x' is no number"),
            ("1,2,a\n,,a\n", {}, "a.csv:2: the row has no value"),
            ("t0,t1,kind\n1,2,a\n", {"layout": Layout(labels="kinds")}, "no column 'kinds'; did you mean 'kind'"),
            ("1,2,a\n", {"layout": Layout(labels="4")}, "no column '4', and no header"),
            ("1,x,3,a\n1,2,3,b\n", {}, "a.csv:1: 'x' is no number; a first row that names the columns holds no number"),
            ("0,1,label\n1,2,a\n", {}, "a.csv:1: names columns by numbers"),
            (",t0,y\n0,1,a\n", {}, "a.csv:1: column 1 has no name"),
            ("t0,y\n1,a\n2,\n", {}, "a.csv:3: the row has no label"),
            ("1,a\n2,nan\n", {}, "a.csv:2: the row has no label"),
            ("1,a\n2,NA\n", {}, "a.csv:2: the row has no label"),
            (
                "t0,t1,kind\n1,2,a\n",
                {"labelled": False},
                "a.csv:2: 'a' is no number; if it is a label, say which column that is with `labels`",
            ),
            ("t0,t1,y\n1,x,a\n", {}, "a.csv:2: 'x' is no number$"),
            (
                "t0,t1,t2\n1,2,3\n",
                {},
                "a.csv: no column is called y, label, labels, class or target; say which it is with `labels`",
            ),
        ],
    )
    def test_refused(self, tmp_path: Path, text: str, options: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError, match=words):
            self.read(tmp_path, text, **options)
