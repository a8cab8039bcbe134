"""Do all ways to run the module give the same: again, trained or not, in low precision, exported?

Axes: B rows, T target, V vocabulary.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.inspection import watch_attention
from regard.verification.adapter import Adapter
from regard.verification.findings import Finding, ModuleRaisedError, NotExercised, check, fail, judge, one_line, passed
from regard.verification.inputs import Inputs
from regard.verification.places import spot
from regard.verification.subject import Subject, largest, same
from regard.verification.taps import SHARES, dropout_kept_still

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)


@check("In evaluation mode the same input gives the same logits, bit for bit")
def check_eval_deterministic(subject: Subject) -> Finding:
    """Run twice with different random seeds."""
    if not subject.draws_differ:
        return passed()
    first, second = subject.draws()
    return fail(
        "two runs of one batch in evaluation mode differ",
        cause="dropout is left on: it does not ask whether the module is training",
        size=float((first - second).abs().max()),
    )


@check("A forward changes neither its inputs nor the module, and remembers nothing")
def check_stateless(subject: Subject) -> Finding:
    """Run one batch, another, and the first again; compare logits, inputs and the module's state."""
    inputs = subject.inputs
    state = {name: x.clone() for name, x in subject.module.state_dict().items() if isinstance(x, Tensor)}
    given = inputs.cast(subject.dtype)
    kept = {name: x.clone() for name, x in vars(given).items() if x is not None}
    first = subject.run()
    other = inputs
    for side in subject.adapter.sides:
        other = other.redrawn(side, subject.adapter.side(side), inputs.real(side), subject.generator)
    subject.run(other)
    with subject.guard(given):
        again = subject.adapter.forward(subject.module, given).detach().double()
    if not same(first, again):
        return fail(
            "the logits of a batch depend on the batches before it",
            cause="a cache or a mask is kept on the module",
            size=float((first - again).abs().max()),
        )
    for name, x in kept.items():
        if not torch.equal(getattr(given, name), x):
            return fail(f"the forward writes into its input {name}", cause="an operation in place")
    for name, x in subject.module.state_dict().items():
        if isinstance(x, Tensor) and not same(x, state[name]):
            return fail("a forward in evaluation mode changes the module", cause="an operation in place", where=name)
    return passed()


@check("Dropout draws in training, and only there")
def check_dropout_in_training(subject: Subject) -> Finding:
    """Run twice in training mode with different random seeds; where a share is to be dropped, the runs must differ."""
    shares = {path: share for path, part in subject.module.named_modules() if (share := _share_dropped(part)) > 0}
    with subject.training():
        differ = not same(*subject.draws())
    if differ and subject.draws_differ:
        return fail("dropout draws in evaluation mode too", cause="it does not ask whether the module is training")
    if not shares:
        raise NotExercised("no part of it is to drop anything")
    if not differ:
        return fail(
            "two runs in training mode are equal although there is dropout",
            cause="dropout is not applied, or reads a mode that is never switched",
            where=next(iter(shares)),
        )
    return passed()


def _share_dropped(part: nn.Module) -> float:
    values = [getattr(part, name, 0) for name in SHARES]
    return max((float(v) for v in values if isinstance(v, float)), default=0.0)


@check("Every path gives the same logits: no_grad, inference_mode, training without dropout, fused or not, watched")
def check_paths_agree(subject: Subject) -> Finding:
    """Run the batch each way and compare real positions."""
    adapter = subject.adapter
    real = subject.real_rows(subject.inputs)
    ways: dict[str, Callable[[], Tensor]] = {
        "no_grad": lambda: _within(subject, torch.no_grad()),
        "inference_mode": lambda: _within(subject, torch.inference_mode()),
        "attention by its plain formula": lambda: _within(subject, sdpa_kernel(SDPBackend.MATH)),
        "watch_attention": lambda: _within(subject, watch_attention(subject.module)),
        "training mode with dropout held still": lambda: _in_training(subject),
        **{name: partial(subject.run, forward=path) for name, path in adapter.paths.items()},
    }
    if any(isinstance(part, _BATCH_NORMS) for part in subject.module.modules()):
        del ways["training mode with dropout held still"]
    worst = 0.0
    left_out = []
    for name, way in ways.items():
        try:
            logits = way()
        except Exception as error:
            if isinstance(error, ModuleRaisedError) and name not in adapter.paths:
                return fail(f"with {name} {error}", cause="one path of several cannot run")
            left_out.append(name)
            continue
        if logits.shape != subject.logits.shape:
            return fail(f"with {name} the logits are {list(logits.shape)}", cause="a shortcut drops rows or columns")
        size, place = largest(logits, subject.logits, real)
        tolerance = subject.tolerance
        if not size <= tolerance and name in adapter.paths:  # it may compute in other types
            tolerance = subject.tolerance_in(subject.trace(subject.inputs, adapter.paths[name]).coarsest)
        if not size <= tolerance:
            return judge(
                size,
                tolerance,
                detail=f"the logits differ with {name}",
                cause="two paths that should compute the same do not",
                where=spot(*place),
            )
        worst = max(worst, size)
    return passed(f"without {' and '.join(left_out)}" if left_out else f"the largest difference is {worst:.2g}")


