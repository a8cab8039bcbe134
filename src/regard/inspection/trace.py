"""What happens to a tensor on its way through a model? Every call of a module in order, with what goes in and out.

Axes: B batch, S source length, T target length, D width, V vocabulary, Lq queries, Lk keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.inspection.attention import SIDES, kind_from_path
from regard.inspection.axes import infer_sizes, looked_up, side_of, sides_of_arguments
from regard.inspection.facts import GradientFacts, TensorFacts, gradient_facts, tensor_facts
from regard.inspection.formulas import BY_STEP, Formula, formula_of, formula_of_step
from regard.inspection.listeners import attach, refuse_no_module
from regard.inspection.names import module_name, step_name
from regard.inspection.steps import follow, stepped, steps_of


@dataclass(frozen=True)
class Visit:
    """One call of one module, or one step that a module takes in a method of its own.

    Attributes:
        path: Where it is in the model; empty for the model itself. A step has its own name behind that of its module.
        name: What it is called where people read, see `regard.inspection.names`.
        kind: The name of its class; ``step`` for a step.
        depth: How many calls it is inside of.
        formula: What it computes and which section says so, as far as known.
        inputs: Its tensor arguments.
        outputs: The tensors it returned.
        seconds: Wall time, what it calls included and the time of looking left out, that of scores and weights apart.
        num_parameters: Its own and those of all its parts, shared ones once; a step has none.
    """

    path: str
    name: str
    kind: str
    depth: int
    formula: Formula
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    seconds: float
    num_parameters: int


@dataclass(frozen=True)
class Walk:
    """The whole way through.

    Attributes:
        visits: Every call of a module and every step it takes itself, in order of entry; what it calls follows it,
            one deeper.
        masks: By path of attention, which keys each query of the first row may see (some head gives it weight).
        gradients: One per parameter if asked for.
        output: What the model returned.
    """

    visits: tuple[Visit, ...]
    masks: Mapping[str, Bool[Tensor, "Lq Lk"]]
    gradients: tuple[GradientFacts, ...]
    output: Any = field(repr=False)

    def __iter__(self) -> Iterator[Visit]:
        return iter(self.visits)

    def at(self, path: str) -> list[Visit]:
        """Return all calls of the module at ``path``. Raises InputError with the nearest path when there is none."""
        found = [visit for visit in self.visits if visit.path == path]
        if not found:
            raise InputError(f"no module {path!r} was called{nearest(path, {v.path for v in self.visits})}")
        return found


def trace(
    model: nn.Module,
    *inputs: Any,
    named: Mapping[str, Any] | None = None,
    call: Callable[..., Any] | None = None,
    loss: Callable[[Any], Float[Tensor, ""]] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Walk:
    """Run ``model(*inputs, **named)`` once and tell every step.

    The model's mode, weights and ``grad`` fields are left as they are.

    Args:
        model: Any module.
        *inputs: Its positional arguments; tensors [B, S, …] and [B, T, …] give the axes their letters.
        named: Its keyword arguments.
        call: What to run in place of the model itself, with the same arguments: ``model.generate``, say.
        loss: Makes a scalar of the output; with it the backward pass is walked too and ``gradients`` are filled.
        sizes: Sizes of axes by letter, where they are not found by themselves.

    Raises:
        InputError: ``model`` is no module, or ``loss`` gives something without a gradient.
    """
    refuse_no_module(model)
    told = [value for name, value in (named or {}).items() if "mask" not in name]
    known = infer_sizes(model, [*inputs, *told]) | dict(sizes or {})
    look = _Look(model, known)
    masks: dict[str, Tensor] = {}
    modules = dict(model.named_modules())

    def hear(name: str, weights: Tensor) -> None:
        with look.own_time():
            masks[name] = (weights[0] > 0).any(dim=0).cpu()
        if not steps_of(modules.get(name, model)):  # which shows its weights itself
            look.weights(name, weights)

    with torch.set_grad_enabled(loss is not None), attach(model, hear), look:
        output = (call or model)(*inputs, **(named or {}))
    gradients = gradient_facts(model, loss(output)) if loss is not None else ()
    return Walk(tuple(look.finished()), masks, gradients, output)


@dataclass
class _Call:
    """A call that has begun: of what, its place among the visits, when, time spent on looking till then, inputs."""

    path: str
    place: int
    began: float
    spent: float
    inputs: tuple[TensorFacts, ...]


class _Look:
    """Hooks on every module, and on the steps of those that have some, that note calls while the look lasts."""

    def __init__(self, model: nn.Module, sizes: Mapping[str, int]) -> None:
        self.model = model
        self.sizes = sizes
        self.visits: list[Visit | None] = []
        self.open: list[_Call] = []
        self.spent = 0.0
        self.undo: list[Callable[[], None]] = []
        self.on_gpu = any(parameter.is_cuda for parameter in model.parameters())

    def __enter__(self) -> None:
        for path, module in self.model.named_modules():
            arrive = module.register_forward_pre_hook(partial(self._enter_module, path), with_kwargs=True)
            leave = module.register_forward_hook(partial(self._leave_module, path), always_call=True)
            self.undo += [arrive.remove, leave.remove]
        for path, module, step in stepped(self.model):
            self.undo.append(follow(module, step, partial(self._step, path, module, step)))

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self.undo):
            undo()

    def _step(
        self, path: str, module: nn.Module, step: str, method: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        name = step_name(path, step, self.open[-1].path if self.open else "")
        where = f"{path}.{step}" if path else step
        self.arrive(where, method, args, named)
        output = None
        try:
            output = method(*args, **named)
        finally:
            self.leave(name, "step", formula_of_step(module, step), output, 0)
        return output

    @contextmanager
    def own_time(self) -> Iterator[None]:
        """Count the seconds inside as spent on looking: they are none of the model's."""
        began = time.perf_counter()
        yield
        self.spent += time.perf_counter() - began

    def _enter_module(self, path: str, module: nn.Module, args: Any, named: Any) -> None:
        self.arrive(path, module.forward, args, named)

    def _leave_module(self, path: str, module: nn.Module, _args: Any, output: Any) -> None:
        kind = type(module).__name__
        inside = self.open[-2].path if len(self.open) > 1 else ""
        name = module_name(path, kind, alone=not inside)
        self.leave(name, kind, formula_of(module), output, sum(p.numel() for p in module.parameters()))

    def arrive(self, path: str, method: Callable[..., Any], args: Any, named: Any) -> None:
        """Note that a call of ``method`` begins."""
        with self.own_time():
            self.visits.append(None)
            inputs = sides_of_arguments(path, method, args, named)
            facts = tuple(fact for value, side in inputs for fact in self.facts(path, value, side))
        self.open.append(_Call(path, len(self.visits) - 1, time.perf_counter(), self.spent, facts))

    def leave(self, name: str, kind: str, formula: Formula, output: Any, num_parameters: int) -> None:
        """Note what came of the call that began last."""
        if self.on_gpu:
            torch.cuda.synchronize()
        call = self.open.pop()
        seconds = time.perf_counter() - call.began - (self.spent - call.spent)
        with self.own_time():
            self.visits[call.place] = Visit(
                path=call.path,
                name=name,
                kind=kind,
                depth=len(self.open),
                formula=formula,
                inputs=call.inputs,
                outputs=self.outputs(call.path, output),
                seconds=seconds,
                num_parameters=num_parameters,
            )

    def weights(self, attention: str, weights: Tensor) -> None:
        """Note the weights of an attention that has no steps of its own to show them."""
        path = f"{attention}.weights"
        self.arrive(path, self.weights, (), {})
        inside = self.open[-2].path if len(self.open) > 1 else ""
        name = step_name(attention, "weights", inside)
        self.leave(name, "step", BY_STEP["weights"], weights, 0)

    def outputs(self, path: str, value: Any) -> tuple[TensorFacts, ...]:
        """Return what there is to tell of the tensors that came out."""
        owner, _, step = path.rpartition(".")
        scores = ""
        if step in ("scores", "weights"):  # queries × keys, no features
            scores = "".join("S" if side == "source" else "T" for side in SIDES[kind_from_path(owner)])
        if is_dataclass(value):  # keys and values of an encoded source
            value = list(vars(value).values())
        return self.facts(path, value, side_of(path), scores)

    def facts(self, path: str, value: object, side: str, scores: str = "") -> tuple[TensorFacts, ...]:
        if any(looked_up(call.path) for call in self.open):
            side = "S"
        # heads side by side are n·D wide, which may be F as well and is not
        own = path.rpartition(".")[2]
        sizes = {letter: size for letter, size in self.sizes.items() if letter != "F" or own != "split_heads"}
        return tuple(tensor_facts(tensor, sizes, side, scores) for tensor in _tensors(value))

    def finished(self) -> Iterator[Visit]:
        return (visit for visit in self.visits if visit is not None)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _tensors(item)
