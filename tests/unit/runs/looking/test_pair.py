"""What is aligned: words, which are the same to `regard inspect` and `regard translate`, whatever the tokens are."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from regard.data import train_exact
from regard.generation import SearchOptions
from regard.inspection import from_pharaoh, to_pharaoh
from regard.models import TransformerSpec, build
from regard.runs.looking.heads import aligning_look, alignment
from regard.runs.looking.look import attentions_of_pair, look_at_text
from regard.translation import Attended
from regard.translator import Translator


def translator(kind: Literal["char", "word"]) -> Translator:
    """Return a model that has learned nothing and writes several words."""
    torch.manual_seed(3)
    side = train_exact(kind, ["ab cd e", "e cd", "ab"])
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 11, "encoder_layers": 1, "decoder_layers": 2, "max_len": 53}
    model = build(TransformerSpec(len(side), len(side), **sizes))
    model.output.weight.data *= 7  # far from ties
    return Translator(model, side, side, SearchOptions(beam=3, max_length=17, min_length=13, no_repeat=2))


@pytest.mark.parametrize("kind", ["char", "word"])
@pytest.mark.parametrize("text", ["e  ab xyz cd", "cd ab e"])
def test_words_are_counted_as_translate_counts_them(kind: Literal["char", "word"], text: str) -> None:
    model = translator(kind)
    ((best, *_),) = model.translate([text], attended=Attended(align=True))
    assert best.alignment is not None and len(best.alignment) == len(best.text.split()) > 2
    assert alignment(aligning_look(look_at_text(model, text).attentions)) == to_pharaoh(best.alignment)
    found = from_pharaoh(alignment(aligning_look(attentions_of_pair(model, text, "ab qq cd"))))
    assert sorted(target for _, target in found) == [0, 1, 2]  # an unknown word is a word, where somebody wrote it
    assert {source for source, _ in found} <= set(range(len(text.split())))
