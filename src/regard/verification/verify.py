"""Is this Transformer right? All checks on one module."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from regard.errors import InputError, nearest
from regard.verification.adapter import Adapter, Loss
from regard.verification.borrowing import borrowed
from regard.verification.checks import CHECKS
from regard.verification.checks.dependence import check_runs
from regard.verification.findings import DOCS, Check, Finding, check_name
from regard.verification.recognise import Kind, recognise
from regard.verification.report import Report


def verify(
    module: nn.Module,
    example_inputs: Tensor | Sequence[Tensor] | Mapping[str, Tensor] | None = None,
    *,
    adapter: Adapter | None = None,
    kind: Kind | None = None,
    pad: int | None = None,
    loss: Loss | None = None,
    rebuild: Callable[[], nn.Module] | None = None,
    checks: Iterable[str | Check] | None = None,
    seed: int = 0,
) -> Report:
    """Run every check on ``module`` and return what each found.

    The module is given back as it came: weights, modes, gradients and random states. Nothing is trained, nothing is
    written, and weights need not be trained: what is checked holds for any numbers.

    Args:
        module: Any Transformer: an encoder-decoder, a decoder or an encoder.
        example_inputs: What it can be called with, where that cannot be told from its signature and tables.
        adapter: How to call it, where it is of no known kind; then the next two are not asked.
        kind: What it is, where that cannot be told: a decoder alone must be causal, an encoder alone need not.
        pad: The id that it takes for padding; if nothing names one, checks of padding are not exercised.
        loss: (module, batch) to a loss, or to a sum and a count; the batch is as ``regard.protocols.Batch`` has it.
        rebuild: Makes a new module of the same kind, so that loading into a fresh one can be tried.
        checks: Names of checks, or checks, to run alone; a check of one's own is a function of a `Subject`.
        seed: Decides the batch and the noise put on the weights.

    Raises:
        InputError: it is not known how to call the module, or a check is unknown.

    ::

        report = regard.verify(model)
        print(report)
        report.raise_for_failures()
    """
    chosen = CHECKS if checks is None else tuple(_named(item) for item in checks)
    if adapter is None:
        adapter = recognise(module, example_inputs, kind=kind, pad=pad)
    adapter = replace(
        adapter,
        loss=loss if loss is not None else adapter.loss,
        rebuild=rebuild if rebuild is not None else adapter.rebuild,
    )
    began = time.perf_counter()
    with borrowed(module, adapter, seed=seed) as subject:
        if subject.runs:
            findings = tuple(check(subject) for check in chosen)
        else:
            idle = Finding(status="not exercised", detail="the module does not run, see `runs`")
            others = (check_name(check) for check in chosen if check is not check_runs)
            findings = (check_runs(subject), *(replace(idle, name=n, docs=f"{DOCS}#{n}") for n in others))
        precision = str(subject.dtype).removeprefix("torch.")
    return Report(type(module).__name__, adapter.described, precision, findings, time.perf_counter() - began)


def _named(item: str | Check) -> Check:
    if not isinstance(item, str):
        return item
    known = {check_name(check): check for check in CHECKS}
    if item not in known:
        raise InputError(f"there is no check {item!r}{nearest(item, known)}")
    return known[item]
