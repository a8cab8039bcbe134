"""Which learning rate suits this recipe? The range test on its text and model; nothing is kept but a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.errors import InputError
from regard.inspection.figures import image_bytes, range_curve
from regard.runs.recipes.plan import Plan
from regard.runs.saying import Say
from regard.runs.training.rehearsal import rehearsal
from regard.runs.translating.output import write_result
from regard.training.rate_range import HIGHEST, LOWEST, UPDATES, RatePoint, rate_range, suggested_rate

_ROWS = 25


def rate_test(asked: Plan, *, picture: str | Path | None = None, device: str = "auto", say: Say) -> Iterator[str]:
    """Yield a table of rates and losses, then the suggested rate.

    Args:
        asked: the recipe and what is said beside it.
        picture: a file for the curve, as ``rates.png`` or ``.svg``.
        device: where to compute.
        say: told meanwhile what is read and done.

    Raises:
        InputError: a picture is wanted in a format that there is not.
        MissingExtraError: a picture is wanted, and matplotlib is not installed.
    """
    if picture is not None:
        _picture([RatePoint(LOWEST, 1.0)], None, picture)  # better refused now than after the test
    with rehearsal(asked, device, say) as setting:
        say(f"trying {UPDATES} rates, from {LOWEST:g} to {HIGHEST:g} …")
        points = rate_range(setting.objective, setting.batches(), setting.recipe.training)
    suggested = suggested_rate(points)
    yield "rate        loss"
    yield from map(_row, points[:: max(1, -(-len(points) // _ROWS))])
    yield ""
    if suggested is None:
        yield "the loss fell at no rate; look at the text and the model first"
    else:
        given = setting.recipe.training.learning_rate
        yield f"suggested: learning_rate = {suggested:.1e}, the highest of a schedule; the recipe has {given:.1e}"
    if picture is not None:
        write_result(picture, _picture(points, suggested, picture))


def _picture(points: Sequence[RatePoint], suggested: float | None, path: str | Path) -> bytes:
    drawn = range_curve([point.rate for point in points], [point.loss for point in points], suggested)
    try:
        return image_bytes(drawn, Path(path).suffix.removeprefix(".") or "png")
    except ValueError:
        raise InputError(f"{path}: not a kind of picture that can be drawn; name a .png, .svg or .pdf") from None


def _row(point: RatePoint) -> str:
    return f"{point.rate:<10.2e}  {point.loss:.3f}"
