"""The estimator: unequal lengths, I and Q, missing values, warm starts, what is stored, and bad input in words."""

from __future__ import annotations

import copy
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import regard
from regard import TransformerClassifier
from regard.errors import DamagedError, FolderError
from regard.signals import load_classifier
from regard.signals.explanation import explain
from regard.signals.synthetic import Tones
from regard.training.diagnosis import NotFiniteError
from unit.signals.toys import levels, quick, zeros


class TestWhatItLearns:
    def test_unequal_lengths(self) -> None:
        X, y = levels(62, np.random.default_rng(0))
        model = quick().fit(X[:41], y[:41])
        assert model.score(X[41:], y[41:]) == 1
        alone = np.concatenate([model.predict_proba([x]) for x in X[41:]])
        # float64, where a neighbour's padding is worth a few roundings
        np.testing.assert_allclose(alone, model.predict_proba(X[41:]), rtol=0, atol=1e-12)

    def test_channels(self) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(37) % 2
        X = rng.standard_normal((37, 3, 5)) + 4 * y[:, None, None] * [[0], [1], [0]]
        model = quick().fit(X, y)
        assert model.score(X, y) == 1
        assert not hasattr(model, "n_features_in_")
        assert model.predict(X[:, :, :4]).shape == (37,)  # of another length, which only a table refuses

    def test_complex_numbers_and_their_parts_are_the_same(self) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(36) % 2
        X = rng.standard_normal((36, 7)) + 1j * (rng.standard_normal((36, 7)) + 4 * y[:, None])
        parts = np.stack([X.real, X.imag], axis=1)
        one, other = quick(iq=True).fit(X, y), quick(iq=True).fit(parts, y)
        assert one.score(X, y) == 1
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(parts))
        scale = one.classifier_.preparation.scale
        assert scale[0] == scale[1]

    def test_missing_values_are_masked(self) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 6)) + 4 * y[:, None]
        X[rng.random(X.shape) < 0.3] = np.nan
        model = quick(missing="mask").fit(X, y)
        assert model.score(X, y) > 0.9
        with pytest.raises(ValueError, match=r"case 0: Input X contains NaN; where `missing` is 'mask'"):
            quick().fit(X, y)
        with pytest.raises(ValueError, match=r"NaN.*`missing` is 'mask'"):
            quick().fit([X[0], X[1][:3]], [0, 1])

    def test_labels_of_any_type(self) -> None:
        X, y = levels(41, np.random.default_rng(0))
        for labels in (np.array(["no", "yes"])[y], y == 1, y + 0.0, np.array(["no", "yes"], dtype=object)[y]):
            assert quick().fit(X, labels).score(X, labels) == 1

    def test_windows_and_convolutions_and_what_counted(self) -> None:
        X, y = levels(40, np.random.default_rng(0))
        model = quick(window=3, stride=2, convolutions=1, readout="attention").fit(X, y)
        assert model.score(X, y) == 1
        for x, found in zip(X, explain(model, X), strict=True):
            assert found.influence.shape == found.signal.shape == x.shape
            assert found.attention is not None
            assert found.attention.sum() == pytest.approx(1)
            assert found.attention.shape == x.shape[1:]

    def test_influence_is_the_slope_times_the_value(self) -> None:
        X, y = levels(40, np.random.default_rng(0))
        estimator = quick(readout="attention").fit(X, y)
        learned = estimator.classifier_
        model = copy.deepcopy(learned.model).double().eval()
        both = explain(learned, X[:2])
        assert [found.label for found in both] == ["0", "1"]
        sure = estimator.predict_proba(X[:2]).max(axis=1)
        assert [found.probability for found in both] == pytest.approx(sure.tolist())

        def score(values: np.ndarray, answer: int) -> float:
            return model(torch.from_numpy(values.T.copy())[None])[0, answer].item()

        for answer, (x, found) in enumerate(zip(X, both, strict=False)):
            scaled = learned.preparation.scaled(x)
            for place in [(0, 0), (1, 2)]:
                step = np.zeros_like(scaled)
                step[place] = 1e-5
                slope = (score(scaled + step, answer) - score(scaled - step, answer)) / 2e-5
                # the frames were rounded to float32 once, and the difference has an error of its own
                assert found.influence[place] == pytest.approx(slope * scaled[place], rel=1e-4, abs=1e-6)

    @pytest.mark.slow
    def test_three_tones(self) -> None:
        drawn = Tones().draw(900, np.random.default_rng(0))
        model = TransformerClassifier(updates=300, warmup=100, schedule="noam", random_state=0)
        model.fit(drawn.X[:720], drawn.y[:720])
        assert model.score(drawn.X[720:], drawn.y[720:]) >= 0.99


