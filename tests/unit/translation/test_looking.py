"""A decoder that tells where it looks computes what it did before, and its looks are probabilities."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.generation import SearchOptions, beam_search
from regard.models import build
from regard.protocols import BOS, EOS
from regard.translation import Looking
from unit.runs.toys import small_model

SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, 0, 0]])
LENGTHS = torch.tensor([4, 2])


def test_steps_are_the_same_bit_for_bit_and_tell_their_look() -> None:
    model = small_model().eval()
    looking = Looking(model)
    swap = torch.tensor([1, 0])
    with torch.inference_mode():
        plain, told = model.start(SOURCE, LENGTHS), looking.start(SOURCE, LENGTHS)
        for tokens, short in ((torch.tensor([BOS, BOS]), 1), (torch.tensor([5, 9]), 0)):
            ours, theirs = looking.step(tokens, told), model.step(tokens, plain)
            assert torch.equal(ours.logits, theirs.logits)
            assert ours.attention is not None and ours.attention.shape == (2, 4)
            assert torch.allclose(ours.attention.sum(dim=1), torch.ones(2), atol=1e-6)
            assert ours.attention[short, 2:].abs().max() == 0.0  # padding
            told, plain = looking.reorder(ours.state, swap), model.reorder(theirs.state, swap)
    last = model.decoder.layers[-1]
    assert not last.cross_attention._listeners  # type: ignore[union-attr]


def test_the_layer_that_is_looked_at_is_the_one_that_aligns() -> None:
    model = build(replace(small_model().spec, decoder_layers=3)).eval()
    heard: list[torch.Tensor] = []
    stop = model.decoder.layers[1].cross_attention.listen(heard.append)  # the last but one
    with torch.inference_mode():
        step = Looking(model).step(torch.tensor([BOS, BOS]), model.start(SOURCE, LENGTHS))
    stop()
    assert step.attention is not None and torch.equal(step.attention, heard[0][:, :, -1].mean(dim=1))


def test_a_beam_is_told_about_each_of_its_rows() -> None:
    model = small_model().eval()
    options = SearchOptions(beam=3, nbest=3, max_length=5)
    ours = beam_search(Looking(model), SOURCE, LENGTHS, options)
    assert ours == beam_search(model, SOURCE, LENGTHS, options)
    covered = beam_search(Looking(model), SOURCE, LENGTHS, SearchOptions(beam=3, max_length=5, coverage_penalty=0.3))
    assert all(hypotheses[0].score < 0 for hypotheses in covered)
