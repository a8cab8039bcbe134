"""Are the module's weights what they seem: trained, tied, saved, each of them one?

Axes: V vocabulary, D width, L positions of a table.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from regard.plural import plural
from regard.verification.constants import constant
from regard.verification.findings import Finding, ModuleRaisedError, NotExercised, check, fail, one_line, passed
from regard.verification.inputs import Tokens
from regard.verification.keeping import restored
from regard.verification.subject import Subject


@check("The gradient of the logits reaches every trained parameter, and is finite")
def check_gradients(subject: Subject) -> Finding:
    """Differentiate a random mixture of the real positions' logits by every parameter that requires a gradient."""
    named = [(name, p) for name, p in subject.module.named_parameters() if name in subject.trained]
    if not named:
        raise NotExercised("no parameter requires a gradient")
    logits = subject.call(subject.inputs)[subject.real_rows(subject.inputs)]
    mixture = torch.randn(logits.shape, generator=subject.generator).to(logits)
    if not logits.requires_grad:
        return fail("the logits have no gradient at all", cause="a no_grad or detach on the way")
    grads = torch.autograd.grad((logits * mixture).sum(), [p for _, p in named], allow_unused=True)
    unreached = []
    for (name, _), grad in zip(named, grads, strict=True):
        if grad is not None and not grad.isfinite().all():
            return fail("a gradient is NaN or infinite", cause="an overflow, or a query that sees nothing", where=name)
        meant = any(fnmatch.fnmatch(name, pattern) for pattern in subject.adapter.unused)
        if not meant and (grad is None or not bool((grad != 0).any())):
            unreached.append(name)
    if unreached:
        return fail(
            f"no gradient for {len(unreached)} of {plural(len(named), 'parameter')}",
            cause="the layer is not used, or a detach, no_grad or rounding cuts it off",
            where=", ".join(unreached[:3]) + (", …" if len(unreached) > 3 else ""),
        )
    frozen = sum(1 for _ in subject.module.parameters()) - len(named)
    told = plural(len(named), "parameter")
    return passed(f"{told}, and {plural(frozen, 'is', 'are')} frozen" if frozen else told)


@check("Weights that are meant to be one are one, and stay so through casting, copying and loading")
def check_tied_weights(subject: Subject) -> Finding:
    """Follow shared parameters, declared or found, and look for tables that hold the same numbers twice."""
    module = subject.module
    own = dict(module.named_parameters(remove_duplicate=False))
    groups: dict[int, list[str]] = {}
    for name, p in own.items():
        groups.setdefault(id(p), []).append(name)
    tied = [tuple(names) for names in groups.values() if len(names) > 1]
    for group in subject.adapter.tied:
        if missing := [name for name in group if name not in own]:
            raise NotExercised(f"the adapter ties {missing[0]!r}, which is no parameter")
        if not _one(own, group):
            return fail("weights that are meant to be one are two", cause=_APART, where=" and ".join(group))
        tied.append(group)
    sizes = {side.size for side in (subject.adapter.source, subject.adapter.target) if isinstance(side, Tokens)}
    tables = {
        n: x
        for n, x in subject.originals.items()
        if x.ndim == 2 and x.size(0) in sizes and len(groups[id(own[n])]) == 1
    }
    for a, b in ((a, b) for a in tables for b in tables if a < b):
        if tables[a].shape == tables[b].shape and torch.equal(tables[a], tables[b]) and bool(tables[a].any()):
            return fail("two tables hold the same numbers, but are not one", cause=_APART, where=f"{a} and {b}")
    if not tied:
        raise NotExercised("nothing is tied")
    with subject.cast(torch.float32):
        cast = dict(module.named_parameters(remove_duplicate=False))
        broken = next((group for group in tied if not _one(cast, group)), None)
    if broken:
        return fail("casting makes two weights of one", cause=_APART, where=" and ".join(broken))
    copied = dict(copy.deepcopy(module).named_parameters(remove_duplicate=False))
    if broken := next((group for group in tied if not _one(copied, group)), None):
        return fail("a deep copy has two weights where there was one", cause=_APART, where=" and ".join(broken))
    if subject.adapter.rebuild is not None:
        fresh = subject.adapter.rebuild()
        fresh.load_state_dict(module.state_dict())
        loaded = dict(fresh.named_parameters(remove_duplicate=False))
        if broken := next((group for group in tied if not _one(loaded, group)), None):
            return fail("loading makes two weights of one", cause=_APART, where=" and ".join(broken))
    return passed(", ".join(" = ".join(group) for group in dict.fromkeys(tied)))


_APART = "the tie was made by copying numbers, or undone by assigning a new parameter"


def _one(parameters: Mapping[str, Tensor], group: tuple[str, ...]) -> bool:
    return len({parameters[name].data_ptr() for name in group}) == 1