class TestHow:
    def test_early_stopping_takes_the_best(self) -> None:
        X, y = levels(62, np.random.default_rng(0))
        rng = np.random.default_rng(1)
        noise = rng.permutation(y)
        model = quick(updates=2000, patience=2, validation_fraction=0.3).fit(X, noise)
        assert model.n_updates_ < 2000
        seen = [event["figures"]["loss"] for event in model.history_ if event["event"] == "validation"]
        assert len(seen) > 2
        assert min(seen) not in seen[-2:]

    def test_class_weights(self) -> None:
        rng = np.random.default_rng(0)
        y = (np.arange(60) % 10 == 0).astype(int)
        X = rng.standard_normal((60, 5)) + y[:, None]
        rare = [quick(class_weight=w).fit(X, y).predict(X).sum() for w in (None, "balanced", {1: 1000.0})]
        assert rare[0] < rare[1] < rare[2]

    def test_warm_start_goes_on_and_learns_a_new_class(self) -> None:
        X, y = levels(40, np.random.default_rng(0))
        model = quick(warm_start=True).fit(X, y)
        scale = model.classifier_.preparation
        model.set_params(updates=1, learning_rate=1e-9)
        assert model.fit(X, y).score(X, y) == 1
        assert model.classifier_.preparation == scale
        more = [*X, *(x + np.array([[9], [0]]) for x in X[:20])]
        model.fit(more, [*y, *[7] * 20])
        assert model.classes_.tolist() == [0, 1, 7]
        assert (model.predict(X) != 1 - y).all()  # what it knew is not swapped
        with pytest.raises(ValueError, match="a warm start goes on with a model of the same sizes"):
            model.set_params(d_model=16).fit(X, y)

    def test_the_seed_decides_and_nothing_else_moves(self) -> None:
        X, y = levels(40, np.random.default_rng(0))
        np.random.seed(5)
        before = np.random.get_state()[1].copy()
        one = quick(dropout=0.2).fit(X, y).predict_proba(X)
        assert (np.random.get_state()[1] == before).all()
        np.testing.assert_array_equal(one, quick(dropout=0.2).fit(X, y).predict_proba(X))
        assert (one != quick(dropout=0.2, random_state=1).fit(X, y).predict_proba(X)).any()

    def test_the_device_is_chosen_as_commands_choose_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(regard.signals.estimator, "best_device", lambda name: asked.append(name) or "cpu")
        X, y = levels(8, np.random.default_rng(0))
        quick(updates=1).fit(X, y)
        quick(device="mps").partial_fit(X, y, classes=[0, 1])
        assert asked == ["auto", "mps"]

    def test_selection_and_pipelines(self) -> None:
        drawn = Tones(length=16).draw(45, np.random.default_rng(0))
        search = GridSearchCV(quick(updates=10), {"readout": ["mean", "attention"]}, cv=2).fit(drawn.X, drawn.y)
        assert search.best_params_["readout"] in ("mean", "attention")
        pipe = make_pipeline(FunctionTransformer(lambda X: X[:, ::2]), quick(updates=10))
        assert len(cross_val_score(pipe, drawn.X, drawn.y, cv=3)) == 3

    def test_progress_is_told_on_stderr(self, capsys: pytest.CaptureFixture[str]) -> None:
        X, y = levels(40, np.random.default_rng(0))
        quick(verbose=1, patience=3).fit(X, y)
        told = capsys.readouterr()
        assert "validation after update" in told.err
        assert not told.out

    def test_the_first_and_the_last_are_told_without_validation(self, capsys: pytest.CaptureFixture[str]) -> None:
        X, y = levels(40, np.random.default_rng(0))
        model = quick(verbose=1).fit(X, y)
        begun, *_, ended = capsys.readouterr().err.splitlines()
        assert re.fullmatch(r"learning from 40 cases of 2 classes: [\d,]+ parameters, 30 updates", begun)
        assert ended == f"ended after 30 updates: loss {model.history_[-1]['loss']:.3f} nats/case"
        model.partial_fit(X[:7], y[:7])
        assert re.fullmatch(r"part 1: 7 cases, 1 update, loss [\d.]+ nats/case\n", capsys.readouterr().err)

    def test_a_training_that_breaks_speaks_of_no_checkpoint(self) -> None:
        X, y = levels(40, np.random.default_rng(0))
        for learn in (quick(learning_rate=1e38).fit, partial(quick(learning_rate=1e38).partial_fit, classes=[0, 1])):
            with pytest.raises(NotFiniteError, match=r"update \d+ was not made: .*lower `learning_rate`") as caught:
                for _ in range(5):  # a part at a time
                    learn(X, y)
            assert "checkpoint" not in str(caught.value)


