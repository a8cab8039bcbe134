"""The model folder: what is stored comes back, what does not belong together is refused before memory is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.bundle import load_bundle, save_bundle
from regard.data import train_exact
from regard.errors import DamagedError, FolderError
from regard.models import Transformer, TransformerSpec, build
from regard.storage import reseal
from unit.runs.toys import small_model, tokenizer, write_bundle


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "m")
    bundle = load_bundle(folder)
    model = small_model().eval()
    source, target = torch.tensor([[5, 7, 3]]), torch.tensor([[2, 5]])
    assert torch.equal(bundle.model(source, target), model(source, target))
    assert not bundle.model.training
    assert bundle.source_tokenizer is bundle.target_tokenizer
    assert bundle.source_tokenizer.encode("7 a") == tokenizer().encode("7 a")
    assert bundle.recipe["generation"] == {"beam": 2, "max_length": 7}
    assert (folder / "README.md").read_text() == "# A toy\n"


def test_equal_models_make_equal_folders(tmp_path: Path) -> None:
    one, two = write_bundle(tmp_path / "one"), write_bundle(tmp_path / "two")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_ties_hold_after_loading(tmp_path: Path, tied: str) -> None:
    model = build(replace(small_model().spec, tie=tied))
    same = tokenizer()
    save_bundle(tmp_path / "m", model=model, source_tokenizer=same, target_tokenizer=same, recipe={}, card="")
    loaded = load_bundle(tmp_path / "m").model
    count = sum(parameter.numel() for parameter in loaded.parameters())
    assert count == sum(parameter.numel() for parameter in model.parameters())
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_each_side_keeps_its_own_tokenizer(tmp_path: Path) -> None:
    source, target = train_exact("char", ["abc"]), train_exact("word", ["one two"])
    spec = replace(small_model().spec, source_vocab=len(source), target_vocab=len(target))
    save_bundle(tmp_path / "m", model=build(spec), source_tokenizer=source, target_tokenizer=target, recipe={}, card="")
    bundle = load_bundle(tmp_path / "m")
    assert (bundle.source_tokenizer.kind, bundle.target_tokenizer.kind) == ("char", "word")


def test_loading_draws_nothing_from_the_callers_generator(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "m")
    before = torch.get_rng_state()
    load_bundle(folder)
    assert torch.equal(torch.get_rng_state(), before)


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edited(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))
        reseal(folder)

    return edited


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    reseal(folder)


def spoil_vocabulary(folder: Path) -> None:
    (folder / "joint.vocabulary.json").write_text("{")
    reseal(folder)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (spoil_vocabulary, r"/m: the source tokenizer cannot be used: .*not a JSON object"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "model.safetensors is damaged"),
        (lambda folder: (folder / "config.json").unlink(), "holds no config.json"),
        (lambda folder: (folder / "joint.vocabulary.json").unlink(), "joint.vocabulary.json is missing"),
        (cut_weights, "not a safetensors file"),
        (edit(lambda config: config.update(format_version=99)), "format_version 99, and this Regard reads 1"),
        (edit(lambda config: config.pop("spec")), "does not describe a model"),
        (edit(lambda config: config.update(spec=[])), "config.json cannot be used"),
        (edit(lambda config: config["spec"].update(d_model=1 << 20, d_ff=1 << 20)), "needs [0-9,]+ bytes, and"),
        (edit(lambda config: config["spec"].update(d_model=10**12)), "model.d_model must be between"),
        (edit(lambda config: config["spec"].update(encoder_layers=2)), "the weights do not fit the model: missing"),
        (edit(lambda config: config["spec"].update(source_vocab=13)), "vocabulary has 18 entries but the model 13"),
        (edit(lambda config: config["tokenizers"]["source"].update(kind="word")), "of kind 'word'"),
        (edit(lambda config: config["tokenizers"].pop("target")), "does not describe a model"),
        (edit(lambda config: config["tokenizers"]["source"].update(files="../x")), "is missing"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    folder = write_bundle(tmp_path / "m")
    damage(folder)
    with pytest.raises(FolderError, match=sentence):
        load_bundle(folder)


def test_no_model_there(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="there is no model folder"):
        load_bundle(tmp_path / "nowhere")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(FolderError, match=f"regard average {tmp_path}"):
        load_bundle(tmp_path)


def test_a_spec_of_a_terabyte_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_bundle(tmp_path / "m")
    edit(lambda config: config["spec"].update(d_model=1 << 20, num_heads=1 << 10))(folder)
    built: list[torch.device] = []

    def watch(spec: TransformerSpec) -> Transformer:
        model = build(spec)
        built.append(next(model.parameters()).device)
        return model

    monkeypatch.setattr("regard.bundle.build", watch)
    with pytest.raises(DamagedError, match="needs"):
        load_bundle(folder)
    assert built == [torch.device("meta")]
