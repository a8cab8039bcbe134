"""What does a caller change about the search of a model? A few words, put over the options of its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from regard.errors import InputError
from regard.generation import SamplingOptions, SearchOptions

_DRAWS = {option.name for option in fields(SamplingOptions)}
_SEARCHES = {option.name for option in fields(SearchOptions)} - {"sampling"}


@dataclass(frozen=True)
class SearchOverrides:
    """Options of a search by their names, those of sampling among them; what is not named stays as the model has it.

    A beam that is named is a plain beam search: no groups, nothing drawn, unless they are named too. An option of
    sampling means sampling.

    Attributes:
        values: name -> value.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.values:
            if name not in _DRAWS | _SEARCHES:
                raise InputError(f"a search has no option {name!r}")

    def over(self, search: SearchOptions) -> SearchOptions:
        """Return ``search`` with these options in place of its own.

        Raises:
            RecipeError: a value cannot be.
        """
        draws = {name: value for name, value in self.values.items() if name in _DRAWS}
        changes = {name: value for name, value in self.values.items() if name in _SEARCHES}
        if draws:
            before = None if "beam" in changes else search.sampling
            changes["sampling"] = replace(before or SamplingOptions(), **draws)
        if "beam" in changes:
            changes = {"groups": 1, "sampling": None, **changes}
        elif "nbest" in changes or "groups" in changes:
            wide = max(search.beam, changes.get("nbest", 1))
            groups = changes.get("groups", search.groups)
            changes["beam"] = -(-wide // groups) * groups if isinstance(groups, int) and groups > 0 else wide
        return replace(search, **changes)
