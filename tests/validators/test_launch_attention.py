"""Attention backends and KV storage against GPUs and releases.

What 0.5.23 makes of the launches here was compared with its own argument resolution, for pretended
GPUs; fa3 on Blackwell and the vision backend are refused later than that.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from launches import launch

from configurator.checkpoint import Checkpoint
from configurator.loader import Validators


def codes(
    validators: Validators, command: str, hardware: str | None = None, engine: str = "0.5.23"
) -> set[str]:
    """Codes of this module's rules that find something."""
    judged = launch(command, engine=engine, hardware=hardware)
    ours = ("HW105", "HW106", "HW107", "ENG303", "ENG304")
    return {code for code in ours if list(validators.rules[code].check(judged))}


@pytest.mark.parametrize(
    ("role", "backend", "hardware", "engine", "refused"),
    [
        ("attention", "fa3", "b200", "0.5.23", True),
        ("attention", "fa3", "hgx-b300", "0.5.5", True),
        ("attention", "fa3", "dgx-spark", "0.5.23", True),
        ("attention", "fa3", "rtx-pro-6000", "0.5.17", True),
        ("attention", "fa3", "h200", "0.5.23", False),
        ("decode-attention", "fa3", "b200", "0.5.23", True),
        ("attention", "trtllm_mla", "h200", "0.5.23", True),
        ("attention", "trtllm_mla", "b200", "0.5.23", False),
        ("attention", "trtllm_mla", "rtx-pro-6000", "0.5.23", False),
        ("attention", "cutedsl_mla", "rtx-pro-6000", "0.5.23", True),
        ("attention", "cutedsl_mla", "gb300-nvl72", "0.5.23", False),
        # Hopper came to decode with 0.5.10 and to prefill with 0.5.19.
        ("attention", "trtllm_mha", "h200", "0.5.9", True),
        ("decode-attention", "trtllm_mha", "h200", "0.5.9", True),
        ("decode-attention", "trtllm_mha", "h200", "0.5.10", False),
        ("attention", "trtllm_mha", "h200", "0.5.17", True),
        ("attention", "trtllm_mha", "h200", "0.5.19", False),
        ("attention", "flashinfer", "b200", "0.5.23", False),
        ("attention", "fa3", None, "0.5.23", False),
    ],
)
def test_backends_by_gpu_and_release(
    role: str, backend: str, hardware: str | None, engine: str, refused: bool,
    validators: Validators,
) -> None:  # fmt: skip
    command = f"--model-path m --{role}-backend {backend}"
    assert ("HW105" in codes(validators, command, hardware, engine)) is refused


@pytest.mark.parametrize(
    ("hardware", "refused"),
    [("b200", True), ("rtx-pro-6000", True), ("h200", False), (None, False)],
)
def test_the_vision_backend_is_one_of_its_own(
    hardware: str | None, refused: bool, validators: Validators
) -> None:
    command = "--model-path m --attention-backend flashinfer --mm-attention-backend fa3"
    assert ("HW106" in codes(validators, command, hardware)) is refused


@pytest.mark.parametrize(
    ("stored", "hardware", "engine", "refused"),
    [
        ("nvfp4", "h200", "0.5.17", True),
        ("mxfp8", "h200", "0.5.23", True),
        ("nvfp4", "rtx-pro-6000", "0.5.23", False),
        ("fp8_e4m3", "h200", "0.5.23", False),
        ("nvfp4", None, "0.5.23", False),
    ],
)
def test_kv_storage_by_gpu(
    stored: str, hardware: str | None, engine: str, refused: bool, validators: Validators
) -> None:
    command = f"--model-path m --kv-cache-dtype {stored}"
    assert ("HW107" in codes(validators, command, hardware, engine)) is refused


@pytest.mark.parametrize("engine", ["0.5.5", "0.5.17", "0.5.23"])
def test_fa3_with_the_other_fp8(engine: str, validators: Validators) -> None:
    command = "--model-path m --attention-backend fa3 --kv-cache-dtype fp8_e5m2"
    assert codes(validators, command, "h200", engine) == {"ENG303"}
    assert codes(validators, command.replace("fa3", "triton"), "h200", engine) == set()


def test_fa3_with_the_other_fp8_before_the_engine_looked(validators: Validators) -> None:
    command = "--model-path m --attention-backend fa3 --kv-cache-dtype fp8_e5m2"
    assert "ENG303" not in codes(validators, command, "h200", "0.5.4")


@pytest.mark.parametrize(
    ("options", "hardware", "engine", "becomes"),
    [
        ("--attention-backend trtllm_mha --page-size 1", "b200", "0.5.23", 64),
        ("--attention-backend trtllm_mha --page-size 128", "b200", "0.5.16", 64),
        ("--attention-backend trtllm_mha --page-size 128", "b200", "0.5.17", None),
        ("--attention-backend trtllm_mha --page-size 16", "b200", "0.5.23", None),
        ("--attention-backend trtllm_mla --page-size 16", "b200", "0.5.23", 64),
        ("--attention-backend flashmla --page-size 32", "h200", "0.5.9", 64),
        ("--prefill-attention-backend trtllm_mha --page-size 1", "b200", "0.5.23", 64),
        ("--prefill-attention-backend flashmla --page-size 1", "h200", "0.5.23", None),
        ("--decode-attention-backend flashmla --page-size 1", "h200", "0.5.23", 64),
        ("--attention-backend fa4 --page-size 64", "gb300-nvl72", "0.5.17", 128),
        ("--prefill-attention-backend fa4 --page-size 64", "b200", "0.5.23", 128),
        ("--attention-backend fa4 --page-size 64", "h200", "0.5.23", None),
        ("--attention-backend fa4 --page-size 128", "b200", "0.5.23", None),
        ("--attention-backend fa4 --page-size 1 --speculative-eagle-topk 4", "b200", "0.5.23",
         None),
        ("--attention-backend triton --page-size 1", "b200", "0.5.23", None),
        ("--attention-backend trtllm_mha", "b200", "0.5.23", None),
    ],
)  # fmt: skip
def test_page_sizes_that_are_replaced(
    options: str, hardware: str, engine: str, becomes: int | None, validators: Validators
) -> None:
    judged = launch(f"--model-path m {options}", engine=engine, hardware=hardware)
    findings = list(validators.rules["ENG304"].check(judged))
    assert [f"becomes {becomes}:" in finding.message for finding in findings] == (
        [True] if becomes else []
    )


def test_fa4_keeps_the_page_size_of_latent_attention(validators: Validators) -> None:
    target = Checkpoint(Path("m"), {"kv_lora_rank": 512, "num_attention_heads": 128})
    command = "--model-path m --attention-backend fa4 --page-size 64"
    judged = launch(command, hardware="b200", checkpoint=target)
    assert list(validators.rules["ENG304"].check(judged)) == []
