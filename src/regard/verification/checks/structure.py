"""Is the skeleton whole: residuals around sublayers, norms over features, something non-linear in between?

Axes: B rows, L positions, D width of the stream, F inner width of a feed-forward network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from regard.plural import plural
from regard.verification.findings import Finding, NotExercised, check, fail, passed
from regard.verification.inputs import Frames
from regard.verification.places import by_position
from regard.verification.subject import Subject
from regard.verification.taps import Taps
from regard.verification.trace import Call, first_tensor


@check("A sublayer adds to the stream: with every sublayer silent, each position still sees its own token")
def check_residual(subject: Subject) -> Finding:
    """Silence the last map of each sublayer and differentiate the stream by the embedded tokens.

    Silenced are what attention's sums are given to, and maps from a wider inner layer back to the stream.
    """
    if not subject.adapter.residual:
        raise NotExercised("it is meant to have no residual connections")
    sublayers = _last_maps(subject)
    for side, paths in sublayers.items():
        if not paths or not _cut(subject, side, paths):
            continue
        cut = next((path for path in paths if _cut(subject, side, [path])), None)
        if cut is None or _cut(subject, side, []):
            raise NotExercised(f"the {side}'s stream is cut off elsewhere, see the other failures")
        return fail(
            f"with {cut} silent, the {side}'s stream no longer depends on its tokens",
            cause="the residual around this sublayer is missing",
            where=cut,
            size=0.0,
        )
    if not any(sublayers.values()):
        raise NotExercised("no sublayer's last map was seen as a module")
    return passed(plural(sum(map(len, sublayers.values())), "sublayer was", "sublayers were") + " silenced")


def _last_maps(subject: Subject) -> dict[str, list[str]]:
    """Return, for each side, the paths of the modules that hand a sublayer's result to its stream."""
    modules = dict(subject.module.named_modules())
    calls = [call for call in subject.base_trace.calls if call.input is not None and call.output is not None]
    found: dict[str, list[str]] = {side: [] for side in subject.adapter.sides}
    widths = set()
    for kind, attention in subject.attentions:
        side = "source" if kind == "encoder" else "target"
        if isinstance(modules.get(attention.module), nn.MultiheadAttention):
            path = attention.module
            widths.add(modules[path].embed_dim)
        else:
            reader = next((call for call in calls if _reads(call, attention.context, modules)), None)
            if reader is None or reader.output is None:
                continue
            path = reader.module
            widths.add(reader.output.size(-1))
        found[side].append(path)
    first = next((i for i, call in enumerate(calls) if call.module in {p for ps in found.values() for p in ps}), 0)
    for call in calls[first:]:
        assert call.input is not None and call.output is not None
        if not _is_linear(modules.get(call.module)) or call.output.size(-1) not in widths:
            continue
        if call.input.size(-1) <= call.output.size(-1):
            continue
        for side in found:
            if by_position(call.output, subject.inputs.side(side).shape[:2]) is not None:
                found[side].append(call.module)
    return found


def _is_linear(module: nn.Module | None) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(module, nn.Embedding)


def _reads(call: Call, context: Tensor | None, modules: dict[str, nn.Module]) -> bool:
    """Return whether a linear module is given the sums of an attention, in whatever order."""
    x = call.input
    if context is None or x is None or x.numel() != context.numel() or not _is_linear(modules.get(call.module)):
        return False
    return torch.allclose(
        x.double().flatten().sort().values, context.double().flatten().sort().values, rtol=1e-9, atol=0
    )


@contextmanager
def _silent(subject: Subject, paths: list[str]) -> Iterator[None]:
    def silence(_module: nn.Module, _args: object, output: object) -> object:
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output) if isinstance(output, Tensor) else output

    with ExitStack() as stack:
        for path in paths:
            stack.callback(subject.module.get_submodule(path).register_forward_hook(silence).remove)
        yield


def _cut(subject: Subject, side: str, paths: list[str]) -> bool:
    """Return whether the end of a side's stream has lost its tokens once ``paths`` are silent."""
    inputs = subject.inputs
    real = inputs.real(side)
    ends: list[Tensor] = []

    def hear(_module: nn.Module, _args: object, output: object) -> None:
        x = first_tensor(output)
        if x is not None and x.ndim == 3 and x.size(0) == len(real) and x.size(1) in (real.size(1), real.size(1) + 1):
            ends.append(x)

    frames = isinstance(subject.adapter.side(side), Frames)
    if frames:
        x = inputs.side(side).to(subject.dtype).clone().requires_grad_()
        inputs = inputs.put(side, x)
    with ExitStack() as stack:
        for module in subject.module.modules():
            stack.callback(module.register_forward_hook(hear).remove)
        stack.enter_context(_silent(subject, paths))
        taps = stack.enter_context(Taps(inputs))
        stack.enter_context(subject.guard(inputs))
        output = subject.adapter.forward(subject.module, inputs)
    point = x if frames else taps.added.get(side)
    if point is None:
        raise NotExercised(f"no look-up of the {side} ids in a table was seen")
    if subject.adapter.target is not None:  # the source is seen through the decoder, the target by itself
        end = output
    elif ends:
        end = ends[-1]
    else:
        raise NotExercised("no module returns the encoder's stream")
    (grad,) = torch.autograd.grad(
        (end * torch.randn(end.shape, generator=subject.generator).to(end)).sum(), [point], allow_unused=True
    )
    if grad is None:
        return True
    return bool((grad.abs().amax(dim=-1)[real] == 0).any())


