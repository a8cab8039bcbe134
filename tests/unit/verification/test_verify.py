from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.verification import (
    CHECKS,
    Adapter,
    Finding,
    NotExercised,
    Subject,
    Tokens,
    VerificationError,
    check,
    judge,
    parametrize_with_checks,
    verify,
)
from regard.verification.findings import DOCS, check_name

V = 23


class Bag(nn.Module):
    """A decoder without attention: each position sees its own token. Small, and right in all that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V, 7, padding_idx=0)
        self.norm = nn.LayerNorm(7)
        self.head = nn.Linear(7, V)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.table(ids)))


class Leaky(Bag):
    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        return self.head(self.norm(x + x.flip(1) * 0.3))


FEW = ("runs", "future_leak", "future_gradient", "target_padding", "save_load", "gradients")


def test_a_right_module_passes_and_a_wrong_one_is_named_with_size_place_and_cause() -> None:
    assert [finding.status for finding in verify(Bag(), kind="decoder", checks=FEW).findings] == ["passed"] * len(FEW)
    leak = verify(Leaky(), kind="decoder", checks=FEW)["future_leak"]
    assert leak.status == "failed"
    assert leak.size is not None and leak.tolerance is not None and leak.size > 1000 * leak.tolerance
    assert "position" in leak.where and leak.cause and leak.docs == f"{DOCS}#future_leak"


def test_the_module_comes_back_as_it_was() -> None:
    torch.manual_seed(3)
    model = Bag()
    model.register_buffer("count", torch.tensor([1.0, 2.0]))
    model.norm.eval()
    model(torch.ones(1, 2, dtype=torch.int64)).sum().backward()
    parameters = list(model.parameters())
    before = [(p.data_ptr(), p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in parameters]
    modes = [part.training for part in model.modules()]
    attributes = [sorted(vars(part)) for part in model.modules()]
    state = torch.get_rng_state()

    report = verify(model, kind="decoder")

    assert report.precision == "float64"
    assert [part.training for part in model.modules()] == modes
    assert [sorted(vars(part)) for part in model.modules()] == attributes
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    for p, (pointer, values, grad) in zip(parameters, before, strict=True):
        assert p.data_ptr() == pointer and torch.equal(p, values)
        assert (p.grad is None) == (grad is None) and (grad is None or torch.equal(p.grad, grad))
    assert model.count.dtype == torch.float32 and model.count.tolist() == [1.0, 2.0]
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_module_that_raises_fails_one_check_and_leaves_the_others_unexercised() -> None:
    class Broken(Bag):
        def forward(self, ids: Tensor) -> Tensor:
            raise RuntimeError("no")

    report = verify(Broken(), kind="decoder")
    assert [finding.name for finding in report.failed] == ["runs"]
    assert "RuntimeError: no" in report.failed[0].detail
    assert not report.passed and len(report.not_exercised) == len(CHECKS) - 1
    assert all(finding.detail for finding in report.not_exercised)


def test_a_module_that_only_takes_equal_lengths_is_told_so_and_checked_with_those() -> None:
    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.head = nn.Embedding(V, 5), nn.Embedding(V, 5), nn.Linear(5, V)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            return self.head(self.a(source) + self.b(target))

    report = verify(Crossed(), checks=("runs", "future_leak"))
    assert report["runs"].status == "failed" and "one side" in report["runs"].cause
    assert report["future_leak"].status == "passed"


def test_what_was_not_run_is_never_a_pass() -> None:
    report = verify(
        Bag(), kind="decoder", checks=("cache_equals_full", "label_shift", "attention_rows", "source_padding")
    )
    assert {finding.status for finding in report.findings} == {"not exercised"}
    assert all(finding.detail for finding in report.findings)


def test_an_error_inside_a_check_is_an_answer_and_no_traceback() -> None:
    @check("It cannot be told")
    def check_confused(subject: Subject) -> Finding:
        raise KeyError("lost")

    (finding,) = verify(Bag(), kind="decoder", checks=[check_confused]).findings
    assert (finding.name, finding.status) == ("confused", "not exercised")
    assert "KeyError" in finding.detail


def test_a_check_of_ones_own() -> None:
    @check("The vocabulary is small")
    def check_small(subject: Subject) -> Finding:
        """Count it."""
        if not isinstance(subject.adapter.target, Tokens):
            raise NotExercised("no vocabulary")
        return judge(subject.adapter.target.size, 10, cause="too many words")

    (finding,) = verify(Bag(), kind="decoder", checks=[check_small]).findings
    assert (finding.status, finding.size, finding.cause) == ("failed", V, "too many words")


def test_report_as_text_as_json_and_as_an_error() -> None:
    report = verify(Leaky(), kind="decoder", checks=FEW)
    text = str(report)
    assert "FAIL  future_leak" in text and "start with future_leak" in text
    data = json.loads(json.dumps(report.to_json()))
    assert data["failed"] == len(report.failed) > 0
    assert [finding["name"] for finding in data["findings"]] == list(FEW)
    with pytest.raises(VerificationError, match="future_leak"):
        report.raise_for_failures()
    verify(Bag(), kind="decoder", checks=FEW).raise_for_failures()


def test_numbers_that_json_does_not_have_become_words() -> None:
    assert Finding(size=float("inf"), tolerance=0.5).to_json()["size"] == "inf"
    assert judge(float("nan"), 1.0).status == "failed"


def test_names_of_checks() -> None:
    names = [check_name(item) for item in CHECKS]
    assert len(set(names)) == len(names)
    assert all(item.__doc__ for item in CHECKS)
    with pytest.raises(InputError, match="did you mean 'future_leak'"):
        verify(Bag(), kind="decoder", checks=["future_leaks"])


def test_the_same_seed_gives_the_same_report() -> None:
    torch.manual_seed(5)
    model = Leaky()
    first, second = (verify(model, kind="decoder", checks=FEW).findings for _ in range(2))
    assert first == second


def test_a_module_patched_with_a_closure_is_verified_on_its_own_weights() -> None:
    """As a copy, the closure would run on the weights of the original, which the check did not change."""
    model = Bag()
    inner = model.forward
    model.forward = lambda ids: inner(ids) * 1.0
    report = verify(model, kind="decoder", checks=("gradients", "save_load"), adapter=None)
    assert [finding.status for finding in report.findings] == ["passed", "passed"]


@parametrize_with_checks([Bag], checks=[c for c in CHECKS if check_name(c) in FEW], kind="decoder")
def test_bag(check: Any) -> None:
    check()


def test_a_failed_check_fails_its_test() -> None:
    mark = parametrize_with_checks(
        [Leaky], checks=[c for c in CHECKS if check_name(c) == "future_leak"], kind="decoder"
    )
    ((run,),) = [parameter.values for parameter in mark.args[1]]
    assert mark.args[1][0].id == "Leaky-future_leak"
    with pytest.raises(VerificationError):
        run()


def test_an_adapter_says_how_a_module_of_no_known_kind_is_called() -> None:
    class Odd(Bag):
        def forward(self, options: dict[str, Any], first: Tensor, second: Tensor) -> Tensor:
            return super().forward(options["ids"])

    with pytest.raises(InputError, match=r"Adapter\("):
        verify(Odd())
    adapter = Adapter(
        forward=lambda model, x: model({"ids": x.target_in}, x.target_in, x.target_in),
        target=Tokens(V, pad=0),
        padding="ids",
    )
    assert not verify(Odd(), adapter=adapter, checks=FEW).failed
