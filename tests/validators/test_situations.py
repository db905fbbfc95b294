"""Whole mistakes as people make them: which findings come out together, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.loader import Validators
from configurator.validate import Validation, validate

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: example\n"

SITUATIONS = {
    "megakernel on B300, which is sm_103 too": (
        "extends: muse-spark-open-gb300x8\nhardware: {name: hgx-b300, gpus: 8}\n",
        {"MEGA102"},
    ),
    "megakernel on a DGX Spark": (
        "extends: muse-spark-open-gb300x8\nhardware: {name: dgx-spark, gpus: 8}\n",
        {"MEGA102", "REF101", "MEGA104", "MEM101", "MEM103", "MEM104", "HW104"},
    ),
    "megakernel with the expert parallelism of another recipe": (
        "extends: muse-spark-open-gb300x8\ntopology: {expert: 4}\n",
        {"MEGA105"},
    ),
    "megakernel on a release that lacks the flag": (
        "extends: muse-spark-open-gb300x8\nengine: {build: sglang-0.5.17}\n",
        {"REF105"},
    ),
    "more requests than the captured steps": (
        "extends: muse-spark-open-gb300x8\nworkload: {concurrency: 16}\n",
        {"MEGA109"},
    ),
    "one instance over two trays with the fabric switched off": (
        "extends: muse-spark-open-gb300x8-tp8\nextra: {env: {NCCL_MNNVL_ENABLE: 0}}\n",
        {"NET103"},
    ),
    "replicas on loopback behind a router": (
        "extends: muse-spark-open-gb300x8\nserving: {host: 127.0.0.1}\n",
        {"NET101"},
    ),
    "both heads": (
        "extends: ling-3.0-flash-spark\noptimizations: {fp32-lm-head: {}}\n",
        {"HEAD101"},
    ),
    "both MoE runners": (
        "extends: ling-3.0-flash-spark\noptimizations: {flashinfer-mxfp4-moe: {}}\n",
        {"REF111"},
    ),
    "four Sparks without expert parallelism": (
        "extends: ling-3.0-flash-spark\nhardware: {gpus: 4}\ntopology: {tensor: 4}\n",
        {"PAR107", "HW104"},
    ),
    "the notebook with its mistakes": (
        "extends: ling-3.0-flash-spark\n"
        "serving: {host: 0.0.0.0, api_key: null}\n"
        "extra:\n"
        "  args:\n"
        "    reasoning-parser: deepseek-r1\n"
        "    tool-call-parser: qwen25\n"
        "    api-key: sk-example\n"
        '    json-model-override-args: \'{"rope_scaling": {"rope_type": "yarn"}}\'\n'
        "  env: {SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN: 1}\n",
        {"REF115", "SEC101", "CTX102"},
    ),
    "the cookbook's memory fraction": (
        "extends: ling-3.0-flash-spark-dspark\nmemory: {mem_fraction_static: 0.85}\n",
        {"MEM101"},
    ),
    "DSPARK with the default replay cache": (
        "extends: ling-3.0-flash-spark-dspark\nextra: {args: {linear-replayssm-cache-len: null}}\n",
        {"SPEC110"},
    ),
    "a window that the engine would adjust": (
        "extends: ling-3.0-flash-spark\noptimizations: {nextn-mtp: {draft_tokens: 8}}\n",
        {"SPEC101"},
    ),
    "faked acceptance": (
        "extends: ling-3.0-flash-spark\nextra: {env: {SGLANG_SIMULATE_ACC_LEN: 3}}\n",
        {"SPEC115"},
    ),
    "an open port without a key": (
        "extends: ling-3.0-flash-spark\nserving: {host: '::', api_key: null}\n",
        {"SEC102"},
    ),
}


def judged(text: str, tmp_path: Path, library: Library, validators: Validators) -> Validation:
    path = tmp_path / "profile.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return validate(str(path), library, validators)


@pytest.mark.parametrize("name", SITUATIONS)
def test_errors_and_warnings_together(
    name: str, tmp_path: Path, library: Library, validators: Validators
) -> None:
    text, expected = SITUATIONS[name]
    result = judged(text, tmp_path, library, validators)
    assert not result.unusable, result.findings
    # What is said of engine flags and variables has tests of its own.
    found = {
        finding.code
        for finding in result.findings
        if finding.severity != "info" and not finding.code.startswith(("ENG", "ENV"))
    }
    assert found == expected


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("extends: ling-3.0-flash-spark\noptimizations:\n  nextn-mtp:\n    draft_tokens: 8\n",
         "SPEC101", 7),
        ("extends: ling-3.0-flash-spark\nextra:\n  args:\n    tool-call-parser: qwen25\n",
         "REF115", 7),
        ("extends: muse-spark-open-gb300x8\ntopology:\n  expert: 4\n", "MEGA105", 6),
        ("extends: muse-spark-open-gb300x8\n\n\nclaims: [a]\n", "CLM102", 7),
    ],
)  # fmt: skip
def test_findings_point_at_the_line_that_causes_them(
    text: str, code: str, line: int, tmp_path: Path, library: Library, validators: Validators
) -> None:
    result = judged(text, tmp_path, library, validators)
    (position,) = {finding.position for finding in result.findings if finding.code == code}
    assert position is not None
    assert (Path(position.file).name, position.line) == ("profile.yaml", line)
