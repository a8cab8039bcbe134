"""A pattern freezes what it names, shared weights under any of their names, and nothing by mistake."""

from __future__ import annotations

import pytest

from regard.errors import RecipeError
from regard.training.freeze import freeze


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ([], []),
        (["mix"], ["mix.weight", "mix.bias"]),
        (["*.bias"], ["mix.bias", "norm.bias", "output.bias"]),
        (["source.weight", "norm.w*"], ["source.weight", "norm.weight"]),
        (["output.weight"], ["target.weight"]),  # one tensor, named first as the embedding
    ],
)
def test_what_a_pattern_freezes(make_objective, patterns, frozen):
    model = make_objective().model
    assert freeze(model, patterns) == frozen
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == frozen


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("mix.wieght", "named 'mix.wieght'; did you mean 'mix.weight'?"),
        ("zzz", "named 'zzz'; valid: mix, norm, output, source, target"),
        ("*", "nothing is left to train"),
    ],
)
def test_what_names_nothing(make_objective, pattern, told):
    with pytest.raises(RecipeError) as caught:
        freeze(make_objective().model, ["mix.bias", pattern])
    assert told in str(caught.value)