class TestWhatIsKept:
    @pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative-bias", "none"])
    def test_pickle_and_folder_give_the_same(self, tmp_path: Path, positions: str) -> None:
        X, y = levels(40, np.random.default_rng(0))
        labels = np.array(["no", "yes"])[y]
        model = quick(positions=positions, updates=5).fit(X, labels)
        model.save(tmp_path / "model")
        for other in (
            pickle.loads(pickle.dumps(model)),
            TransformerClassifier.load(tmp_path / "model"),
            load_classifier(tmp_path / "model"),
        ):
            found = other.probabilities(X) if hasattr(other, "probabilities") else other.predict_proba(X)
            np.testing.assert_array_equal(found, model.predict_proba(X))
        loaded = TransformerClassifier.load(tmp_path / "model")
        assert loaded.get_params() == model.get_params()
        assert loaded.predict(X).tolist() == model.predict(X).tolist()
        assert clone(loaded).get_params() == model.get_params()

    def test_a_table_keeps_its_length(self, tmp_path: Path) -> None:
        drawn = Tones(length=16).draw(45, np.random.default_rng(0))
        quick(updates=2).fit(drawn.X, drawn.y).save(tmp_path / "model")
        with pytest.raises(ValueError, match="expecting 16 features"):
            TransformerClassifier.load(tmp_path / "model").predict(drawn.X[:, :9])

    def test_damage_is_noticed_and_strangers_refused(self, tmp_path: Path) -> None:
        X, y = levels(40, np.random.default_rng(0))
        model = quick(updates=2).fit(X, y)
        model.save(tmp_path / "model")
        with pytest.raises(FolderError, match="holds a classifier of signals"):
            regard.load(tmp_path / "model")
        config = tmp_path / "model" / "config.json"
        config.write_bytes(config.read_bytes().replace(b'"values"', b'"value"'))
        with pytest.raises(DamagedError, match=r"config\.json is damaged"):
            load_classifier(tmp_path / "model")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "thesis.txt").write_text("kept")
        with pytest.raises(FolderError, match="holds other things"):
            model.save(tmp_path / "other")
        with pytest.raises(NotFittedError):
            quick().save(tmp_path / "new")


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (zeros(4, 2, 3, 5), [0, 1, 0, 1], r"dim 4|has shape \[4, 2, 3, 5\]"),
        (zeros(4, 3), [0, 0, 0, 0], "1 class, 0, but a classifier needs at least two"),
        (zeros(4, 2, 3), [0, 1, 0], "inconsistent numbers of samples: .4, 3."),
        ([zeros(3), zeros(0)], [0, 1], "case 1 has no frames"),
        ([zeros(2, 3), zeros(1, 4)], [0, 1], "case 0 has 2 and case 1 has 1"),
        ([zeros(2, 3), zeros(2, 3, 1)], [0, 1], r"case 1 must be \[length\] or \[channels, length\]"),
        (np.full((4, 2, 3), np.inf), [0, 1, 0, 1], "contains infinity"),
        (np.full((4, 2, 3), 1e300), [0, 1, 0, 1], "too large"),
        (zeros(4, 2, 3) * 1j, [0, 1, 0, 1], "Complex data not supported.*`iq` is true"),
        ([zeros(3), zeros(4) * 1j], [0, 1], "all real or all complex"),
        (np.full((4, 2, 3), "a"), [0, 1, 0, 1], "must be numbers, but is an array of <U1"),
        (zeros(4, 2, 3), [0.5, 1.2, 0.1, 3.3], "Unknown label type"),
        (zeros(0, 2, 3), [], "there are no cases"),
        (zeros(4, 2, 3), None, "requires y to be passed"),
        (zeros(4, 2, 3), [0, 1, np.nan, 1], "Input y contains NaN"),
        (zeros(4, 3), [0, 1, np.nan, 1], "Input y contains NaN"),
        (zeros(4, 2, 3), np.array(["a", "b", np.nan, "a"], dtype=object), "Input (y )?contains NaN"),
        (zeros(4, 2, 3), np.array(["a", "b", None, "a"], dtype=object), "Input y contains None"),
        (zeros(4, 2, 3), np.array(["a", "b", 3, "a"], dtype=object), "labels of types int, str"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_input_in_words(X: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quick().fit(X, y)


def test_constant_values_are_no_fault() -> None:
    with pytest.warns(UserWarning, match="the training part is constant in channel 0"):
        model = quick(updates=3).fit(np.full((6, 4), 1e9), [0, 1, 0, 1, 0, 1])
    assert np.isfinite(model.predict_proba(np.full((2, 4), 1e9))).all()
