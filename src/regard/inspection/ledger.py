"""Where do parameters, memory and work sit? One entry per module, and all entries add up to the whole.

Axes: B batch, S source length, T target length, D width, H heads, Lq queries, Lk keys, K width of a head.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import InputError, nearest
from regard.inspection.attention import kind_from_path
from regard.inspection.names import module_name
from regard.inspection.steps import follow, stepped
from regard.protocols import Listened


@dataclass(frozen=True)
class Amounts:
    """What a module holds and does.

    Attributes:
        parameters: Numbers that are or could be trained.
        trainable: Those of them that take a gradient.
        buffers: Numbers that are kept but not trained.
        num_bytes: Memory of parameters and buffers.
        trainable_bytes: Memory of the trainable parameters.
        flops: Multiplications and additions of the matrix products of one forward, 2 per multiply-add.
        activations: Bytes that the forward keeps for the backward.
    """

    parameters: int = 0
    trainable: int = 0
    buffers: int = 0
    num_bytes: int = 0
    trainable_bytes: int = 0
    flops: int = 0
    activations: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Entry:
    """One module.

    Attributes:
        path: Where it is; empty for the model itself.
        kind: The name of its class.
        depth: Modules it is inside of.
        own: Its own amounts, without its parts: over all entries they sum to the total.
        total: With its parts.
        shared: Parameters of it and its parts that are counted outside of it, by the name they are counted under.
    """

    path: str
    kind: str
    depth: int
    own: Amounts
    total: Amounts
    shared: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """All modules of a model in the order of their definition, parents before parts.

    A list of modules, which nothing calls and which holds nothing itself, is left out, as it is in a walk.
    """

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def total(self) -> Amounts:
        """The whole model."""
        return self.entries[0].total

    def at(self, path: str) -> Entry:
        """Return the entry of the module at ``path``. Raises InputError with the nearest path when there is none."""
        for entry in self.entries:
            if entry.path == path:
                return entry
        raise InputError(f"the model has no module {path!r}{nearest(path, {entry.path for entry in self.entries})}")

    def shared_with(self, entry: Entry) -> list[str]:
        """Return the names of the parts that ``entry`` shares parameters with, and under which they are counted."""
        if not entry.shared:
            return []
        kinds = {one.path: one.kind for one in self.entries}
        own = _with_parents(entry.path)
        found: dict[str, None] = {}
        for parameter in entry.shared:
            holder = parameter.rpartition(".")[0]
            part = next((path for path in _with_parents(holder) if path in kinds and path not in own), holder)
            found[module_name(part, kinds[part])] = None
        return list(found)

    def training_bytes(self, states_per_parameter: int = 2) -> int:
        """Return the memory of a training step: weights, gradients, optimiser states (2 for Adam), activations."""
        whole = self.total
        return whole.num_bytes + (1 + states_per_parameter) * whole.trainable_bytes + whole.activations


def ledger(
    model: nn.Module, *inputs: Any, named: Mapping[str, Any] | None = None, call: Callable[..., Any] | None = None
) -> Ledger:
    """Return what each module of ``model`` holds and, if inputs are given, what ``model(*inputs, **named)`` costs.

    FLOPs and activations are measured in one forward in the mode the model is in; both grow in proportion to B, so one
    row is enough to know them for a batch. An attention counts its full square also where it is causal. Work is booked
    to the innermost module that runs, be it by a method of its own, and a shared parameter to the first that holds it:
    queries, keys and values of a cross-attention are products of its own, as they go past the module of their matrix.

    Args:
        model: Any module.
        *inputs: Its positional arguments, of the lengths to know the cost for.
        named: Its keyword arguments.
        call: What to run in place of the model itself: ``model.step``, say.
    """
    work = _Work(model)
    if inputs or named:
        with work:
            (call or model)(*inputs, **(named or {}))
    return Ledger(tuple(_entries(model, work)))


def _entries(model: nn.Module, work: _Work) -> list[Entry]:
    counted: dict[Tensor, str] = {}
    owned: dict[str, tuple[str, Amounts, tuple[str, ...]]] = {}
    for path, module in model.named_modules():
        amounts, shared = Amounts(flops=work.flops[path], activations=work.activations[path]), []
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if tensor in counted:
                shared.append(counted[tensor])
                continue
            counted[tensor] = f"{path}.{name}" if path else name
            amounts += _held(tensor)
        owned[path] = (type(module).__name__, amounts, tuple(shared))

    totals = dict.fromkeys(owned, Amounts())
    outside: dict[str, dict[str, None]] = {path: {} for path in owned}
    for path, (_, amounts, borrowed) in owned.items():
        for above in _with_parents(path):
            totals[above] += amounts
            outside[above] |= dict.fromkeys(
                name for name in borrowed if not name.startswith(f"{above}." if above else "")
            )
    lists = {
        path
        for path, module in model.named_modules()
        if path and getattr(type(module), "forward", None) is nn.Module.forward and owned[path][1:] == (Amounts(), ())
    }
    return [
        Entry(path, kind, len({*_with_parents(path)} - lists) - 1, amounts, totals[path], tuple(outside[path]))
        for path, (kind, amounts, _) in owned.items()
        if path not in lists
    ]


def _with_parents(path: str) -> list[str]:
    """``a.b`` → ``["", "a", "a.b"]``."""
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]


def _held(tensor: Tensor) -> Amounts:
    if not isinstance(tensor, nn.Parameter):
        return Amounts(buffers=tensor.numel(), num_bytes=tensor.nbytes)
    trained = tensor.requires_grad
    return Amounts(
        parameters=tensor.numel(),
        trainable=tensor.numel() if trained else 0,
        num_bytes=tensor.nbytes,
        trainable_bytes=tensor.nbytes if trained else 0,
    )


class _Work(ExitStack):
    """Books the matrix products and the kept activations of what runs inside it to the innermost running module."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.flops: defaultdict[str, int] = defaultdict(int)
        self.activations: defaultdict[str, int] = defaultdict(int)
        self.running = [""]
        self.kept: dict[int, Tensor] = {
            tensor.untyped_storage().data_ptr(): tensor for tensor in [*model.parameters(), *model.buffers()]
        }

    def __enter__(self) -> _Work:
        super().__enter__()
        for path, module in self.model.named_modules():
            enter, leave = partial(self._enter, path), self._leave
            self.callback(module.register_forward_pre_hook(enter).remove)
            self.callback(module.register_forward_hook(leave, always_call=True).remove)
        for path, module, step in stepped(self.model):
            self.callback(follow(module, step, partial(self._step, path)))
        self.enter_context(torch.enable_grad())
        self.enter_context(saved_tensors_hooks(self._keep, lambda kept: kept))
        self.enter_context(_Products(self._count))
        return self

    def _enter(self, path: str, *_: Any) -> None:
        self.running.append(path)

    def _leave(self, *_: Any) -> None:
        self.running.pop()

    def _step(self, path: str, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self._enter(path)
        try:
            return method(*args, **named)
        finally:
            self._leave()

    def _count(self, flops: int) -> None:
        self.flops[self.running[-1]] += flops

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.kept:
            self.kept[storage.data_ptr()] = tensor  # held, so that its address is not given to another
            self.activations[self.running[-1]] += storage.nbytes()
        return tensor


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells the FLOPs of each matrix product, by torch's formulas and one for the fused attention on a CPU."""

    def __init__(self, count: Callable[[int], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = count
        fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_attention_flops}
        self.formulas = FlopCounterMode(display=False, custom_mapping=fused).flop_registry

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled in here, and shielding it from the compiler would import that, seconds long

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func._overloadpacket)
        if formula is not None:
            self.count(formula(*args, **(kwargs or {}), out_val=out))
        return out


def _fused_attention_flops(
    query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, out_shape: Any = None, **__: Any
) -> int:
    """2 · B · H · Lq · Lk · (K of keys + K of values), from the shapes [B, H, L, K] of the three."""
    batch, heads, num_queries, width = query
    return 2 * batch * heads * num_queries * key[2] * (width + value[3])


@dataclass(frozen=True)
class CacheBytes:
    """Memory of decoding with a key/value cache, for each row.

    Attributes:
        per_target_token: Keys and values of decoder self-attention, added at each step.
        per_source_token: Those of the encoded source, made once.
    """

    per_target_token: int
    per_source_token: int


def cache_bytes(model: nn.Module) -> CacheBytes:
    """Return what a cache of ``model`` holds: keys and values, 2 · D numbers, per token and decoder attention.

    Knows modules with ``listen`` and ``torch.nn.MultiheadAttention``, by the kind that their path tells.
    """
    totals = {"decoder": 0, "cross": 0}
    for path, module in model.named_modules():
        kind = kind_from_path(path)
        linears = [part for part in module.children() if isinstance(part, nn.Linear)]
        if kind in totals and linears and isinstance(module, Listened | nn.MultiheadAttention):
            totals[kind] += 2 * linears[-1].out_features * linears[-1].weight.element_size()  # the one back to width D
    return CacheBytes(totals["decoder"], totals["cross"])
