"""What does a model do with one example? It is run once, with ears on every part of it, and nothing of it changes.

Axes: B batch, H heads, S source, T target, L queries or keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import InputError
from regard.inspection import AttentionMaps, Choice, Kind, Walk, choices, trace
from regard.inspection.attention import SIDES
from regard.inspection.listeners import attach
from regard.inspection.report import Example
from regard.modes import evaluation_mode
from regard.protocols import EOS
from regard.runs.looking.pair import Spans, TextPair
from regard.runs.looking.search_steps import Searched, search_with_steps
from regard.translation import Looking
from regard.translator import Translator
from regard.verification.inputs import Tokens, draw_for
from regard.verification.recognise import recognise

SHOWN = 7
"""Positions on each side of an example that is made up for a module without words."""

_ADDRESSES: Mapping[Kind, str] = {
    "encoder": "encoder.layer:{}.self",
    "decoder": "decoder.layer:{}.self",
    "cross": "decoder.layer:{}.cross",
}


@dataclass(frozen=True)
class Attention:
    """The weights of one attention, with its name and tokens.

    Attributes:
        address: ``decoder.layer:3.cross``: layers are counted from 1.
        path: Where it is in the model.
        weights: [H, Lq, Lk].
        rows: The Lq tokens that look.
        columns: The Lk tokens that are looked at.
        row_words: Which rows are each word; of a module without text every row is one.
        column_words: Which columns are each word.
    """

    address: str
    path: str
    weights: Float[Tensor, "H Lq Lk"]
    rows: Sequence[str]
    columns: Sequence[str]
    row_words: Spans
    column_words: Spans


@dataclass(frozen=True)
class Look:
    """What was seen.

    Attributes:
        title: What the model was given.
        output: What it made of it.
        source: Source tokens, end mark included.
        target: Target tokens, end mark included.
        read: What the decoder had read at each of them.
        walk: What happened to the tensors.
        maps: Attention weights by kind, [N, H, Lq, Lk], of those kinds whose layers are alike.
        attentions: Every attention on its own.
        choices: How logits became tokens.
        searched: The search, if there was one: its result and its steps.
        loss: What the gradients are of, if there are any.
    """

    title: str
    output: str
    source: Sequence[str]
    target: Sequence[str]
    read: Sequence[str]
    walk: Walk
    maps: Mapping[Kind, Tensor]
    attentions: Sequence[Attention]
    choices: Sequence[Choice] = ()
    searched: Searched | None = None
    loss: str = ""

    def example(self) -> Example | None:
        """Return what the attention section of a report draws, or None when no attention was heard."""
        if not self.maps:
            return None
        return Example(self.source, self.target, self.maps, self.read, title=self.title, output=self.output)


def look_at_text(
    translator: Translator,
    text: str,
    *,
    translation: str | None = None,
    beam: int | None = None,
    tag: str = "",
    backward: bool = False,
) -> Look:
    """Return what a model does with a sentence.

    Args:
        translator: The model and its tokenizers.
        text: One sentence.
        translation: What the decoder reads; left out, what a search finds.
        beam: Of the search; left out, the model's own.
        tag: Put before the text, for models trained with tags.
        backward: Walk the gradients of the translation's loss as well.

    Raises:
        InputError: The sentence has no token or more than the model can read.
    """
    model, names = translator.model, translator.target_tokenizer.pieces
    pair = TextPair.of(translator, text, tag)
    searched = None
    with evaluation_mode(model):
        if translation is None:
            search = translator.search if beam is None else replace(translator.search, beam=beam)
            search = replace(search, max_length=min(search.max_length, model.spec.max_len - 1))
            decoder = Looking(model) if search.coverage_penalty else model
            searched = search_with_steps(decoder, pair.source, search, names)
            found = searched.found
            pair.reads([*found.ids, EOS] if found.finished else found.ids)
        else:
            pair.reads_text(translation)
        wanted = torch.tensor(pair.target_ids, device=pair.source.device)
        maps = AttentionMaps(type(model).__name__)
        loss = (lambda logits: F.cross_entropy(logits[0].float(), wanted)) if backward else None
        with attach(model, maps.hear):
            walk = trace(model, pair.source, pair.target, loss=loss)
    tokens = pair.tokens()
    return Look(
        title=text,
        output=translator.target_tokenizer.decode(pair.target_ids),
        source=tokens["source"],
        target=tokens["target"],
        read=tokens["read"],
        walk=walk,
        maps=_by_kind(maps, tokens),
        attentions=_attentions(maps, tokens, pair.words()),
        choices=choices(walk.output[0], tokens["read"], pair.target_ids, names),
        searched=searched,
        loss="mean cross-entropy of the target tokens" if backward else "",
    )


def attentions_of_pair(translator: Translator, text: str, translation: str) -> Sequence[Attention]:
    """Return where a model looks that reads a sentence and its translation, and nothing else of it.

    Raises:
        InputError: One of the two has no token or more than the model can read.
    """
    pair = TextPair.of(translator, text)
    pair.reads_text(translation)
    maps = AttentionMaps(type(translator.model).__name__)
    with torch.inference_mode(), evaluation_mode(translator.model), attach(translator.model, maps.hear):
        translator.model(pair.source, pair.target)
    return _attentions(maps, pair.tokens(), pair.words())


def look_at_module(module: nn.Module, *, backward: bool = False, seed: int = 0) -> Look:
    """Return what any module does with an example that is drawn for it, as `regard verify` draws its own.

    Args:
        module: A Transformer of any kind.
        backward: Walk the gradients of the mean square of its output as well.
        seed: Of the example.

    Raises:
        InputError: It is not known how to call the module, or it does not run.
    """
    adapter = recognise(module)
    written = SHOWN - 2 if adapter.source is not None else SHOWN
    x = draw_for(module, adapter.source, adapter.target, sizes=(1, SHOWN, written), seed=seed)
    tokens = {name: _shown(x.side(name)[0]) for name in adapter.sides}
    letters = {"source": "S", "target": "T"}
    sizes = {"B": 1} | {letters[name]: len(side) for name, side in tokens.items()}
    tokens.setdefault("source", tokens.get("target", []))
    tokens["read"] = tokens.setdefault("target", tokens["source"])
    maps = AttentionMaps(type(module).__name__)

    def call() -> Tensor:
        with torch.enable_grad():  # without it torch.nn packs rows into nested tensors, which have no shape to show
            return adapter.forward(module, x)

    with evaluation_mode(module), attach(module, maps.hear):
        try:
            walk = trace(
                module,
                call=call,
                loss=(lambda output: output.float().square().mean()) if backward else None,
                sizes=sizes,
            )
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            reason = str(error).split("\n", 1)[0]
            raise InputError(f"the module does not run: {type(error).__name__}: {reason}") from error
    return Look(
        title=f"{type(module).__name__} ({adapter.described})",
        output="",
        source=tokens["source"],
        target=tokens["target"],
        read=tokens["read"],
        walk=walk,
        maps=_by_kind(maps, tokens),
        attentions=_attentions(maps, tokens, {}),
        choices=_next_tokens(walk.output, x.target_out, adapter.target, tokens["read"]),
        loss="mean square of the output" if backward else "",
    )


def _shown(x: Tensor) -> list[str]:
    """Return a name for each position of a row: its id, or its number where it is a vector."""
    return [str(value) for value in x.tolist()] if x.ndim == 1 else [f"x{i + 1}" for i in range(len(x))]


def _next_tokens(output: Tensor, wanted: Tensor | None, side: object, read: Sequence[str]) -> list[Choice]:
    if wanted is None or not isinstance(side, Tokens) or output.ndim != 3 or output.size(1) != len(read):
        return []
    best = output[0].argmax(dim=-1).tolist()
    return choices(output[0], read, best, lambda ids: [str(i) for i in ids])


def _by_kind(maps: AttentionMaps, tokens: Mapping[str, Sequence[str]]) -> dict[Kind, Tensor]:
    """Return what a report can draw: the kinds whose layers are alike and fit the tokens."""
    found: dict[Kind, Tensor] = {}
    for kind, (rows, columns) in SIDES.items():
        layers = [maps.stacked(name)[0] for name in maps.names(kind)]
        shape = (len(tokens[rows]), len(tokens[columns]))
        if layers and all(layer.shape == layers[0].shape and layer.shape[-2:] == shape for layer in layers):
            found[kind] = torch.stack(layers)
    return found


def _attentions(
    maps: AttentionMaps, tokens: Mapping[str, Sequence[str]], words: Mapping[str, Spans]
) -> list[Attention]:
    found = []
    for kind, (rows, columns) in SIDES.items():
        for number, path in enumerate(maps.names(kind), 1):
            weights = maps.stacked(path)[0]
            (row_names, row_words), (column_names, column_words) = (
                _named(tokens[side], words.get(side), size)
                for side, size in zip((rows, columns), weights.shape[-2:], strict=True)
            )
            address = _ADDRESSES.get(kind, "layer:{}.self").format(number)
            found.append(Attention(address, path, weights, row_names, column_names, row_words, column_words))
    return found


def _named(tokens: Sequence[str], words: Spans | None, size: int) -> tuple[Sequence[str], Spans]:
    """Return a name for each of ``size`` places, and which of them are each word: every one, if nobody knows better."""
    alone = [[place] for place in range(size)]
    if len(tokens) != size:
        return [str(place + 1) for place in range(size)], alone
    return tokens, alone if words is None else words
