"""What validation says about every shipped deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from configurator.content import Library
from configurator.loader import Validators
from configurator.validate import Diagnostic, Validation, validate

# A checkout may hold further deployments of other people's; these are pinned.
GOOD = (
    "ling-3.0-flash-spark",
    "ling-3.0-flash-spark-baseline",
    "ling-3.0-flash-spark-dspark",
    "ling-3.0-flash-spark-plugin",
    "muse-spark-open-gb300x8",
    "muse-spark-open-gb300x8-tp8",
)
REFUSED = ("ling-3.0-flash-spark-upstream", "muse-spark-open-paper")


@pytest.fixture
def result(request: pytest.FixtureRequest, library: Library, validators: Validators) -> Validation:
    """The validation of the deployment that the test is parametrized with."""
    return validate(request.param, library, validators)


def of(result: Validation, code: str) -> Diagnostic:
    """The only finding of one code."""
    (finding,) = [finding for finding in result.findings if finding.code == code]
    return finding


def test_every_shipped_deployment_is_pinned(library: Library) -> None:
    assert set(library.names("deployment")) == {*GOOD, *REFUSED}


@pytest.mark.parametrize("result", GOOD, indirect=True)
def test_good_deployments_have_neither_errors_nor_warnings(result: Validation) -> None:
    assert [f for f in result.findings if f.severity != "info"] == []
    assert result.exit_code("warning") == 0
    assert result.deployment is not None


@pytest.mark.parametrize("name", [*GOOD, *REFUSED])
def test_findings_are_as_reviewed(
    name: str,
    library: Library,
    validators: Validators,
    golden: Callable[[str, Any], None],
) -> None:
    findings = validate(name, library, validators).findings
    golden(
        f"findings/{name}.json",
        [
            {"code": f.code, "severity": f.severity, "path": f.path, "message": f.message}
            for f in findings
        ],
    )


@pytest.mark.parametrize("result", ["muse-spark-open-paper"], indirect=True)
def test_the_published_muse_setting_is_refused_with_every_reason(result: Validation) -> None:
    errors = {finding.code for finding in result.findings if finding.severity == "error"}
    assert errors == {
        "MEGA103", "MEGA104", "MEGA106", "MEGA110", "REF110", "SPEC104", "SPEC105",
    }  # fmt: skip
    assert result.exit_code() == 1
    assert "tensor 8 is not in the table of nvidia-megakernel" in of(result, "MEGA103").message
    for code in ("MEGA103", "MEGA104", "MEGA106", "REF110"):
        assert "muse-spark-open-gb300x8" in of(result, code).remedy
    assert "sgl-muse-mega" in of(result, "MEGA103").remedy
    assert "--nnodes 2" in of(result, "MEGA104").message
    assert "not draft" in of(result, "MEGA106").message
    assert "is not public" in of(result, "SPEC105").message
    assert "verifies a chain" in of(result, "SPEC104").message
    claim = of(result, "CLM101").message
    for part in ("1,109 tok/s", "517", "batch size: 1", "tensor: 8", "one request: GSM8K",
                 "median of 20 decode steps", "not stated: hosts, sampling, engine",
                 "not reproduced", "not scaled"):  # fmt: skip
        assert part in claim


@pytest.mark.parametrize("result", ["ling-3.0-flash-spark-upstream"], indirect=True)
def test_the_release_is_refused_for_the_fp8_head(result: Validation) -> None:
    errors = [finding for finding in result.findings if finding.severity == "error"]
    assert {finding.code for finding in errors} >= {"HEAD102", "HEAD103", "HEAD104"}
    assert "declared by no released SGLang" in of(result, "HEAD102").message
    assert "leaves the LM head BF16" in of(result, "HEAD103").message
    for part in ("one DGX Spark", "24.0 tok/s on a workload that is not stated", "37.81 on GSM8K"):
        assert part in of(result, "HEAD104").message
    for code in ("HEAD102", "HEAD103"):
        assert "ling-v3-mxfp4-humming" in of(result, code).remedy
    for code in ("HEAD102", "HEAD103", "HEAD104"):
        assert "'fp8-lm-head: {provider: configurator}'" in of(result, code).remedy
    assert "814d2d16" in of(result, "HEAD104").remedy


@pytest.mark.parametrize("result", ["ling-3.0-flash-spark"], indirect=True)
def test_what_is_not_public_is_said_and_left_to_the_check(result: Validation) -> None:
    assert of(result, "HEAD105").severity == "info"
    assert "lm-head-shared decides it" in of(result, "HEAD105").message
