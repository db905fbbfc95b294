"""The shipped self-tests, and spoilt ones, with a real torch on a CPU.

CONFIGURATOR_ENGINE_PYTHON names its Python.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kerneltests.programs import content
from tools import need_engine

from configurator.content import Library
from configurator.kerneltests.choosing import choose
from configurator.kerneltests.model import Check, Result
from configurator.kerneltests.running import run_selftest
from configurator.signals import Stop

USING_THE_KIT = """
from selftest_kit import *
from selftest_kit import torch

def run(report):
    wanted = torch.arange(1.0, 65)
    out = poisoned(64, dtype=torch.bfloat16, device="cpu")
    {kernel}
    why = why_wrong(out, error_of(out, wanted), 0.01)
    report.check("numbers", "wrong" if why else "ok", why)

if __name__ == "__main__":
    main(run)
"""
"""A self-test of one's own."""


def ran(name: str, *directories: Path) -> Result:
    (chosen,) = choose(Library(directories), [name])
    return run_selftest(chosen, str(need_engine()), Stop(), 120)


def checks(result: Result) -> dict[str, Check]:
    return {check.name: check for check in result.checks}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one, it is not shown."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.parametrize("name", ["host-ceilings", "decode-cuda-graphs", "all-reduce"])
def test_what_needs_a_gpu_is_not_run_and_says_so(name: str) -> None:
    result = ran(name)
    assert result.verdict == "not_run"
    assert result.reason.startswith("no GPU: torch ")
    assert result.figures == ()


def test_the_numbers_of_an_fp8_head_are_tried_without_a_gpu() -> None:
    result = ran("fp8-lm-head")
    found = checks(result)
    assert result.verdict == "not_run"
    assert result.reason == "speed: no GPU: only the numbers of a small head were tried"
    for kind, least, most in (
        ("bf16", 0.0005, 0.005),
        ("per-tensor", 0.02, 0.05),
        ("per-row", 0.02, 0.05),
    ):
        check = found[f"{kind} 8192x1024"]
        assert check.verdict == "ok"
        errors = check.facts["relative_error"]
        assert set(errors) == {"1", "2", "4", "8", "16"}
        assert all(least < error < most for error in errors.values())
        assert check.facts["top1_agreement_clear"] == 1.0
        assert 0.9 <= check.facts["top1_agreement"] <= 1.0
        assert 40 <= check.facts["clear"] < check.facts["tokens"] == 64
    assert result.figures == ()


def test_the_numbers_of_an_moe_layer_are_tried_without_a_gpu() -> None:
    result = ran("moe-reads")
    assert result.verdict == "not_run"
    assert checks(result)["16 experts of 64x128, top 4"].verdict == "ok"


def test_packages_of_a_real_environment() -> None:
    found = checks(ran("engine-packages"))
    assert found["triton"].facts["version"]
    assert found["humming-kernels"].facts["state"] == "missing"
    assert found["humming-kernels"].reason.startswith(
        "not installed; pip install humming-kernels=="
    )
    assert found["torch"].verdict == "not_run"
    assert "built for CPUs" in found["torch"].reason


def test_a_package_that_a_named_kernel_needs_must_be_there() -> None:
    chosen = choose(Library(), ["humming-mxfp4-moe"])[0]
    assert chosen.name == "engine-packages"
    result = run_selftest(chosen, str(need_engine()), Stop(), 120)
    assert result.verdict == "wrong"
    assert result.reason.startswith("humming-kernels: not installed")


@pytest.mark.parametrize(
    ("name", "right", "spoilt", "said"),
    [
        # A scale that is off by a tenth.
        (
            "fp8-lm-head",
            "float8_e4m3fn), scale)",
            "float8_e4m3fn), scale * 1.1)",
            "relative error ",
        ),
        # A head whose output goes elsewhere.
        ("fp8-lm-head", "out_dtype=out.dtype, out=out", "out_dtype=out.dtype", "never written"),
        # Experts summed without the router's scores.
        ("moe-reads", "pieces * scores", "pieces", "relative error "),
        # Rows that stay where they were sorted to.
        ("moe-reads", "out[order] =", "out[:] =", "relative error "),
    ],
)
def test_a_spoilt_kernel_is_wrong(
    tmp_path: Path, name: str, right: str, spoilt: str, said: str
) -> None:
    stem = name.replace("-", "_")
    text = Library().selftests()[name].read_text(encoding="utf-8")
    assert right in text
    result = ran(name, content(tmp_path, **{stem: text.replace(right, spoilt)}))
    assert result.verdict == "wrong"
    assert said in result.reason


@pytest.mark.parametrize(
    ("kernel", "verdict", "said"),
    [
        ("out.copy_(wanted)", "ok", ""),
        ("pass", "wrong", "numbers: 64 of 64 values were never written, or are not numbers"),
        ("out[:60].copy_(wanted[:60])", "wrong", "numbers: 4 of 64 values were never written"),
        ("out.copy_(wanted * 1.05)", "wrong", "numbers: relative error 0.0497 is above"),
        ("out.zero_()", "wrong", "numbers: relative error 1 is above 0.01"),
        ("raise NotRunError('no such unit')", "not_run", "no such unit"),
        ("torch.mm(out, out)", "wrong", "RuntimeError: "),
        ("raise torch.cuda.OutOfMemoryError('24 GiB')", "not_run", "GPU memory is full: 24 GiB"),
        ("out.zero_(); wanted.zero_()", "wrong", "ValueError: a reference of zeros tells nothing"),
    ],
)
def test_kernels_of_every_kind(tmp_path: Path, kernel: str, verdict: str, said: str) -> None:
    result = ran("mine", content(tmp_path, mine=USING_THE_KIT.replace("{kernel}", kernel)))
    assert result.verdict == verdict
    assert result.reason.startswith(said)
