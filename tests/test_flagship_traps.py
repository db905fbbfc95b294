"""The traps of the two flagships, each by a profile or a command that falls into it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.lint import Around, engine_named, lint
from configurator.loader import Validators
from configurator.readers.files import read_text
from configurator.render.bash import render
from configurator.resolve import resolve
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.source import parse_source
from configurator.validate import Diagnostic, validate

# As published, with its three mistakes: parsers, a rope override and a key in clear.
NOTEBOOK = """\
SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 SGLANG_ENABLE_FP8_LM_HEAD=1 HUMMING_COMPILER=nvrtc \\
python3 -m sglang.launch_server --model-path /models/Ling-3.0-flash-fp4 --tp-size 1 \\
--api-key sk-example --context-length 262144 --reasoning-parser deepseek-r1 \\
--tool-call-parser qwen25 --mem-fraction-static 0.68 --moe-runner-backend humming \\
--speculative-algorithm NEXTN --speculative-draft-model-path /models/Ling-3.0-flash-fp4 \\
--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 \\
--json-model-override-args '{"max_position_embeddings":262144,"rope_scaling":{"factor":2.0}}'
"""
MUSE = "sglang serve --model-path meta-models/Muse-Spark-Open-816B-A42B-NVFP4 --tp-size 4 "


def found(text: str, library: Library, validators: Validators) -> list[Diagnostic]:
    """What lint finds in a script for 0.5.23."""
    reading = read_text(text, "launch.sh")
    around = Around(engine_named("0.5.23", library))
    linted = lint(reading, text, around, library, validators.rules.values())
    return [finding for command in linted.commands for finding in command.findings]


def judged(
    profile: str, library: Library, validators: Validators, folder: Path
) -> dict[str, Diagnostic]:
    """The findings of a profile by code; where there are several of one, the last."""
    path = folder / "trap.yaml"
    head = "apiVersion: configurator/v1\nkind: Deployment\nname: trap\n"
    path.write_text(head + profile, encoding="utf-8")
    return {f.code: f for f in validate(str(path), library, validators).findings}


def test_the_mistakes_of_the_published_notebook_are_found(
    library: Library, validators: Validators
) -> None:
    findings = found(NOTEBOOK, library, validators)
    codes = [f.code for f in findings if f.severity != "info"]
    assert sorted(codes) == ["CTX102", "CTX102", "ENV101", "REF115", "REF115", "SEC104"]
    parsers = [f for f in findings if f.code == "REF115"]
    assert {f.remedy for f in parsers} == {"set it to ling3"}
    assert "the output of ling-3.0-flash-fp4 is read by ling3" in parsers[0].message


def test_a_rope_override_without_a_length_may_be_what_makes_it_longer(
    library: Library, validators: Validators
) -> None:
    text = NOTEBOOK.replace("--context-length 262144 ", "")
    paths = [f.message for f in found(text, library, validators) if f.code == "CTX102"]
    assert paths == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000", "several hosts (--nnodes 2)"),
        ("--ep-size 4", "expert parallelism (--ep-size 4)"),
        ("--attn-dp-size 4", "data parallel attention (--attn-dp-size 4)"),
        ("--dp-size 4 --enable-dp-attention", "data parallel attention (--dp-size 4)"),
        ("--disaggregation-mode decode", "disaggregation (--disaggregation-mode decode)"),
        ("--enable-hierarchical-cache", "HiCache (--enable-hierarchical-cache)"),
        ("--enable-lora", "LoRA (--enable-lora)"),
        ("--enable-torch-compile", "torch.compile (--enable-torch-compile)"),
        ("--enable-memory-saver", "the memory saver (--enable-memory-saver)"),
        ("--enable-return-indexer-topk", "the indexer's choice (--enable-return-indexer-topk)"),
        ("--offload-group-size 2", "CPU offload (--offload-group-size 2)"),
    ],
)
def test_what_the_megakernel_refuses_is_found_in_commands(
    options: str, says: str, library: Library, validators: Validators
) -> None:
    findings = found(f"{MUSE}--enable-nvidia-megakernel {options}\n", library, validators)
    (finding,) = [f for f in findings if f.code == "MEGA108"]
    assert says in finding.message
    assert finding.remedy.endswith("or --enable-nvidia-megakernel")
    without = found(f"{MUSE}{options}\n", library, validators)
    assert "MEGA108" not in {f.code for f in without}


@pytest.mark.parametrize(
    "options", ["", "--ep-size 1 --cpu-offload-gb 0 --disaggregation-mode null --dp-size 1"]
)
def test_what_is_off_is_not_refused(options: str, library: Library, validators: Validators) -> None:
    findings = found(f"{MUSE}--enable-nvidia-megakernel {options}\n", library, validators)
    assert [f for f in findings if f.code == "MEGA108"] == []


def test_expert_parallelism_of_a_model_that_is_not_known_is_not_refused(
    library: Library, validators: Validators
) -> None:
    text = "sglang serve --model-path m --tp-size 8 --ep-size 2 --enable-nvidia-megakernel\n"
    assert "MEGA108" not in {f.code for f in found(text, library, validators)}


@pytest.mark.parametrize(
    ("profile", "code", "says"),
    [
        (
            "extends: muse-spark-open-gb300x8\nextra: {env: {SGLANG_RAGGED_VERIFY_MODE: compact}}",
            "MEGA108", "SGLANG_RAGGED_VERIFY_MODE=compact",
        ),
        (
            "extends: muse-spark-open-gb300x8\nextra: {args: {watchdog-timeout: 9.9}}",
            "MEGA113", "below 5 s it is refused",
        ),
        (
            "extends: muse-spark-open-gb300x8\nhardware: {overrides: {sms: 143}}",
            "MEGA114", "runs on 144 multiprocessors at once; gb300-nvl72 has 143",
        ),
        (
            "extends: ling-3.0-flash-spark\nextra: {env: {SGLANG_DSV4_FP4_DEQUANT: 1}}",
            "MOE114", "turns MXFP4 experts to FP8",
        ),
        (
            "extends: ling-3.0-flash-spark\nextra: {env: {FLASHINFER_DISABLE_VERSION_CHECK: 1}}",
            "ENV108", "hides a flashinfer-cubin",
        ),
        (
            "extends: ling-3.0-flash-spark-dspark\n"
            "extra: {args: {enable-linear-replayssm-spec: null}}",
            "SPEC130", "--enable-linear-replayssm-spec only",
        ),
        (
            "extends: ling-3.0-flash-spark",
            "REF117", "ling-v3-mxfp4-humming does not mend that",
        ),
        (
            "extends: ling-3.0-flash-spark-plugin",
            "REF117", "it is not known whether sglang-0.5.23 mends that",
        ),
    ],
)  # fmt: skip
def test_traps_of_profiles(
    profile: str, code: str, says: str, library: Library, validators: Validators, tmp_path: Path
) -> None:
    finding = judged(profile, library, validators, tmp_path)[code]
    assert says in finding.message
    assert finding.remedy


@pytest.mark.parametrize(
    ("profile", "code"),
    [
        ("extends: muse-spark-open-gb300x8\nextra: {args: {watchdog-timeout: 10}}", "MEGA113"),
        ("extends: muse-spark-open-gb300x8\nhardware: {overrides: {sms: 144}}", "MEGA114"),
        ("extends: ling-3.0-flash-spark\nextra: {env: {SGLANG_DSV4_FP4_DEQUANT: 0}}", "MOE114"),
        ("extends: ling-3.0-flash-spark\nhardware: {name: h200}", "REF117"),
    ],
)
def test_what_is_right_is_not_found(
    profile: str, code: str, library: Library, validators: Validators, tmp_path: Path
) -> None:
    assert code not in judged(profile, library, validators, tmp_path)


def test_the_patched_build_shares_the_module_and_needs_the_fallback(
    library: Library, validators: Validators, tmp_path: Path
) -> None:
    profile = "extends: ling-3.0-flash-spark\nengine: {build: ling-v3-814d2d16-patched}\n"
    findings = judged(profile, library, validators, tmp_path)
    assert {c for c, f in findings.items() if f.severity != "info"} == set()
    assert not {c for c in findings if c.startswith("HEAD")}
    assert "Not Supported" in findings["REF117"].message
    assert "return 273.0" in findings["REF117"].remedy


def rendered(name: str, library: Library) -> dict[str, str]:
    layers = library.extend(
        parse_source(
            f"apiVersion: configurator/v1\nkind: Deployment\nname: r\nextends: {name}\n", "r.yaml"
        )
    )
    deployment = resolve(parse(Profile, layers.data, layers.locate), layers, library)
    return {file.path: file.text for file in render(deployment)}


def test_what_is_changed_by_hand_stands_in_start(library: Library) -> None:
    start = rendered("ling-3.0-flash-spark", library)["START.md"]
    assert "let humming/utils/device.py return 273.0 there" in start
    assert "get_parallel().config.enable_dp_lm_head" in start
    assert "return 273.0" not in rendered("ling-3.0-flash-spark-baseline", library)["START.md"]


def test_scripts_look_for_partitions_and_imex_where_they_matter(library: Library) -> None:
    two = rendered("muse-spark-open-gb300x8", library)["replica0-host0.sh"]
    one = rendered("muse-spark-open-gb300x8-tp8", library)["replica0-host0.sh"]
    ling = rendered("ling-3.0-flash-spark", library)["replica0-host0.sh"]
    assert "mig.mode.current" in two
    assert "nvidia-imex-ctl -H -N" not in two
    assert "mig.mode.current" not in one
    assert "said=$(nvidia-imex-ctl -H -N 2>&1)" in one
    assert "mig.mode.current" not in ling
    assert "imex" not in ling


def preflight(folder: Path, script: str, skip: str, said: dict[str, str]) -> tuple[int, str]:
    """Preflight of a rendered script, where the vendor's programs say what the test wants."""
    programs = folder / "programs"
    programs.mkdir()
    for name, text in {
        "nvidia-smi": f"case $* in *mig*) echo '{said.get('mig', '')}';; "
        "*) for i in 1 2 3 4; do echo 'NVIDIA GB300'; done;; esac",
        "nvidia-imex-ctl": f"echo '{said.get('imex', '')}'",
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}", "CONFIGURATOR_PREFLIGHT": "only",
        "CONFIGURATOR_SKIP": skip, "MUSE_API_KEY": "key", "REPLICA0_HOST0_ADDR": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", folder / script], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "script", "said", "code", "says"),
    [
        ("muse-spark-open-gb300x8", "replica0-host0.sh", {"mig": "Enabled"}, 1, "partitioned"),
        ("muse-spark-open-gb300x8", "replica0-host0.sh", {"mig": "Disabled"}, 0, "gpu: 4 x"),
        ("muse-spark-open-gb300x8", "replica0-host0.sh", {"mig": "[N/A]"}, 0, "gpu: 4 x"),
        (
            "muse-spark-open-gb300x8-tp8", "replica0-host1.sh",
            {"imex": "Domain State: DEGRADED"}, 1, "IMEX says 'Domain State: DEGRADED'",
        ),
        (
            "muse-spark-open-gb300x8-tp8", "replica0-host1.sh",
            {"imex": "Domain State: UP"}, 0, "preflight imex: Domain State: UP",
        ),
        # Of another version of the program: nothing is known, so nothing is refused.
        (
            "muse-spark-open-gb300x8-tp8", "replica0-host1.sh",
            {"imex": "READY"}, 0, "shows no domain state",
        ),
    ],
)  # fmt: skip
def test_preflight_tells_partitions_and_domains(
    name: str, script: str, said: dict[str, str], code: int, says: str,
    library: Library, tmp_path: Path,
) -> None:  # fmt: skip
    for path, text in rendered(name, library).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    skip = "engine,plugins" + (",kernels,port" if "mig" in said else "")
    result = preflight(tmp_path, script, skip, said)
    assert result[0] == code, result[1]
    assert says in result[1]
