"""What augmentation changes, and that it never repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.errors import RecipeError
from regard.signals.augmentation import AugmentOptions, Compose, Crop, Mask, Noise, Rotate, Scale, Shift
from regard.signals.batches import GeneratedBatches, SignalBatches
from regard.signals.cases import as_cases
from regard.signals.preparation import Preparation
from regard.training.class_objective import UNCOUNTED

CASE = np.arange(22.0).reshape(2, 11) + 1


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("change", [Noise(0.5), Scale(0.5), Shift(0.5), Rotate(1), Crop(0.3), Mask(0.9)])
def test_each_changes_by_its_generator_alone(change: Any) -> None:
    before = CASE.copy()
    one = change(CASE, rng())
    np.testing.assert_array_equal(one, change(CASE, rng()))
    np.testing.assert_array_equal(CASE, before)
    generator = rng()
    others = [change(CASE, generator) for _ in range(9)]
    assert any(other.shape != one.shape or (other != one).any() for other in others)


def test_what_each_keeps() -> None:
    assert sorted(Shift(1)(CASE, rng())[0]) == sorted(CASE[0])
    turned = Rotate(1)(CASE, rng())
    np.testing.assert_allclose(turned[0] ** 2 + turned[1] ** 2, CASE[0] ** 2 + CASE[1] ** 2)
    scaled = Scale(0.5)(CASE, rng()) / CASE
    np.testing.assert_allclose(scaled, scaled[0, 0])
    assert np.std(Noise(0.5)(np.zeros((2, 5000)), rng())) == pytest.approx(0.5, rel=0.05)  # 10,000 numbers: 1 per cent
    for seed in range(30):
        cropped = Crop(0.5)(CASE, np.random.default_rng(seed))
        assert 6 <= cropped.shape[1] <= 11
        assert (np.diff(cropped[0]) == 1).all()
        assert (Mask(0.5)(CASE, np.random.default_rng(seed))[0] == 0).sum() <= 6
    with pytest.raises(RecipeError, match="channels in pairs, but there are 3"):
        Rotate(1)(np.zeros((3, 4)), rng())


def test_options_become_one_callable() -> None:
    assert AugmentOptions().build() is None
    built = AugmentOptions(crop=0.5, noise=0.1).build()
    assert built == Compose([Crop(0.5), Noise(0.1)])
    for wrong in ({"crop": 0.0}, {"crop": 2.0}, {"noise": -1.0}, {"shift": 1.5}):
        with pytest.raises(RecipeError, match=r"data\.augment\."):
            AugmentOptions(**wrong)


class TestBatches:
    cases = as_cases([np.full(length, float(index)) for index, length in enumerate([2, 3, 3, 5, 7, 7, 11])])

    def batches(self, **options: Any) -> SignalBatches:
        preparation = Preparation(1, scaling="none")
        labels = np.arange(7) % 2
        return SignalBatches(self.cases, np.arange(7), labels, preparation, batch_size=3, **options)

    def test_each_case_once_an_epoch_in_an_order_of_its_own(self) -> None:
        made = self.batches()
        orders = [[tuple(batch.example_ids) for batch in made.epoch(epoch)] for epoch in range(3)]
        assert all(sorted(sum(order, ())) == list(range(7)) for order in orders)
        assert len({str(order) for order in orders}) == 3
        assert [tuple(batch.example_ids) for batch in made.epoch(1, skip=1)] == orders[1][1:]

    def test_rows_are_padded_with_zeros_and_labelled(self) -> None:
        for batch in self.batches().epoch(0):
            for row, example in enumerate(batch.example_ids):
                length = len(self.cases[example][0])
                assert batch.labels[row] == example % 2
                assert batch.lengths is None or batch.lengths[row] == length
                assert (batch.frames[row, :length] == example).all()
                assert (batch.frames[row, length:] == 0).all()

    def test_augmentation_knows_seed_epoch_and_case_only(self) -> None:
        def seen(epoch: int, **options: Any) -> dict[int, float]:
            made = self.batches(augment=Noise(1.0), **options)
            rows = [zip(b.example_ids, b.frames, strict=True) for b in made.epoch(epoch)]
            return {example: float(frames[0, 0]) for batch in rows for example, frames in batch}

        assert seen(0) == seen(0, shuffle=False)
        values = [*seen(0).values(), *seen(1).values(), *seen(0, seed=2).values()]
        assert len(set(values)) == 21

    @pytest.mark.parametrize("ranks", [2, 5])
    def test_shares_are_the_whole(self, ranks: int) -> None:
        """Of batches of 3, 3 and 1: every row in one share as it is in the whole; where none is left, one uncounted."""
        whole = list(self.batches(augment=Noise(1.0)).epoch(1))
        shares = [list(self.batches(augment=Noise(1.0), share=(rank, ranks)).epoch(1)) for rank in range(ranks)]
        for number, batch in enumerate(whole):
            of_batch = [share[number] for share in shares]
            for row, example in enumerate(batch.example_ids):
                share = of_batch[row % ranks]
                assert share.example_ids[row // ranks] == example
                assert share.labels[row // ranks] == batch.labels[row]
                length = len(self.cases[example][0])
                assert (share.frames[row // ranks, :length] == batch.frames[row, :length]).all()
            counted = sum(int((share.labels != UNCOUNTED).sum()) for share in of_batch)
            assert counted == len(batch.example_ids)
            assert all(len(share.example_ids) for share in of_batch)

    def test_generated_ones_never_repeat(self) -> None:
        made = GeneratedBatches(
            lambda n, generator: (as_cases(generator.standard_normal((n, 4))), np.zeros(n, dtype=np.int64)),
            Preparation(1, scaling="none"),
            batch_size=3,
            num_batches=2,
        )
        epochs = [[batch.frames for batch in made.epoch(epoch)] for epoch in (0, 1, 0)]
        assert (epochs[0][1] == epochs[2][1]).all()
        assert len({float(frames[0, 0, 0]) for epoch in epochs[:2] for frames in epoch}) == 4
        assert (next(made.epoch(0, skip=1)).frames == epochs[0][1]).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Crop(3), "the share of Crop must be above 0 and at most 1, but is 3"),
        (lambda: Crop(0), "the share of Crop must be above 0 and at most 1, but is 0"),
        (lambda: Noise(-1), "the deviation of Noise must be at least 0, but is -1"),
        (lambda: Scale(np.inf), "the deviation of Scale must be at least 0, but is inf"),
        (lambda: Shift(1.5), "the share of Shift must be at least 0 and at most 1, but is 1.5"),
        (lambda: Rotate(-0.5), "the share of Rotate must be"),
        (lambda: Mask(np.nan), "the share of Mask must be at least 0 and at most 1, but is nan"),
    ],
)
def test_ranges_are_checked_when_made(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("augment", "words"),
    [
        (lambda case, rng: case[0], r"shape \[7\] for case 0, but must return an array \[2 channels, frames\]"),
        (lambda case, rng: case[:1], r"shape \[1, 7\] for case 0"),
        (lambda case, rng: case[:, :0], r"shape \[2, 0\] for case 0"),
        (lambda case, rng: None, "a NoneType for case 0"),
        (lambda case, rng: case / 0, "NaN or infinity for case 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.usefixtures("unchecked")
def test_what_a_callable_returned_is_told(augment: Any, words: str) -> None:
    cases = as_cases(np.random.default_rng(0).standard_normal((1, 2, 7)))
    batches = SignalBatches(
        cases, np.arange(1), np.zeros(1, dtype=np.int64), Preparation(2, scaling="none"), batch_size=1, augment=augment
    )
    with pytest.raises(ValueError, match=f"augment returned {words}"):
        next(batches.epoch(0))
