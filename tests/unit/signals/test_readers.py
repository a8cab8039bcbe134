"""Files of signals: what is read, what is mapped, and what is refused, with file and line."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import DataError
from regard.signals.cases import as_cases
from regard.signals.preparation import Preparation
from regard.signals.readers import Layout, naming, read_signals

X = np.arange(30, dtype=np.float32).reshape(3, 2, 5)


class TestArrays:
    def test_npz_is_mapped_and_compressed_ones_are_read(self, tmp_path: Path) -> None:
        for save, mapped in ((np.savez, True), (np.savez_compressed, False)):
            save(tmp_path / "a.npz", X=X, y=np.array([1.0, 2.0, 2.0]), snr=np.array([-5, 0, 5]))
            found = read_signals(tmp_path / "a.npz", Layout(groups=("snr",)))
            assert found.labels == ["1", "2", "2"]
            assert found.groups == {"snr": ["-5", "0", "5"]}
            assert found.cases.channels == 2
            np.testing.assert_array_equal(found.cases[1], X[1])
            base = found.cases[0]
            while base.base is not None and not isinstance(base, np.memmap):
                base = base.base
            assert isinstance(base, np.memmap) == mapped

    def test_npz_with_lengths_and_channels_last(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", signals=X.transpose(0, 2, 1), kind=["u", "v", "u"], n=[5, 1, 3])
        layout = Layout("signals", "kind", "n", channels_last=True)
        found = read_signals(tmp_path / "a.npz", layout)
        assert found.labels == ["u", "v", "u"]
        assert found.cases.lengths.tolist() == [5, 1, 3]
        np.testing.assert_array_equal(found.cases[2], X[2, :, :3])

    def test_fortran_order(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", X=np.asfortranarray(X), y=[0, 1, 2])
        np.testing.assert_array_equal(read_signals(tmp_path / "a.npz").cases[1], X[1])

    def test_npy_with_labels_beside(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", X)
        (tmp_path / "names.txt").write_text("u\nv\nw\n")
        assert read_signals(tmp_path / "a.npy", Layout(labels="names.txt")).labels == ["u", "v", "w"]
        np.save(tmp_path / "y.npy", np.array([3, 1, 2]))
        assert read_signals(tmp_path / "a.npy", Layout(labels="y.npy")).labels == ["3", "1", "2"]
        assert read_signals(tmp_path / "a.npy", labelled=False).labels is None

    def test_objects_are_never_unpickled(self, tmp_path: Path) -> None:
        ragged = np.empty(2, dtype=object)
        ragged[:] = [np.zeros(3), np.zeros(4)]
        np.savez(tmp_path / "a.npz", X=ragged, y=[0, 1])
        with pytest.raises(DataError, match=r"Python objects.*`lengths`"):
            read_signals(tmp_path / "a.npz")
        np.save(tmp_path / "a.npy", ragged)
        with pytest.raises(DataError, match=r"is not an \.npy file of numbers"):
            read_signals(tmp_path / "a.npy", labelled=False)


HEADER = "#made\n@problemName x\n@timeStamps false\n@univariate false\n@dimensions 2\n@classLabel true a b\n@data\n"


class TestArchive:
    def test_channels_lengths_and_missing_values(self, tmp_path: Path) -> None:
        (tmp_path / "a.ts.gz").write_bytes(gzip.compress((HEADER + "1,2,3:4,5,?:a\r\n6:7:b\n").encode()))
        found = read_signals(tmp_path / "a.ts.gz")
        assert found.labels == ["a", "b"]
        np.testing.assert_array_equal(found.cases[0], [[1, 2, 3], [4, 5, np.nan]])
        assert found.cases.lengths.tolist() == [3, 1]

    def test_what_a_header_leaves_open(self, tmp_path: Path) -> None:
        for said in ("@equalLength false\n@seriesLength 2\n", "@seriesLength 0\n", "@missing true\n"):
            (tmp_path / "a.ts").write_text(said + HEADER + "1,?:3,4:a\n1:2:b\n")
            assert read_signals(tmp_path / "a.ts").cases.lengths.tolist() == [2, 1]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("1,2:a\n", r"a\.ts:1: a header line must start with @"),
            ("@problemNam x\n@data\n", r"a\.ts:1: @problemNam is unknown; did you mean 'problemname'"),
            ("@classLabel\n", r"a\.ts:1: @classLabel must be followed by true or false"),
            ("@classLabel true\n", r"a\.ts:1: @classLabel true must be followed by the classes"),
            ("@dimensions two\n", r"a\.ts:1: @dimensions must be followed by the number"),
            ("@dimensions 1000000000000\n", r"a\.ts:1: 1000000000000 is too large for @dimensions"),
            ("@seriesLength 1000000000000\n", r"a\.ts:1: 1000000000000 is too large for @seriesLength"),
            ("@seriesLength -5\n", r"a\.ts:1: @seriesLength must be followed by the number of values"),
            (
                "@seriesLength 3\n" + HEADER + "1,2,3:4,5,6:a\n1,2:3,4:a\n",
                r"a\.ts:10: the case is 2 values long, but @",
            ),
            (
                "@equalLength true\n" + HEADER + "1,2:3,4:a\n1:2:a\n",
                r":10: the case is 1 value long, the first one 2, but",
            ),
            (
                "@missing false\n" + HEADER + "1:2:a\n1:?:a\n",
                r":10: the case has a missing value, but @missing says fa",
            ),
            ("@univariate true\n@data\n1:2\n", r"a\.ts:3: the case has 2 channels, but @univariate says true"),
            (HEADER + "1:2:a\n0.367,1:5,7\n", r"a\.ts:9: the case has no label; it must end with ':'"),
            (HEADER + "1:2\n", r"a\.ts:8: the case has no label"),
            (HEADER + "1:2:\n", r"a\.ts:8: the case has no label"),
            ("@classLabel true 1 2\n@data\n1,2,3\n", r"a\.ts:3: the case has no label"),
            (HEADER + "1,:2,3:a\n", r"a\.ts:8: a value is empty"),
            (HEADER + "1_0:2:a\n", r"a\.ts:8: '1_0' is no number"),
            ("@timeStamps true\n", r"a\.ts:1: values with time stamps"),
            ("@targetLabel true\n", r"a\.ts:1: this is a file for regression"),
            ("@classLabel true a b\n", r"a\.ts: no line says @data"),
            (HEADER, r"a\.ts: no case follows"),
            (HEADER + "1:2:c\n", r"a\.ts:8: the class 'c' is not among"),
            (HEADER + "1:2:3:a\n", r"a\.ts:8: the case has 3 channels, but @dimensions says 2"),
            (HEADER + "1:2,3:a\n", r"a\.ts:8: the channels have unequal lengths: 1, 2"),
            (HEADER + "1,q:2,3:a\n", r"a\.ts:8: 'q' is no number"),
            ("@classLabel false\n@data\n1,2\n", r"a\.ts: holds no labels"),
            ("@classLabel true a\n@data\n1:2:a\n1:a\n", r"a\.ts:4: the case has 1 channel, but the first one has 2"),
        ],
    )
    def test_refused_with_the_line(self, tmp_path: Path, text: str, words: str) -> None:
        (tmp_path / "a.ts").write_text(text)
        with pytest.raises(DataError, match=words):
            read_signals(tmp_path / "a.ts")


@pytest.mark.parametrize(
    ("arrays", "layout", "words"),
    [
        ({"X": X}, Layout(), "holds no labels"),
        ({"X": X, "y": [1, 2]}, Layout(), "holds 3 cases, but 2 of labels"),
        ({"Z": X, "y": [1, 2, 3]}, Layout(), "no array 'X'"),
        ({"X": X, "y": [1, 2, 3]}, Layout(groups=("snrs",)), "no array 'snrs'"),
        ({"X": X, "y": [[1], [2], [3]]}, Layout(), "one value a case"),
        ({"X": X, "y": [1, 2, 3], "n": [5, 6, 5]}, Layout(lengths="n"), "a length is 6, but the cases have 5 frames"),
        ({"X": X, "y": [1, 2, 3], "n": [5, 0, 5]}, Layout(lengths="n"), "case 1 has no frames"),
        ({"X": X[0, 0], "y": [1, 2, 3]}, Layout(), r"but has shape \[5\]"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, arrays: dict[str, Any], layout: Layout, words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=words):
        read_signals(tmp_path / "a.npz", layout)


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"1,2,a")
    with pytest.raises(DataError, match=r"is not an \.npz file"):
        read_signals(tmp_path / "a.npz")
    with pytest.raises(DataError, match="cannot be read"):
        read_signals(tmp_path / "b.ts")
    with pytest.raises(DataError, match=r"read from \.npz, \.npy, \.csv and \.ts"):
        read_signals(tmp_path / "a.wav")


def test_damaged_files_are_told_in_words(tmp_path: Path) -> None:
    files = {"empty.npy": b"", "cut.csv.gz": gzip.compress(b"1,2\n" * 101)[:-17], "ends.ts": b"@ \n"}
    files["many.ts"] = b"@dimensions " + b"9" * 5003 + b"\n"
    files["wide.csv"] = b"1" * 200_003 + b",2\n"
    packed = tmp_path / "packed.npz"
    np.savez_compressed(packed, X=np.random.default_rng(0).random((11, 13)))
    damaged = bytearray(packed.read_bytes())
    damaged[200] ^= 0xFF
    files["flipped.npz"] = bytes(damaged)
    files["short.npz"], files["shorter.npz"] = packed.read_bytes()[:-7], b"PK"
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        words = ": is damaged, or cut short" if name.endswith("npz") else ""
        with pytest.raises(DataError, match=name + words):
            read_signals(tmp_path / name, labelled=False)


class TestMembers:
    """Arrays of an .npz file as they lie in it: damaged, encrypted, or not as long as they say."""

    def write(self, tmp_path: Path, save: Any = np.savez) -> tuple[Path, bytearray, int]:
        """Return the path of a file, its bytes, and where its signals begin."""
        path = tmp_path / "a.npz"
        save(path, X=X, y=[0, 1, 2])
        content = bytearray(path.read_bytes())
        return path, content, content.find(X.tobytes())

    def test_a_flipped_bit_of_a_mapped_array_is_noticed(self, tmp_path: Path) -> None:
        path, content, place = self.write(tmp_path)
        content[place + 7] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.npz: is damaged"):
            read_signals(path)

    def test_an_encrypted_one_is_refused(self, tmp_path: Path) -> None:
        path, content, _ = self.write(tmp_path)
        for sign, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.find(sign) + flags] |= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match="'X' is encrypted"):
            read_signals(path)

    @pytest.mark.parametrize(
        ("method", "named"), [(9, "9 (deflate64)"), (12, "12 (bzip2)"), (93, "93 (zstd)"), (77, "77")]
    )
    def test_what_numpy_does_not_compress_by_is_named(self, tmp_path: Path, method: int, named: str) -> None:
        path, content, _ = self.write(tmp_path)
        for sign, field in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            content[content.find(sign) + field] = method
        path.write_bytes(content)
        with pytest.raises(DataError, match=re.escape(f"'X' is compressed by method {named}, which is not read")):
            read_signals(path)

    def test_a_newer_kind_of_zip_is_not_called_damaged(self, tmp_path: Path) -> None:
        path, content, _ = self.write(tmp_path)
        content[content.find(b"PK\x01\x02") + 6] = 99
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.npz: cannot be read \(zip file version 9\.9\)"):
            read_signals(path)

    def test_one_that_says_to_be_longer_does_not_reach_into_the_next(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npz"
        written = io.BytesIO()
        np.save(written, X)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", written.getvalue().replace(b"(3, 2, 5)", b"(9, 2, 5)"))
            archive.writestr("y.npy", written.getvalue())
        with pytest.raises(DataError, match="is damaged"):
            read_signals(path, labelled=False)

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_labels_that_are_missing_are_no_class(self, tmp_path: Path, save: Any) -> None:
        for labels in ([1.0, np.nan, 2.0], ["u", "", "v"]):
            save(tmp_path / "a.npz", X=X, y=labels)
            with pytest.raises(DataError, match=r"a\.npz: case 1 has no label"):
                read_signals(tmp_path / "a.npz")
            assert read_signals(tmp_path / "a.npz", labelled=False).cases.channels == 2


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("a.csv", "lengths", "`lengths` names the array of an .npz file that says how long each case is; of a .csv"),
        ("a.npy", "lengths", "`lengths` names"),
        ("a.npy", "x", "`x` names the array of an .npz file that holds the signals; of a .npy file it says nothing"),
        ("a.csv.gz", "channels_last", "`channels_last` says how the arrays of .npz and .npy files lie; of a .csv file"),
        ("a.ts", "labels", "`labels` names an array of an .npz file, a column of a .csv file, or a file beside"),
    ],
)
def test_what_a_format_has_not_is_refused(tmp_path: Path, name: str, key: str, words: str) -> None:
    with pytest.raises(DataError, match=re.escape(f"{name}: {words}")):
        read_signals(tmp_path / name, Layout(**{key: True if key == "channels_last" else "n"}))


def test_a_layout_is_carried_over_as_far_as_the_format_knows_it() -> None:
    layout = Layout("signals", "season", "n", ("site",), channels_last=True)
    carried = {name: layout.carried(f"b.{name}", "a.npz") for name in ("npz", "npy", "csv.gz", "ts")}
    assert carried == {
        "npz": layout,
        "npy": Layout(groups=("site",), channels_last=True),
        "csv.gz": Layout(labels="season", groups=("site",)),
        "ts": Layout(groups=("site",)),
    }
    assert Layout(labels="labels.txt").carried("b.csv", "a.npy") == Layout()
    assert Layout(labels="labels.txt").carried("b.npy", "a.npy") == Layout(labels="labels.txt")


def test_groups_are_refused_where_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text(HEADER + "1:2:a\n")
    with pytest.raises(DataError, match="no column 'site' to group by"):
        read_signals(tmp_path / "a.ts", Layout(groups=("site",)))
    for layout, labelled in ((Layout(groups=("site",)), False), (Layout(perhaps=("site",)), True)):
        assert read_signals(tmp_path / "a.ts", layout, labelled=labelled).labels == ["a"]


def test_a_file_is_named_and_the_remedy_holds_in_a_recipe_too() -> None:
    for X, words in (([[np.nan]], "where `missing` is 'mask' such values"), ([[1j]], "where `iq` is true it is taken")):
        with pytest.raises(DataError, match=rf"a\.npz: .*{words}"), naming("a.npz"):
            Preparation.fit(as_cases(np.array(X)), np.arange(1), iq=False, missing="error", scaling="none")


def test_groups_that_need_not_be_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=[1, 2, 3], site=[5, 7, 11])
    (tmp_path / "a.csv").write_text("t0,site,y\n1,5,a\n")
    layout = Layout(perhaps=("site", "snr"))
    assert read_signals(tmp_path / "a.npz", layout).groups == {"site": ["5", "7", "11"]}
    found = read_signals(tmp_path / "a.csv", layout)
    assert (found.groups, found.cases[0].tolist()) == ({"site": ["5"]}, [[1]])
