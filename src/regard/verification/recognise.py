"""How is this module called? Common kinds are recognised by what they offer; any other needs an `Adapter`.

::

    torch.nn.Transformer, TransformerEncoder     vectors in, masks by keyword (in `torch_nn`)
    has .config and forward(input_ids, ...)      Hugging Face (in `huggingface`)
    forward(source, target, ...)                 an encoder-decoder; with start, step and reorder it decodes too
    forward(x, ...)                              a decoder if it scores the vocabulary at each position, else an encoder
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.verification import huggingface, torch_nn
from regard.verification.adapter import Adapter, Decoding
from regard.verification.inputs import Frames, Inputs, Side, Tokens, draw_for
from regard.verification.keeping import random_kept, restored
from regard.verification.taps import Taps
from regard.verification.trace import traced

Kind = Literal["encoder-decoder", "decoder", "encoder"]

EXAMPLE = """\
Adapter(
    forward=lambda model, x: model(x.source, x.target_in, src_mask=x.real("source")),
    source=Tokens(size=8000, pad=0), target=Tokens(size=8000, pad=0, start=2), padding="lengths")"""

_CONVENTIONS: Mapping[str, Any] = {
    r"(source|src|input|enc|x)?_?(lengths?|lens?)": lambda x: x.lengths("source" if x.source is not None else "target"),
    r"(target|tgt|trg|dec)_?(lengths?|lens?)": lambda x: x.target_lengths,
    r"(source|src|memory)_key_padding_mask": lambda x: ~x.real("source"),
    r"(target|tgt|trg)_key_padding_mask": lambda x: ~x.real("target"),
    r"key_padding_mask": lambda x: ~x.real("source" if x.source is not None else "target"),
    r"attention_mask": lambda x: x.real("source" if x.source is not None else "target").long(),
    r"decoder_attention_mask": lambda x: x.real("target").long(),
}
"""Arguments known by their names; the masks are those of torch (True = padding) and of Hugging Face (1 = real)."""

_PAD_NAMES = (
    "{side}_pad_idx",
    "{side}_pad_id",
    "{side}_pad",
    "pad_idx",
    "pad_id",
    "pad_token_id",
    "padding_idx",
    "pad",
)


def recognise(
    module: nn.Module,
    example_inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor] | None = None,
    *,
    kind: Kind | None = None,
    pad: int | None = None,
) -> Adapter:
    """Return how to call ``module``.

    Args:
        module: Any module.
        example_inputs: What one may call it with; needed where that cannot be told from its tables and signature.
        kind: What it is, where that cannot be told.
        pad: The id that it takes for padding, likewise.

    Raises:
        InputError: it is not one of the kinds known; the message shows what to write.
    """
    if isinstance(module, nn.Transformer | nn.TransformerEncoder | nn.TransformerEncoderLayer):
        return torch_nn.adapt(module)
    if huggingface.recognised(module):
        return huggingface.adapt(module, kind)
    with restored(module), random_kept(module):
        module.eval()
        return _by_signature(module, example_inputs, kind, pad)


def _by_signature(module: nn.Module, example: Any, kind: Kind | None, pad: int | None) -> Adapter:
    name = type(module).__name__
    parameters = {
        key: p
        for key, p in huggingface.parameters_of(module).items()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    known = {key: rule for key in parameters if (rule := _convention(key)) is not None}
    required = [key for key, p in parameters.items() if p.default is p.empty and key not in known]
    given = _bind(example, list(parameters), name)
    read = list(dict.fromkeys([*required, *(key for key in given if key not in known)]))
    if not 1 <= len(read) <= 2:
        raise InputError(
            f"{name}.forward takes {', '.join(read) or 'nothing'}, for which there is no rule; "
            f"say how to call it: verify(model, adapter={EXAMPLE})"
        )
    if len(read) == 2:
        names = {"source": read[0], "target": read[1]}
    else:
        names = {"target" if kind == "decoder" else "source": read[0]}
    forward = _Forward(names, {key: rule for key, rule in known.items() if not _absent(key, names)})

    sides = _find_sides(module, forward, {side: given.get(key) for side, key in names.items()}, pad)
    if len(read) == 1 and kind is None and _is_decoder(module, forward, sides["source"]):
        forward = _Forward({"target": read[0]}, forward.further)
        sides = {"target": sides["source"]}
    if any(isinstance(s, Tokens) and s.pad < 0 for s in sides.values()) and _hides_zero(module, forward, sides):
        sides = {n: replace(s, pad=0) if isinstance(s, Tokens) and s.pad < 0 else s for n, s in sides.items()}
    padded = [side for side in sides.values() if isinstance(side, Tokens) and side.pad >= 0]
    padding: Literal["ids", "lengths", "none"] = "lengths" if forward.further else "ids" if padded else "none"
    sides = {n: replace(s, pad=max(s.pad, 0)) if isinstance(s, Tokens) else s for n, s in sides.items()}
    described = f"{name}.forward({', '.join(names.values())}{''.join(f', {key}' for key in forward.further)})"
    adapter = Adapter(forward, sides.get("source"), sides.get("target"), padding=padding, described=described)
    return _with_decoding(module, _declared(module, adapter))


class _Forward:
    """Calls a module with its sides in front and whatever it takes by known names."""

    def __init__(self, names: Mapping[str, str], further: Mapping[str, Any]) -> None:
        self.names = names
        self.further = further

    def __call__(self, module: nn.Module, inputs: Inputs) -> Tensor:
        further = {key: rule(inputs) for key, rule in self.further.items()}
        return huggingface.logits_of(module(*(inputs.side(side) for side in self.names), **further))


def _convention(key: str) -> Any:
    return next((rule for pattern, rule in _CONVENTIONS.items() if re.fullmatch(pattern, key)), None)


def _absent(key: str, names: Mapping[str, str]) -> bool:
    """Return whether an argument is about a target that there is none of."""
    return "target" not in names and re.match(r"target|tgt|trg|dec", key) is not None


def _bind(example: Any, keys: list[str], name: str) -> dict[str, Tensor]:
    if example is None:
        return {}
    if isinstance(example, Tensor):
        example = (example,)
    if isinstance(example, Mapping):
        if unknown := [key for key in example if key not in keys]:
            raise InputError(f"example_inputs has {unknown[0]!r}, which is no argument of {name}.forward")
        return dict(example)
    return dict(zip(keys, example, strict=False))


def _find_sides(
    module: nn.Module, forward: _Forward, given: Mapping[str, Tensor | None], pad: int | None
) -> dict[str, Side]:
    """Return what each side reads; a pad id that nobody names is -1."""
    tables = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    smallest = min(tables, default=0)
    sides: dict[str, Side] = {}
    for name in forward.names:
        example = given.get(name)
        if example is not None and example.is_floating_point():
            sides[name] = Frames(example.size(-1))
        elif example is not None:
            sides[name] = Tokens(max(int(example.max()) + 1, smallest))
        elif smallest:
            sides[name] = Tokens(smallest)
        else:
            width = next((part.in_features for part in module.modules() if isinstance(part, nn.Linear)), 0)
            sides[name] = Frames(width)
    probe = draw_for(module, sides.get("source"), sides.get("target"), sizes=(3, 7, 7))
    taps = Taps(probe)
    try:
        with taps, torch.no_grad():
            scored = forward(module, probe).size(-1)
    except Exception:
        taps.tables.clear()  # what is wrong will be told by the first check
        scored = 0
    smallest = scored if scored in tables else smallest  # ids that are changed before they are looked up
    return {
        name: side
        if isinstance(side, Frames)
        else _tokens(module, name, taps.tables.get(name, max(side.size, smallest)), taps.weights.get(name), pad)
        for name, side in sides.items()
    }


def _tokens(module: nn.Module, name: str, size: int, table: Tensor | None, pad: int | None) -> Tokens:
    padding = pad
    if padding is None:
        rows = [
            part.padding_idx
            for part in module.modules()
            if isinstance(part, nn.Embedding) and part.weight is table and part.padding_idx is not None
        ]
        short = ("source", "src") if name == "source" else ("target", "tgt", "trg")
        named = [getattr(module, key.format(side=side), None) for key in _PAD_NAMES for side in short]
        padding = next((value for value in [*rows, *named] if isinstance(value, int)), -1)
    special = tuple(range(4)) if size > 12 else (0,)
    return Tokens(size, pad=padding, special=special)


def _hides_zero(module: nn.Module, forward: _Forward, sides: Mapping[str, Side]) -> bool:
    """Return whether some attention gives a key of id 0 no weight where another key in its place gets one."""
    sides = {n: replace(s, pad=0) if isinstance(s, Tokens) else s for n, s in sides.items()}
    batch = draw_for(module, sides.get("source"), sides.get("target"), sizes=(3, 7, 7), lengths=(7, 5, 3))
    try:
        with torch.enable_grad(), traced(module, 3) as trace:
            forward(module, batch)
    except Exception:
        return False
    last = [a.weights[:, :, -1, -1] for a in trace.attentions if a.weights.size(0) == 3]
    return any(bool((w[0] > 0).all()) and bool((w[2] == 0).all()) for w in last)


def _is_decoder(module: nn.Module, forward: _Forward, side: Side) -> bool:
    """Return whether a module that reads one side is causal: it scores its vocabulary, and is no encoder by name.

    An encoder by name that nevertheless hides later positions somewhere is a decoder.
    """
    if not isinstance(side, Tokens):
        return False
    batch = draw_for(module, side, None, sizes=(3, 7, 7), lengths=(7, 7, 7))
    try:
        with torch.enable_grad(), traced(module, 3) as trace:
            logits = forward(module, batch)
    except Exception:
        return False
    if logits.ndim != 3 or logits.size(-1) != side.size:
        return False
    names = " ".join(type(part).__name__ for part in module.modules()).lower()
    named_encoder = re.search(r"encoder|bert|masked|tagger|classif", names) and "decoder" not in names
    corners = [a.weights[..., (0, -1), (-1, 0)] for a in trace.attentions if a.weights.size(-1) == a.weights.size(-2)]
    return not named_encoder or any(bool((corner == 0).any()) for corner in corners)


# ---- what a module of Regard says of itself ------------------------------------------------------------------------


def _declared(module: nn.Module, adapter: Adapter) -> Adapter:
    """Take from ``module.spec``, if there is one, what the model is meant to be."""
    spec = getattr(module, "spec", None)
    if spec is None:
        return adapter
    table, source, output = (
        "target_embedding.vectors.table.weight",
        "source_embedding.vectors.table.weight",
        "output.weight",
    )
    tied = {"target": ((table, output),), "all": ((table, output, source),)}.get(getattr(spec, "tie", "none"), ())
    paths = dict(adapter.paths)
    if adapter.target is not None and adapter.padding == "lengths":
        paths["lengths found by the padding"] = lambda model, x: model(x.source, x.target_in)
    return replace(
        adapter,
        ordered=getattr(getattr(spec, "positions", None), "kind", "") != "none",
        attention_scale=None if getattr(spec, "scale_attention", True) else 1.0,
        residual=getattr(spec, "residual", "") != "none",
        tied=tied,
        paths=paths,
    )


def _with_decoding(module: Any, adapter: Adapter) -> Adapter:
    """Add decoding with a cache if the module starts, steps and reorders as a `StepDecoder` does."""
    if adapter.target is None or not all(
        callable(getattr(module, name, None)) for name in ("start", "step", "reorder")
    ):
        return adapter
    chunks = callable(getattr(module, "step_hidden", None)) and callable(getattr(module, "output", None))

    def start(model: Any, x: Inputs) -> Any:
        return model.start(x.source, x.source_lengths)

    def extend(model: Any, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if tokens.size(1) == 1:
            step = model.step(tokens[:, 0], state)
            return step.logits[:, None], step.state
        hidden, state = model.step_hidden(tokens, state)
        return model.output(hidden), state

    def reorder(model: Any, state: Any, rows: Tensor) -> Any:
        return model.reorder(state, rows)

    return replace(adapter, decoding=Decoding(start, extend, reorder, chunks=chunks))
