"""What did a user of scikit-learn hand over? Tables are checked by scikit-learn itself, what else is allowed by us.

A table is [n, length]; the others, [n, channels, length] and lists of arrays of unequal length, it does not know.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from regard.errors import MissingExtraError, ShapeError
from regard.signals.cases import Cases, as_cases

try:
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data
except ImportError:
    raise MissingExtraError("scikit-learn", "signals") from None


@runtime_checkable
class Takes(Protocol):
    """An estimator, as far as it says what it takes."""

    iq: bool
    missing: str


def learnable(estimator: Takes, X: Any, y: Any, *, reset: bool) -> tuple[Cases, npt.NDArray[Any]]:
    """Return cases and labels to learn from.

    Args:
        estimator: which; a table's length is noted on it, as scikit-learn does.
        X: cases.
        y: their labels.
        reset: another length than before is allowed.

    Raises:
        ValueError: they cannot be used.
        TypeError: X is sparse, or holds objects.
    """
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None")
    if _is_table(X, iq=estimator.iq):
        X, y = validate_data(estimator, X, y, ensure_all_finite=_finite(estimator), reset=reset)
    else:
        for stale in ("n_features_in_", "feature_names_in_") if reset else ():
            if hasattr(estimator, stale):
                delattr(estimator, stale)
        y = column_or_1d(y, warn=True)
    cases = _cases(X)
    check_consistent_length(cases, y)
    assert_all_finite(y, input_name="y", estimator_name=type(estimator).__name__)
    if y.dtype == object:
        _refuse_disorder(y)
    check_classification_targets(y)
    return cases, y


def classes_of(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the labels in ``y``, sorted, each once.

    Raises:
        ValueError: there is only one.
    """
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"y holds 1 class, {classes.tolist()[0]!r}, but a classifier needs at least two")
    return classes


def readable(estimator: Takes, X: Any) -> Cases:
    """Return cases to classify; a table must be as long as that learned from, if that was one.

    Raises:
        ValueError: they cannot be used.
    """
    if hasattr(estimator, "n_features_in_") and _is_table(X, iq=estimator.iq):
        X = validate_data(estimator, X, ensure_all_finite=_finite(estimator), reset=False)
    return _cases(X)


def _refuse_disorder(y: npt.NDArray[Any]) -> None:
    """Refuse objects that are no labels, or that have no order among them."""
    labels = y.tolist()
    if missing := next((str(label) for label in labels if label is None or label != label), None):
        raise ValueError(f"Input y contains {'NaN' if missing == 'nan' else missing}: label the case, or leave it out")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in labels})
    if "str" in kinds and len(kinds) > 1:
        raise ValueError(f"y holds labels of types {', '.join(kinds)}; make all of them texts, or all numbers")


def _is_table(X: Any, *, iq: bool) -> bool:
    """Whether scikit-learn should look at X: all but 3-D arrays, lists of sequences, and wanted complex numbers."""
    if hasattr(X, "ndim"):
        if iq and getattr(X, "dtype", None) is not None and np.iscomplexobj(X):
            return False
        return not (X.ndim == 3 or (X.ndim == 1 and X.dtype == object))
    if isinstance(X, list | tuple) and len(X):
        shapes = {np.shape(row) for row in X if isinstance(row, np.ndarray)}
        lengths = {len(row) for row in X if isinstance(row, list | tuple)}
        return not (len(shapes) > 1 or len(lengths) > 1 or any(len(shape) > 1 for shape in shapes))
    return True


def _finite(estimator: Takes) -> bool | Literal["allow-nan"]:
    return "allow-nan" if estimator.missing == "mask" else True


def _cases(X: Any) -> Cases:
    try:
        return as_cases(X)
    except (TypeError, ValueError) as error:
        if isinstance(error, ShapeError):
            raise
        raise ShapeError(f"X cannot be taken as sequences of numbers: {error}") from None
