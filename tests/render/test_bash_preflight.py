"""Rendered scripts under real bash: what must hold before anything is started."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from stand_in import LIBRARY, environment, launch, rendered

from configurator.render import TARGETS, write
from configurator.resolve import resolve


@pytest.mark.parametrize(
    ("extra", "fact"),
    [
        ("memory: {min_available_gib: 100000}\n", "GiB of memory available, the profile needs"),
        ("model: {name: qwen3-8b, path: /no/such/model}\n", "there is no checkpoint at /no/such"),
        ("serving: {api_key: {file: /no/such/key}}\n", "key file /no/such/key cannot be read"),
        ("serving: {api_key: {env: NO_SUCH_KEY}}\n", "variable NO_SUCH_KEY is empty"),
        ("engine: {version: 0.5.17}\n", "sglang is 0.5.23, the profile is for 0.5.17"),
    ],
)
def test_preflight_refuses_before_anything_starts(tmp_path: Path, extra: str, fact: str) -> None:
    key = extra.split(":")[0]
    base = {
        "engine": "engine: {version: 0.5.23}\n",
        "model": "model: {name: qwen3-8b}\n",
        "hardware": "hardware: {name: cpu, gpus: 1}\n",
        key: extra,
    }
    head = "apiVersion: configurator/v1\nkind: Deployment\nname: stub\n"
    out = rendered(tmp_path, "", head + "".join(base.values()))
    process = launch(out, environment(tmp_path, CONFIGURATOR_SKIP="port"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert fact in printed
    assert not (tmp_path / "seen.json").exists()


CARRIED = "optimizations: {fp8-lm-head: {provider: configurator}}\n"


@pytest.mark.parametrize("whole", [True, False])
def test_a_plugin_that_is_brought_along_is_not_to_be_installed(tmp_path: Path, whole: bool) -> None:
    out = rendered(tmp_path, CARRIED)
    if not whole:
        (out / "probe" / "configurator_fp8_head-1.dist-info" / "entry_points.txt").unlink()
    env = environment(tmp_path, CONFIGURATOR_PREFLIGHT="only", CONFIGURATOR_SKIP="port")
    # Entry points are looked for by a real Python.
    (tmp_path / "tools" / "python3").write_text(
        f'#!/bin/sh\ncase $2 in *sglang*) echo 0.5.23 ;; *) exec {sys.executable} "$@" ;; esac\n'
    )
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == (0 if whole else 1), printed
    assert ("preflight kernels: configurator_fp8_head" in printed) is whole
    said = (
        "python3 does not see the plugin configurator_fp8_head, which is brought along in "
        f"{out}/probe: copy the whole folder again, and let python3 read PYTHONPATH"
    )
    assert (said in printed) is not whole
    assert "not installed" not in printed


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        out = rendered(tmp_path, f"serving: {{port: {port}}}\n")
        process = launch(out, environment(tmp_path))
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"port {port} is taken" in printed


def test_preflight_alone_reads_the_keys_and_starts_nothing(tmp_path: Path) -> None:
    out = rendered(tmp_path, "serving: {api_key: {env: KEY}}\n")
    env = environment(tmp_path, CONFIGURATOR_PREFLIGHT="only", CONFIGURATOR_SKIP="port")
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "variable KEY is empty" in printed
    process = launch(out, {**env, "KEY": "x"})
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed
    assert not (tmp_path / "seen.json").exists()


@pytest.mark.parametrize(
    ("setting", "value", "fact"),
    [
        ("CONFIGURATOR_SKIP", "port,gpus", "CONFIGURATOR_SKIP names 'gpus'; known: profile, eng"),
        ("CONFIGURATOR_CHECK", "wran", "CONFIGURATOR_CHECK is 'wran'; set it to enforce, warn"),
    ],
)
def test_a_mistyped_setting_is_refused(tmp_path: Path, setting: str, value: str, fact: str) -> None:
    process = launch(rendered(tmp_path, ""), environment(tmp_path, **{setting: value}))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert fact in printed


def test_every_check_can_be_left_out(tmp_path: Path) -> None:
    out = rendered(tmp_path, "memory: {min_available_gib: 100000}\n")
    env = environment(tmp_path, CONFIGURATOR_PREFLIGHT="only", CONFIGURATOR_SKIP="all")
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    for name in ("profile", "engine", "memory", "port"):
        assert f"preflight {name}: skipped" in printed


@pytest.mark.parametrize("other", ["serving: {port: 31234}\n", "evidence: {level: 2}\n"])
def test_a_script_beside_the_profile_of_another_rendering_is_refused(
    tmp_path: Path, other: str
) -> None:
    """Of another launch, for instance of a replica that is gone, or of other demands alone."""
    out = rendered(tmp_path, "")
    old = (out / "replica0-host0.sh").read_text()
    rendered(tmp_path, other)
    (out / "replica0-host0.sh").write_text(old)
    process = launch(out, environment(tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "profile.yaml is missing or of another rendering" in printed


@pytest.mark.parametrize(
    ("listed", "fact"),
    [
        ("NVIDIA GB300", None),
        ("NVIDIA RTX PRO 2000 Blackwell\nNVIDIA GB300", None),
        ("NVIDIA H200\nNVIDIA H200", "this host has 2 NVIDIA H200, the profile needs 1 NVIDIA GB"),
        ("", "the profile needs 1 NVIDIA GB300"),
    ],
)
def test_the_gpus_of_the_profile_are_counted(tmp_path: Path, listed: str, fact: str | None) -> None:
    base = (
        "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        "hardware: {name: dgx-station-gb300, gpus: 1}\nmodel: {name: qwen3-8b}\n"
    )
    out = rendered(tmp_path, "", base)
    env = environment(tmp_path, CONFIGURATOR_PREFLIGHT="only", CONFIGURATOR_SKIP="port")
    smi = tmp_path / "tools" / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}\nEND\n")
    smi.chmod(0o755)
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == (1 if fact else 0), printed
    assert (fact or "preflight gpu: 1 x NVIDIA GB300") in printed


def test_addresses_of_other_hosts_must_be_given(tmp_path: Path) -> None:
    write(TARGETS["bash"](resolve(*LIBRARY.profile("muse-spark-open-gb300x8-tp8"), LIBRARY)),
          tmp_path / "out")  # fmt: skip
    process = launch(tmp_path / "out", environment(tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "REPLICA0_HOST0_ADDR: set it to the address of host 0 of replica 0" in printed


def test_keys_are_looked_at_first(tmp_path: Path) -> None:
    out = rendered(tmp_path, "serving: {api_key: {env: NO_SUCH_KEY}}\n")
    process = launch(out, environment(tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "variable NO_SUCH_KEY is empty" in printed
    assert "preflight" not in printed
    assert "#   NO_SUCH_KEY     a key" in (out / "replica0-host0.sh").read_text()


@pytest.mark.parametrize(
    ("installed", "allowed", "fact"),
    [
        (["nvidia_megakernel"], "", None),
        (["nvidia_megakernel"], "x, nvidia_megakernel", None),
        ([], "", "plugin nvidia_megakernel (entry point in sglang.srt.plugins) is not installed"),
        (["nvidia_megakernel"], "x", "SGLANG_PLUGINS leaves out nvidia_megakernel"),
        (["nvidia_megakernel"], "x,\tnvidia_megakernel", None),
        # The engine takes these for lists, and loads nothing.
        (["nvidia_megakernel"], ",", "SGLANG_PLUGINS leaves out nvidia_megakernel"),
        (["nvidia_megakernel"], " ", "SGLANG_PLUGINS leaves out nvidia_megakernel"),
    ],
)
def test_a_plugin_with_kernels_is_looked_for_before_weights_load(
    tmp_path: Path, installed: list[str], allowed: str, fact: str | None
) -> None:
    name = "muse-spark-open-gb300x8"
    write(TARGETS["bash"](resolve(*LIBRARY.profile(name), LIBRARY)), tmp_path / "out")
    env = environment(
        tmp_path, MUSE_API_KEY="a-key", CONFIGURATOR_PREFLIGHT="only",
        CONFIGURATOR_SKIP="engine,gpu,port",
    )  # fmt: skip
    if allowed:
        env["SGLANG_PLUGINS"] = allowed
    site = tmp_path / "site" / "mega-1.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: mega\nVersion: 1\n")
    points = "".join(f"{point} = mega:x\n" for point in installed)
    (site / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{points}")
    python = tmp_path / "tools" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    env["PYTHONPATH"] = str(site.parent)
    process = launch(tmp_path / "out", env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == (1 if fact else 0), printed
    assert (fact or "preflight kernels: nvidia_megakernel") in printed