@check("What is trained is a parameter, and what is not is a buffer; both are registered")
def check_registered(subject: Subject) -> Finding:
    """Look for constants among the parameters, weights among the buffers, and what torch cannot see."""
    module = subject.module
    for name, values in subject.originals.items():
        if name in subject.trained and (what := constant(values)):
            return fail(
                f"{what} is a trained parameter",
                cause="a buffer was made a parameter: register_buffer, or it drifts",
                where=name,
            )
    for path, part in module.named_modules():
        for name in part._buffers:
            if name in _PARAMETERS_OF.get(type(part), ()):
                return fail(
                    "a weight is a buffer",
                    cause="it is saved, but never trained: make it an nn.Parameter",
                    where=f"{path}.{name}".lstrip("."),
                )
        for name, value in list(vars(part).items()):
            if name in ("_parameters", "_buffers", "_modules") or "hook" in name:
                continue
            if what := _unregistered(value, set(map(id, module.modules()))):
                return fail(
                    what,
                    cause="it is neither saved, moved nor trained: use nn.ModuleList, nn.Parameter or register_buffer",
                    where=f"{path}.{name}".lstrip("."),
                )
            if _plain_constant(value) and _is_used(subject, part, name):
                return fail(
                    "a tensor that the logits depend on is a plain attribute",
                    cause="it stays behind when the module is moved or cast: use register_buffer or nn.Parameter",
                    where=f"{path}.{name}".lstrip("."),
                )
    return passed()


_PARAMETERS_OF: Mapping[type, tuple[str, ...]] = {
    nn.Linear: ("weight", "bias"),
    nn.LayerNorm: ("weight", "bias"),
    nn.Embedding: ("weight",),
    nn.MultiheadAttention: ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
}


def _unregistered(value: object, known: set[int]) -> str:
    """Return what torch cannot see inside a container, or nothing."""
    items: Iterator[object] = iter(())
    if isinstance(value, list | tuple | set):
        items = iter(value)
    elif isinstance(value, dict):
        items = iter(value.values())
    for item in items:
        if isinstance(item, nn.Module) and id(item) not in known and any(True for _ in item.parameters()):
            return "a module with parameters is kept in a plain container"
        if isinstance(item, Tensor) and item.requires_grad and item.is_leaf:
            return "a trained tensor is kept in a plain container"
    return ""


def _plain_constant(value: object) -> bool:
    """Return whether ``value`` is a tensor of numbers that no forward computed with a gradient."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1 and value.grad_fn is None


def _is_used(subject: Subject, part: nn.Module, name: str) -> bool:
    value, before, tolerance = getattr(part, name), subject.logits, subject.tolerance
    try:
        vars(part)[name] = value + torch.randn(value.shape, generator=subject.generator).to(value)
        return float((subject.run() - before).abs().max()) > tolerance
    except ModuleRaisedError:
        return True
    finally:
        vars(part)[name] = value


@check("Layers that stand one after the other have weights of their own")
def check_layers_distinct(subject: Subject) -> Finding:
    """Look for one module standing at several places of a list."""
    seen = False
    for path, part in subject.module.named_modules():
        if not isinstance(part, nn.ModuleList | nn.Sequential) or len(part) < 2:
            continue
        trained = [m for m in part._modules.values() if m is not None and any(True for _ in m.parameters())]
        seen = seen or len(trained) > 1
        if len({id(m) for m in trained}) < len(trained):
            return fail(
                "one layer stands at several places",
                cause="[layer] * n repeats one layer: make each anew, or copy it",
                where=path,
            )
    if not seen:
        raise NotExercised("no list of layers was seen")
    return passed()


@check("Weights saved and loaded again give the same logits, bit for bit")
def check_save_load(subject: Subject) -> Finding:
    """Save, overwrite every weight, and load back; load into a freshly built module too, if one can be made."""
    module = subject.module
    before = subject.logits
    with restored(module):
        state = {name: x.clone() if isinstance(x, Tensor) else x for name, x in module.state_dict().items()}
        for p in module.parameters():
            if p.is_floating_point():
                p.data = torch.full_like(p.data, 0.5)
        for name, buffer in list(module.named_buffers()):
            if name in state and buffer.is_floating_point():
                buffer.fill_(0.5)
        try:
            module.load_state_dict(state)
        except Exception as error:
            return fail(
                f"the module refuses its own state: {one_line(error)}", cause="saving and loading disagree on names"
            )
        if not torch.equal(subject.run(), before):
            return fail(
                "the logits are others after loading", cause="part of the state is not in state_dict, or shared wrongly"
            )
    if subject.adapter.rebuild is None:
        return passed("no fresh module to load into was given (rebuild=)")
    fresh = subject.adapter.rebuild()
    try:
        fresh.load_state_dict(state)
    except Exception as error:
        return fail(
            f"a fresh module refuses the state: {one_line(error)}", cause="saving and loading disagree on names"
        )
    fresh.to(subject.device, subject.dtype).eval()
    fresh.load_state_dict(state)  # again, in the precision that is compared
    size = float((subject.run(forward=lambda _module, x: subject.adapter.forward(fresh, x)) - before).abs().max())
    if size > 0:
        return fail(
            "a freshly built module gives other logits with the loaded weights",
            cause="something that matters is neither saved nor built: a non-persistent buffer, a plain tensor",
            size=size,
        )
    return passed()
