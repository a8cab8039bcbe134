"""What did a user of scikit-learn hand over? Tables are checked by scikit-learn itself, everything else here.

A table is [n, length]; the others, [n, channels, length] and lists of arrays of unequal length, it does not know.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import MissingExtraError, ShapeError
from regard.signals.cases import Cases, as_cases
from regard.signals.labels import can_store

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data
except ImportError:
    raise MissingExtraError("scikit-learn", "signals") from None


def learnable(estimator: BaseEstimator, X: Any, y: Any, *, reset: bool) -> tuple[Cases, npt.NDArray[Any]]:
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
    if _is_table(X):  # NaN and infinity are refused later, with the case and the remedy
        X, y = validate_data(estimator, X, y, ensure_all_finite=False, reset=reset)
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
    if not can_store(y):
        warnings.warn(
            f"labels of type {y.dtype} can be learned, but not saved; map them to numbers or texts", stacklevel=3
        )
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


def classes_of_parts(given: Any, known: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return all labels of a learning by parts: those ``given`` on the first call, which are ``known`` afterwards.

    Raises:
        ValueError: there are none, or others than before.
    """
    if given is None:
        if known is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        return known
    wanted = classes_of(np.asarray(given))
    if known is not None and not np.array_equal(wanted, known):
        raise ValueError(f"classes={given!r} is not the same as before, which was {known.tolist()}")
    return wanted if known is None else known


def readable(estimator: BaseEstimator, X: Any) -> Cases:
    """Return cases to classify; a table must be as long as that learned from, if that was one.

    Raises:
        ValueError: they cannot be used.
    """
    if hasattr(estimator, "n_features_in_") and _is_table(X):
        X = validate_data(estimator, X, ensure_all_finite=False, reset=False)
    return _cases(X)


def _refuse_disorder(y: npt.NDArray[Any]) -> None:
    """Refuse objects that are no labels, or that have no order among them."""
    labels = y.tolist()
    if missing := next((str(label) for label in labels if label is None or label != label), None):
        raise ValueError(f"Input y contains {'NaN' if missing == 'nan' else missing}: label the case, or leave it out")
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in labels})
    if "str" in kinds and len(kinds) > 1:
        raise ValueError(f"y holds labels of types {', '.join(kinds)}; make all of them texts, or all numbers")


def _is_table(X: Any) -> bool:
    """Whether scikit-learn should look at X: a real 2-D array or frame, or a list of equally long lists of numbers.

    A list of arrays is none, equally long or not: it must not hang on chance whether another length is refused.
    """
    if isinstance(X, list | tuple) and len(X):
        if not all(isinstance(row, list | tuple) for row in X):
            return not any(_is_array(row) for row in X)
        firsts = [row[0] for row in X if row]
        if len({len(row) for row in X}) > 1 or any(isinstance(one, list | tuple) or _is_array(one) for one in firsts):
            return False
    elif hasattr(X, "ndim") and (X.ndim == 3 or (X.ndim == 1 and X.dtype == object)):
        return False
    return not np.iscomplexobj(np.asarray(X))


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and np.asarray(value).ndim > 0


def _cases(X: Any) -> Cases:
    if isinstance(X, np.ndarray) and X.ndim == 3 and X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)  # as scikit-learn does to a table
        except (TypeError, ValueError) as error:
            raise TypeError(f"X holds objects that are no numbers: {error}") from None
    try:
        return as_cases(X)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor that needs a gradient says so by the last
        if isinstance(error, ShapeError):
            raise
        raise ShapeError(f"X cannot be taken as sequences of numbers: {error}") from None
