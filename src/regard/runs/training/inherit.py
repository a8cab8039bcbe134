"""What does a run take over from the model folder that it starts from: its shape, its vocabulary, its weights.

The model must be the same but for dropout and ``max_len``. With ``init_vocabulary = "keep"`` so is the vocabulary; with
``"map"`` the run makes its own, and each piece that the older one has too brings its weights along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

import torch
from torch import Tensor

from regard.bundle import Description, describe_bundle, load_bundle
from regard.data import TextTokenizer
from regard.data.tokenizers.options import Kind
from regard.errors import RecipeError
from regard.models import Transformer, TransformerSpec, spec_to_dict
from regard.protocols import SPECIALS
from regard.runs.recipes.recipe import ModelChoice, Recipe, to_tables
from regard.runs.recipes.tables import Tables
from regard.runs.training.folder import RunFolder
from regard.training import load_tensors

_FREE = {"preset", "dropout", "max_len"}
_SIZES = ("d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers")
_OF_SOURCE = ("source_embedding.vectors.table.weight",)
_OF_TARGET = ("target_embedding.vectors.table.weight", "output.weight", "output.bias")


def inherit_tables(tables: Tables, given: Recipe, folder: RunFolder) -> Tables:
    """Return the tables of a recipe with what it takes over from the model folder that ``training.init`` names.

    Args:
        tables: the keys that somebody gave.
        given: the same as a recipe.
        folder: of the run; one that has begun has taken all over, and asks no other model folder.

    Raises:
        FolderError: there is no such folder.
        RecipeError: the recipe asks for something else than it would take over.
    """
    init = given.training.init
    if init is None:
        return tables
    if folder.started:
        begun = to_tables(folder.read_recipe())
        return {**tables, **{name: begun[name] | tables.get(name, {}) for name in ("model", "tokenizer")}}
    about = describe_bundle(init)
    model, tokenizer = dict(tables.get("model", {})), dict(tables.get("tokenizer", {}))
    _refuse_another_model(init, about.spec, given.model)
    taken = {key: value for key, value in spec_to_dict(about.spec).items() if not key.endswith("_vocab")}
    preset = about.recipe.get("model", {}).get("preset", "base")
    if given.training.init_vocabulary == "keep":
        kept = dict(about.recipe.get("tokenizer", {})) or _tokenizer_table(about)
        for key, value in tokenizer.items():
            if kept.get(key) != value:
                raise RecipeError(
                    f"tokenizer.{key} = {value!r} asks for another vocabulary than that of {init}; leave it out, or "
                    'set training.init_vocabulary = "map"'
                )
        tokenizer = kept
    elif about.spec.tie == "all":
        tokenizer.setdefault("joint", True)
    return {**tables, "model": {"preset": preset, **taken, **model}, "tokenizer": tokenizer}


def inherit_weights(model: Transformer, source: TextTokenizer, target: TextTokenizer, init: str) -> str:
    """Copy the weights of a model folder into ``model``, rows of the vocabulary by their pieces; say what was found."""
    bundle = load_bundle(init)
    tensors = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    said = []
    sides = [
        ("source", _OF_SOURCE, source, bundle.source_tokenizer),
        ("target", _OF_TARGET, target, bundle.target_tokenizer),
    ]
    fresh = model.state_dict()
    for side, names, new, old in sides:
        if new.to_files() == old.to_files():
            continue
        rows = _rows_of_same_piece(new, old)
        for name in names:
            if name in tensors:
                tensors[name] = _moved(tensors[name], fresh[name], rows)
        found = sum(row >= len(SPECIALS) for row, _ in rows)
        said.append(
            f"{found:,} of {len(new) - len(SPECIALS):,} {side} pieces found in its vocabulary, the others are new"
        )
    load_tensors(model, tensors)
    if not said:
        return f"starting from the weights and the vocabulary of {init}"
    return f"starting from the weights of {init}: {'; '.join(said[:1] if source is target else said)}"


def _refuse_another_model(init: str, spec: TransformerSpec, given: ModelChoice) -> None:
    vocabularies = spec.source_vocab, spec.target_vocab
    wanted = asdict(given.spec(*vocabularies))
    keys = {*given.changes.keys()} - _FREE | (set(_SIZES) if given.preset else set())
    have = asdict(spec)
    if odd := sorted(key for key in keys if wanted[key] != have[key]):
        told = "; ".join(f"{key} = {have[key]!r} there and {wanted[key]!r} here" for key in odd)
        raise RecipeError(f"{init} is another model than [model] asks for: {told}. Leave these keys out")


def _tokenizer_table(about: Description) -> dict[str, Any]:
    """Describe the tokenizers of a model folder that no recipe made."""
    kinds = [
        kind if kind in get_args(Kind) else "sentencepiece"
        for kind in (about.source_tokenizer.kind, about.target_tokenizer.kind)
    ]
    joint = about.source_tokenizer is about.target_tokenizer
    return {"kind": kinds[0], "joint": joint, **({} if joint or kinds[0] == kinds[1] else {"target_kind": kinds[1]})}


def _rows_of_same_piece(new: TextTokenizer, old: TextTokenizer) -> list[tuple[int, int]]:
    """Return (id in ``new``, id in ``old``) for each piece, tag and special that both have."""
    there = {name: i for i, name in reversed(list(enumerate(_names(old))))}
    return [(i, there[name]) for i, name in enumerate(_names(new)) if name in there]


def _names(tokenizer: TextTokenizer) -> Sequence[tuple[str, str]]:
    """Return (what it is, how it is written) for each id: text may be written like a special or a tag."""
    size, tags = len(tokenizer), len(tokenizer.tags)
    kinds = ["special"] * len(SPECIALS) + ["text"] * (size - len(SPECIALS) - tags) + ["tag"] * tags
    return list(zip(kinds, tokenizer.pieces(range(size)), strict=True))


def _moved(old: Tensor, fresh: Tensor, rows: Sequence[tuple[int, int]]) -> Tensor:
    to, origin = torch.tensor(rows).T
    moved = fresh.clone().cpu()
    moved[to] = old[origin].to(moved.dtype)
    return moved