@check("Outside attention each position is treated alone: norms run over features")
def check_position_wise(subject: Subject) -> Finding:
    """Find statistics over positions, try each norm by itself, and look at what the first attention is given."""
    sides = {tuple(subject.inputs.side(side).shape[:2]): side for side in subject.adapter.sides}
    for statistic in subject.base_trace.statistics:
        side = sides.get(statistic.shape[:2]) or sides.get(statistic.shape[:2][::-1])
        width = getattr(subject.adapter.side(side), "width", None) if side else None
        if side is None or (statistic.shape[-1] == width and subject.adapter.target is None):
            continue  # the frames of a signal may be normed over time
        if subject.adapter.target is None and statistic.operation == "mean":
            continue  # a readout may average positions
        return fail(
            f"a {statistic.operation} over axes {list(statistic.axes)} of [B, L, D] = {list(statistic.shape)}",
            cause="a norm over positions or rows instead of features",
            where=statistic.module or type(subject.module).__name__,
        )
    tried = _norm_that_mixes(subject)
    if isinstance(tried, Finding):
        return tried
    return _first_attention_mixes(subject) or passed(
        f"{plural(tried, 'norm was tried by itself', 'norms were tried by themselves')}"
    )


def _norm_that_mixes(subject: Subject) -> Finding | int:
    """Change one position of each norm's input and see whether another changes; return how many were tried."""
    modules = dict(subject.module.named_modules())
    tried = 0
    for call in subject.base_trace.calls:
        module = modules.get(call.module)
        if "norm" not in type(module).__name__.lower() or call.input is None or call.input.ndim != 3 or module is None:
            continue
        changed = call.input.clone()
        changed[0, 1] += torch.randn(changed.size(-1), generator=subject.generator).to(changed)
        try:
            with torch.no_grad():
                before, after = (first_tensor(module(x.clone())) for x in (call.input, changed))
        except Exception:  # a norm that takes more than its input is not tried by itself
            continue
        if before is None or after is None or before.shape != call.input.shape:
            continue
        tried += 1
        difference = (before - after).abs().amax(dim=-1)
        difference[0, 1] = 0.0
        size = float(difference.max())
        if size > subject.tolerance:
            return fail(
                "changing one position of the norm's input changes its output at others",
                cause="a norm over positions or rows instead of features",
                where=call.module,
                size=size,
            )
    return tried


def _first_attention_mixes(subject: Subject) -> Finding | None:
    """Return a failure if changing one token changes another position's query, key or value in the first attention."""
    if any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in subject.module.modules()):
        return None  # a convolution mixes neighbours on purpose
    for side, kind in (("source", "encoder"), ("target", "decoder")):
        if side not in subject.adapter.sides:
            continue
        index = next((i for i, (k, _) in enumerate(subject.attentions) if k == kind), None)
        if index is None:
            continue
        before, after = subject.attentions[index][1], subject.touched[side].attentions[index]
        for name in ("query", "key", "value"):
            x, y = getattr(before, name), getattr(after, name)
            length = subject.inputs.side(side).size(1)
            if (
                x is None
                or x.shape != y.shape
                or len(x) != subject.inputs.batch
                or x.size(2) not in (length, length + 1)
            ):
                continue
            changed = ((x - y).abs().amax(dim=(1, 3)) > subject.tolerance).sum(dim=1)
            if bool((changed > 1).any()):
                return fail(
                    f"changing one {side} token changes the {name} of {int(changed.max())} positions",
                    cause="positions are mixed before attention: by a norm over them, or a split into heads",
                    where=before.module,
                )
    return None


@check("There is something non-linear between the two maps of a feed-forward network")
def check_activation(subject: Subject) -> Finding:
    """Look for a map to a wider layer whose output goes straight into the map back."""
    linears = subject.base_trace.linears
    pairs = 0
    for i, up in enumerate(linears):
        if up.output.size(1) <= up.input.size(1):
            continue
        shape = (len(up.input), up.output.size(1))
        for down in linears[i + 1 :]:
            if down.input.shape != shape or down.output.size(1) != up.input.size(1):
                continue
            if torch.equal(down.input, up.output):
                return fail(
                    "the inner layer's output goes unchanged into the map back",
                    cause="the activation is missing: two linear maps in a row are one",
                    where=up.module,
                )
            pairs += 1
            break
    if not pairs:
        raise NotExercised("no map to a wider layer and back was seen")
    return passed()