def _within(subject: Subject, context: AbstractContextManager[object]) -> Tensor:
    with context:
        return subject.call(subject.inputs).detach().double()


def _in_training(subject: Subject) -> Tensor:
    with subject.training(), dropout_kept_still(subject.module):
        return subject.call(subject.inputs).detach().double()


@check("In half precision everything stays finite and near the exact result")
def check_half_precision(subject: Subject) -> Finding:
    """Run forward and backward in float16 and bfloat16; allow a few times what rounding the weights does."""
    inputs = subject.inputs.rows([1])  # a padded one; half precision is slow on a CPU
    real = subject.real_rows(inputs)
    exact = subject.run(inputs)
    scale = float(exact[real].std())
    parameters = {name: p for name, p in subject.module.named_parameters() if p.is_floating_point()}
    worst = 0.0
    ran = 0
    for dtype in (torch.float16, torch.bfloat16):
        try:
            with subject.cast(dtype):
                logits = subject.call(inputs)
                mean = logits[real].float().mean()
                grads = torch.autograd.grad(mean, list(parameters.values()), allow_unused=True)
        except ModuleRaisedError as error:
            if "not implemented for" in str(error):
                continue
            return fail(str(error), cause=_why_low(str(error)), where=str(dtype))
        ran += 1
        if not logits[real].isfinite().all():
            return fail("logits are NaN or infinite", cause="an overflow: a mask or scale too large", where=str(dtype))
        bad = [name for name, g in zip(parameters, grads, strict=True) if g is not None and not g.isfinite().all()]
        if bad:
            where = f"{dtype}, {bad[0]}"
            return fail("gradients are NaN or infinite", cause="an overflow in the backward pass", where=where)
        size, _ = largest(logits.detach().double(), exact, real)
        allowed = MARGIN_LOW * max(subject.effect_of_rounding(dtype), torch.finfo(dtype).eps * scale)
        if not size <= allowed:
            return judge(
                size,
                allowed,
                detail="the logits are further from the exact ones than rounding explains",
                cause="something is computed in half precision that needs more: positions, a softmax, a norm",
                where=str(dtype),
            )
        worst = max(worst, size / allowed)
    if not ran:
        raise NotExercised("an operation is not implemented in half precision on this device")
    return judge(worst, 1.0)


MARGIN_LOW = 16
"""How many times the effect of rounding the weights alone the error of a whole low-precision forward may be: every
product and sum rounds once more, and there are fewer than ten of them in a row per weight."""


def _why_low(message: str) -> str:
    if "overflow" in message:
        return "a mask value such as -1e9 does not fit half precision: use -inf or the type's own minimum"
    if "dtype" in message or "expected" in message.lower():
        return "something is made in a fixed precision and meets the module's own"
    return "the module cannot run in half precision"


class _Exported(nn.Module):
    """The adapter's call as a module over tensors alone, which is what torch.export takes."""

    def __init__(self, module: nn.Module, adapter: Adapter, names: list[str]) -> None:
        super().__init__()
        self.module = module
        self.call = adapter.forward
        self.names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return the logits of the inputs with these fields."""
        given = dict(zip(self.names, tensors, strict=True))
        names = ("source", "source_lengths", "target_in", "target_out", "target_lengths")
        return self.call(self.module, Inputs(**{name: given.get(name) for name in names}))


@check("torch.export gives a graph with the same logits, for other batches of the shape too")
def check_export(subject: Subject) -> Finding:
    """Export with one batch; run the graph on it and on one with other content and lengths."""

    def tensors(of: Inputs) -> tuple[Tensor, ...]:
        return tuple(x for x in vars(of.cast(subject.dtype)).values() if x is not None)

    inputs = subject.inputs
    names = [name for name, x in vars(inputs).items() if x is not None]
    wrapped = _Exported(subject.module, subject.adapter, names).eval()
    logging.disable(logging.ERROR)  # a refusal is told once, as a finding, and not on the terminal
    try:
        with torch.no_grad(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            program = torch.export.export(wrapped, tensors(inputs), strict=False).module()
    except Exception as error:
        by_values = "DataDependent" in type(error).__name__
        why = "it decides by the values of its inputs, which a graph cannot" if by_values else one_line(error)
        raise NotExercised(f"torch.export refuses it: {why}") from error
    finally:
        logging.disable(logging.NOTSET)
    order = list(range(inputs.batch))[::-1]
    worst = 0.0
    for what, batch, expected in (
        ("", inputs, subject.logits),
        (" for a batch with other lengths", inputs.rows(order), subject.logits[order]),
    ):
        real = subject.real_rows(batch)
        try:
            with torch.no_grad():
                logits = program(*tensors(batch)).double()
        except Exception as error:
            return fail(f"the exported graph raises {one_line(error)}", cause="a value of the example was built in")
        size, _ = largest(logits, expected, real)
        if not size <= subject.tolerance:
            return judge(
                size,
                subject.tolerance,
                detail=f"the exported graph gives other logits{what}",
                cause="a number that depends on the batch became a constant: a length, a mask",
            )
        worst = max(worst, size)
    return judge(worst, subject.tolerance)
