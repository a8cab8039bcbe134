"""What is a model folder? Weights, what they mean, and the words they speak; sealed, and free of code.

::

    model/
      config.json              format_version, spec, tokenizers, recipe
      model.safetensors        the weights, tied tables once
      source.vocabulary.json   the tokenizer of the source, perhaps with a source.*.model beside it
      target.vocabulary.json   that of the target; a joint one is stored once, as joint.*
      README.md                the model card, free to be changed
      manifest.json            SHA-256 of all but the card
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.data import TextTokenizer, load_tokenizer
from regard.device import best_device
from regard.errors import DamagedError, DataError, FolderError, RecipeError
from regard.folders import CONFIG, model_folder
from regard.models import Transformer, TransformerSpec, build, spec_from_dict, spec_to_dict
from regard.protocols import Tokenizer
from regard.storage import MANIFEST, Sealed, open_sealed, seal
from regard.training import load_tensors, tensor_bytes

FORMAT_VERSION = 1
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_WEIGHTS, _CARD = "model.safetensors", "README.md"


@dataclass(frozen=True)
class Bundle:
    """A model with all that it needs to be used.

    Attributes:
        model: in evaluation mode.
        source_tokenizer: text to source ids.
        target_tokenizer: target ids to text; the same object when the vocabulary is joint.
        recipe: the tables of the recipe that made it.
    """

    model: Transformer
    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer
    recipe: Mapping[str, Any]


def save_bundle(
    folder: str | Path,
    *,
    model: Transformer,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    recipe: Mapping[str, Any],
    card: str,
) -> None:
    """Write a model folder; one already there is replaced, and can be opened until the new one is complete.

    Args:
        folder: where.
        model: its weights and its spec are stored.
        source_tokenizer: stored with it.
        target_tokenizer: stored with it, once if it is the same object.
        recipe: tables of JSON values, kept for the record.
        card: Markdown for people.

    Raises:
        RegardError: the system refused.
    """
    config = {
        "format_version": FORMAT_VERSION,
        "spec": spec_to_dict(model.spec),
        "tokenizers": tokenizers_config(source_tokenizer, target_tokenizer),
        "recipe": recipe,
    }
    files = {
        CONFIG: json.dumps(config, indent=1, ensure_ascii=False).encode() + b"\n",
        _WEIGHTS: tensor_bytes(model),
        **tokenizers_files(source_tokenizer, target_tokenizer),
    }
    seal(folder, files, loose={_CARD: card.encode()})


def load_bundle(folder: str | Path, device: str | torch.device = "cpu") -> Bundle:
    """Open a model folder, or a run folder with a finished model in it.

    Args:
        folder: of the model or of the run.
        device: where the weights go; a name is read as everywhere, with ``auto`` for what there is.

    Raises:
        RecipeError: there is no such device here.
        FolderError: there is no model.
        DamagedError: a file is not what was sealed, or files do not belong together; the message names it.
    """
    device = best_device(device) if isinstance(device, str) else device
    folder = model_folder(folder)
    sealed = open_sealed(folder)
    about = _description(sealed)
    model = with_weights(lambda: build(about.spec), sealed.read(_WEIGHTS), folder)
    return Bundle(model.to(device).eval(), about.source_tokenizer, about.target_tokenizer, about.recipe)


@dataclass(frozen=True)
class Description:
    """A model folder without its weights.

    Attributes:
        spec: of the model.
        source_tokenizer: text to source ids.
        target_tokenizer: target ids to text; the same object when the vocabulary is joint.
        recipe: the tables of the recipe that made it.
    """

    spec: TransformerSpec
    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer
    recipe: Mapping[str, Any]


def describe_bundle(folder: str | Path) -> Description:
    """Open a model folder, or a run folder with a finished model in it, without its weights.

    Raises:
        FolderError: there is no model.
        DamagedError: a file is not what was sealed, or files do not belong together; the message names it.
    """
    return _description(open_sealed(model_folder(folder)))


def _description(sealed: Sealed) -> Description:
    path = sealed.folder / CONFIG
    try:
        config = json.loads(sealed.read(CONFIG))
        check_version(config, path)
        if "classes" in config:
            raise FolderError(
                f"{sealed.folder} holds a classifier of signals: `regard classify` uses it, and load_classifier"
            )
        spec = spec_from_dict(config["spec"])
        source, target = read_tokenizers(sealed, config["tokenizers"])
        recipe = dict(config["recipe"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = str(error) if isinstance(error, RecipeError) else "it does not describe a model"
        raise DamagedError(f"{path} cannot be used: {what}") from None
    for side, tokenizer, size in (("source", source, spec.source_vocab), ("target", target, spec.target_vocab)):
        if len(tokenizer) != size:
            raise DamagedError(
                f"{sealed.folder}: the {side} vocabulary has {len(tokenizer):,} entries but the model {size:,}; "
                "they are not of one training"
            )
    return Description(spec, source, target, recipe)


def tokenizers_config(source: Tokenizer, target: Tokenizer) -> dict[str, dict[str, str]]:
    """Return which tokenizer is which: side -> its kind and the prefix of its files."""
    prefixes = ("joint", "joint") if source is target else ("source", "target")
    return {
        side: {"kind": tokenizer.kind, "files": prefix}
        for side, tokenizer, prefix in zip(("source", "target"), (source, target), prefixes, strict=True)
    }


def tokenizers_files(source: Tokenizer, target: Tokenizer) -> dict[str, bytes]:
    """Return the files of both tokenizers, their names prefixed by their side."""
    sides = {"joint": source} if source is target else {"source": source, "target": target}
    return {f"{side}.{name}": data for side, kept in sides.items() for name, data in kept.to_files().items()}


def read_tokenizers(sealed: Sealed, config: Mapping[str, Mapping[str, str]]) -> tuple[TextTokenizer, TextTokenizer]:
    """Return the source and the target tokenizer that `tokenizers_config` describes.

    Raises:
        DamagedError: a file is damaged, or not what ``config`` says.
    """
    made = {}
    for side in ("source", "target"):
        prefix = f"{config[side]['files']}."
        if prefix not in made:
            files = {name.removeprefix(prefix): sealed.read(name) for name in sealed.names if name.startswith(prefix)}
            try:
                made[prefix] = load_tokenizer(config[side], files)
            except (DamagedError, DataError) as error:
                raise DamagedError(f"{sealed.folder}: the {side} tokenizer cannot be used: {error}") from None
    return made[f"{config['source']['files']}."], made[f"{config['target']['files']}."]


def refuse_to_replace(folder: str | Path) -> None:
    """Refuse to write a model where anything but an older model, and its card, would be lost.

    Raises:
        FolderError: saying so.
        DamagedError: there is a manifest that cannot be read, and so nobody knows what would be.
    """
    folder = Path(folder)
    if not folder.exists():
        return
    if folder.is_dir():
        there = {entry.name for entry in folder.iterdir()}
        sealed = set(open_sealed(folder).names) if MANIFEST in there else set()
        if not there or ({CONFIG, _WEIGHTS} <= sealed and there <= sealed | {MANIFEST, _CARD}):
            return
    raise FolderError(f"{folder} holds other things than a model; choose a new or empty folder")


def check_version(config: Mapping[str, Any], path: Path) -> None:
    """Refuse a ``config.json`` of a format that this version does not read."""
    version = config["format_version"]
    if version != FORMAT_VERSION:
        raise FolderError(f"{path} has format_version {version!r}, and this Regard reads {FORMAT_VERSION}")


def with_weights(make: Callable[[], ModuleT], weights: bytes, folder: Path) -> ModuleT:
    """Return the module that ``make`` gives, with stored weights.

    Args:
        make: builds it; first weights are not drawn, since all are overwritten, and nobody's random draws move.
        weights: a file of safetensors.
        folder: where they come from, for messages.

    Raises:
        DamagedError: they are not those of such a module.
    """
    with _Undrawn(), torch.device("meta"):  # no memory: a spec that asks for more than the file holds ends here
        wanted = sum(parameter.nbytes for parameter in make().parameters())
    if wanted > 2 * len(weights):  # weights stored in half precision are half as large
        raise DamagedError(
            f"{folder}: the model of {CONFIG} needs {wanted:,} bytes, and {_WEIGHTS} has {len(weights):,}"
        )
    with _Undrawn():
        model = make()
    try:
        load_tensors(model, weights)
    except FolderError as error:
        raise DamagedError(f"{folder / _WEIGHTS}: {error}") from None
    return model


class _Undrawn(TorchFunctionMode):
    """Within the block tensors keep what they hold where numbers would be drawn at random for them."""

    _DRAWS = frozenset(
        {torch.Tensor.normal_, torch.Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_}
    )

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in self._DRAWS:
            return func(*args, **kwargs)
        return args[0] if args else kwargs["tensor"]
