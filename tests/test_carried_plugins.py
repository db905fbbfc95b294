"""`provider: configurator`: the launch brings a kernel entry's plugin along, and only then."""

from __future__ import annotations

import json
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from configurator.cli import run
from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import CARRIED, bundle_files, write_bundle
from configurator.render import TARGETS
from configurator.render.files import fingerprint, write
from configurator.render.instrument import joined, probe_variables
from configurator.resolve import resolve

HEAD = """\
apiVersion: configurator/v1
kind: Deployment
name: mine
engine: {version: 0.5.23}
hardware: {name: h200, gpus: 1}
model: {name: qwen3-8b}
container: {image: mine/engine:1}
"""
PLUGIN = "configurator_fp8_head"
WISH = "optimizations: {fp8-lm-head: {provider: configurator, granularity: per-row}}\n"
KERNEL = """\
apiVersion: configurator/v1
kind: Kernel
name: my-kernel
summary: a kernel of mine
family: moe
status: experimental
needs: {facts: [my-ability, flash]}
plugin:
  package: my_plugin
  releases: [0.5.23]
  provides: [my-ability]
  env: {MY_WIDTH: {option: width}}
options: {width: {type: int, default: 4, description: how wide}}
env: {MY_SWITCH: "1"}
"""


def resolved(folder: Path, text: str, *content: Path) -> Deployment:
    library = Library(content)
    path = folder / "p.yaml"
    path.write_text(HEAD + text)
    return resolve(*library.profile(str(path)), library)


def mine(folder: Path, **modules: str) -> Path:
    """A content directory with a kernel entry and its plugin."""
    package = folder / "kernels" / "plugins" / "my_plugin"
    package.mkdir(parents=True)
    (folder / "kernels" / "my-kernel.yaml").write_text(KERNEL)
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text)
    return folder


MINE = {"__init__": "from .work import register\n", "work": "def register() -> None: ...\n"}


def test_the_plugins_variables_stand_in_for_the_entrys(tmp_path: Path) -> None:
    by_build = resolved(tmp_path, "optimizations: {fp8-lm-head: {provider: build}}\n")
    assert by_build.env["SGLANG_ENABLE_FP8_LM_HEAD"].value == "1"
    assert "CONFIGURATOR_FP8_HEAD_GRANULARITY" not in by_build.env
    assert (by_build.plugins, by_build.mechanisms["fp8-lm-head"].facts) == (
        (), ["online-fp8-lm-head"],
    )  # fmt: skip
    made = resolved(tmp_path, WISH)
    assert "SGLANG_ENABLE_FP8_LM_HEAD" not in made.env
    assert made.env["CONFIGURATOR_FP8_HEAD_GRANULARITY"].value == "per-row"
    assert [plugin.package for plugin in made.plugins] == [PLUGIN]
    assert made.mechanisms["fp8-lm-head"].facts == []


def test_a_plugin_of_ones_own_beside_a_kernel_of_ones_own(tmp_path: Path) -> None:
    wish = "optimizations: {my-kernel: {provider: configurator, width: 8}}\n"
    made = resolved(tmp_path, wish, mine(tmp_path / "content", **MINE))
    mechanism = made.mechanisms["my-kernel"]
    assert (mechanism.facts, mechanism.entry_points) == (["flash"], ["my_plugin"])
    assert made.env["MY_WIDTH"].value == "8"
    assert "MY_SWITCH" not in made.env
    files = {path: text for path, text in bundle_files(made.plugins).items() if "my_plugin" in path}
    assert list(files) == [
        "my_plugin/work.py", "my_plugin/__init__.py", "my_plugin-1.dist-info/METADATA",
        "my_plugin-1.dist-info/entry_points.txt",
    ]  # fmt: skip
    assert files["my_plugin/work.py"] == f"# {CARRIED}, my_plugin.\n{MINE['work']}"


def refused(folder: Path, text: str, *content: Path) -> str:
    with pytest.raises(ConfiguratorError) as caught:
        resolved(folder, text, *content)
    (problem,) = caught.value.problems
    assert problem.position is not None
    return f"{problem.code} {problem.message}; {problem.remedy}"


def test_what_cannot_be_brought_along_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "optimizations: {fp8-kv-cache: {provider: configurator}}\n") == (
        "SCH007 fp8-kv-cache has no plugin that a launch could bring along; "
        "use provider build or plugin"
    )
    assert refused(tmp_path, WISH + "evidence: {instrument: none}\n") == (
        "SCH007 the plugin of fp8-lm-head travels with the in-engine probe, and "
        "evidence.instrument is none; set evidence.instrument to standard"
    )
    wish = "optimizations: {my-kernel: {provider: configurator}}\n"
    assert refused(tmp_path, wish, mine(tmp_path / "none")).startswith(
        "REF001 no plugin is named 'my_plugin'"
    )
    content = mine(tmp_path / "text", **MINE)
    (content / "kernels/plugins/my_plugin/work.py").write_bytes(b"\xff\xfe")
    assert refused(tmp_path, wish, content).startswith("REF008 plugin my_plugin cannot be carried")


@pytest.mark.parametrize("package", ["torch", "Mine_x", "my-plugin", "../my_plugin"])
def test_a_package_that_could_shadow_another_is_no_name(tmp_path: Path, package: str) -> None:
    content = mine(tmp_path / "content", **MINE)
    entry = content / "kernels" / "my-kernel.yaml"
    entry.write_text(KERNEL.replace("my_plugin", package))
    assert "SCH007" in refused(tmp_path, "optimizations: {my-kernel: {}}\n", content)


def test_the_engine_finds_the_plugin_in_the_bundle(tmp_path: Path) -> None:
    made = resolved(tmp_path, WISH)
    write_bundle(tmp_path / "b", made.plugins)
    found = PathDistribution(tmp_path / "b" / f"{PLUGIN}-1.dist-info")
    (point,) = found.entry_points
    assert (point.group, point.name, point.value) == (
        "sglang.srt.plugins", PLUGIN, f"{PLUGIN}:register",
    )  # fmt: skip
    assert found.metadata["Name"] == PLUGIN.replace("_", "-")


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_without_the_plugin_takes_it_away(tmp_path: Path) -> None:
    plugins = resolved(tmp_path, WISH).plugins
    folder = tmp_path / "b"
    write_bundle(folder, plugins)
    (folder / PLUGIN / "__pycache__").mkdir()
    (folder / PLUGIN / "__pycache__" / "x.pyc").write_bytes(b"x")
    write_bundle(folder)
    assert not any(PLUGIN in name for name in names(folder))
    assert not (folder / PLUGIN).exists()


def test_a_stranger_in_the_bundle_is_still_refused(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    write_bundle(folder, resolved(tmp_path, WISH).plugins)
    (folder / PLUGIN / "extra.py").write_text("print('mine')\n")
    with pytest.raises(ConfiguratorError, match=r"extra\.py"):
        write_bundle(folder)


@pytest.mark.parametrize("target", ["bash", "docker", "compose", "systemd", "slurm", "k8s"])
def test_every_target_brings_it_along(tmp_path: Path, target: str) -> None:
    found = "".join(f"{f.path}\n{f.text}" for f in TARGETS[target](resolved(tmp_path, WISH)))
    plain = "".join(f"{f.path}\n{f.text}" for f in TARGETS[target](resolved(tmp_path, "")))
    for words in (f"# {CARRIED}, {PLUGIN}.", "CONFIGURATOR_FP8_HEAD_GRANULARITY", "per-row"):
        assert words in found
        assert words not in plain
    assert "SGLANG_ENABLE_FP8_LM_HEAD" not in found


def test_rendering_without_it_takes_it_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(TARGETS["bash"](resolved(tmp_path, WISH)), out)
    assert PLUGIN in names(out / "probe")
    write(TARGETS["bash"](resolved(tmp_path, "")), out)
    assert names(out / "probe") == {
        "configurator_collector", "configurator_probe", "configurator_probe-1.dist-info",
    }  # fmt: skip


def test_an_allow_list_lets_it_in(tmp_path: Path) -> None:
    made = resolved(tmp_path, WISH + "extra: {env: {SGLANG_PLUGINS: mine}}\n")
    value = probe_variables(made, "/b", "/r")["SGLANG_PLUGINS"]
    assert value == f"configurator_probe,{PLUGIN}"
    assert joined("SGLANG_PLUGINS", value, "mine") == f"mine,configurator_probe,{PLUGIN}"
    assert joined("SGLANG_PLUGINS", value, f"{PLUGIN}, a") == f"{PLUGIN}, a,configurator_probe"
    assert joined("SGLANG_PLUGINS", value, value) is None
    assert joined("SGLANG_PLUGINS", value, None) is None
    (script,) = (f.text for f in TARGETS["bash"](made) if f.path.endswith("host0.sh"))
    assert f"SGLANG_PLUGINS=mine,configurator_probe,{PLUGIN}" in script
    assert f"names=({PLUGIN})" in script
    (entry,) = (f.text for f in TARGETS["docker"](made) if f.path == "entry.sh")
    assert f"export SGLANG_PLUGINS=$SGLANG_PLUGINS,{PLUGIN}" in entry


def test_another_text_of_the_plugin_is_another_launch(tmp_path: Path) -> None:
    wish = "optimizations: {my-kernel: {provider: configurator}}\n"
    content = mine(tmp_path / "content", **MINE)
    before = fingerprint(resolved(tmp_path, wish, content))
    (content / "kernels/plugins/my_plugin/work.py").write_text("def register() -> None: pass\n")
    assert fingerprint(resolved(tmp_path, wish, content)) != before


# ------------------------------------------------------------------ what validation says


def findings(
    folder: Path, capsys: pytest.CaptureFixture[str], severity: str = "error", **change: Any
) -> dict[str, str]:
    """Codes and messages of errors for the shipped profile with a change."""
    path = folder / "v.yaml"
    head = {"apiVersion": "configurator/v1", "kind": "Deployment", "name": "v"}
    path.write_text(yaml.safe_dump({**head, "extends": "ling-3.0-flash-spark-plugin", **change}))
    run(["validate", str(path), "--format", "json"])
    found = json.loads(capsys.readouterr().out)["profiles"][0]["findings"]
    return {f["code"]: f"{f['message']}; {f['remedy']}" for f in found if f["severity"] == severity}


def test_the_shipped_profile_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert findings(tmp_path, capsys) == {}


REFUSES = ": the plugin of fp8-lm-head refuses that at start; "


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"extra": {"args": {"enable-dp-lm-head": True}}},
            f"--enable-dp-lm-head divides the head in a way that it does not handle{REFUSES}",
        ),
        (
            {"extra": {"args": {"enable-deterministic-inference": True}}},
            "--enable-deterministic-inference promises logits that are the same in any batch"
            + REFUSES,
        ),
        (
            {"extra": {"args": {"rl-on-policy-target": "fsdp"}}},
            "--rl-on-policy-target makes inference deterministic, with logits that are the same "
            f"anywhere{REFUSES}",
        ),
        (
            {"extra": {"args": {"speculative-token-map": "/m"}}},
            f"--speculative-token-map gives the draft a copy of some rows of the head{REFUSES}",
        ),
        (
            {"extra": {"args": {"lora-target-modules": ["q_proj", "lm_head"]}}},
            f"--lora-target-modules is q_proj lm_head, with the LM head{REFUSES}",
        ),
        (
            {"extra": {"args": {"enable-nvidia-megakernel": True}}},
            f"--enable-nvidia-megakernel may read the head past its method{REFUSES}",
        ),
        (
            {"extra": {"args": {"startup-weight-load-mode": "overlap"}}},
            "--startup-weight-load-mode overlap loads the weights while graphs are "
            f"captured{REFUSES}",
        ),
        (
            {"extra": {"args": {"weight-cache-mode": "client"}}},
            f"--weight-cache-mode client leaves the weights to a daemon{REFUSES}",
        ),
        (
            {"extra": {"args": {"load-format": "gguf"}}},
            f"--load-format gguf is of a head that is quantized already{REFUSES}",
        ),
        (
            {"extra": {"args": {"device": "xpu"}}},
            f"--device is xpu, on which it was not tried{REFUSES}",
        ),
        (
            {"extra": {"args": {"speculative-algorithm": "DSPARK"}}},
            f"drafts of DSPARK read the weight of the head past its method{REFUSES}",
        ),
        (
            {"model": {"overrides": {"tied_embeddings": True}}},
            f"ling-3.0-flash-fp4 ties its LM head to the embedding{REFUSES}",
        ),
        (
            {"optimizations": {"fp8-lm-head": {"share": "tensors"}}},
            f"share is tensors, and its drafts get the whole module{REFUSES}",
        ),
        (
            {"topology": {"pipeline": 2}, "hardware": {"gpus": 2}},
            f"topology.pipeline is 2, and only the last stage has the head{REFUSES}",
        ),
        (
            {"hardware": {"overrides": {"arch": "sm_80"}}},
            f"dgx-spark is sm_80, which multiplies no FP8{REFUSES}",
        ),
    ],
)
def test_what_the_plugin_refuses_is_said_before_a_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], says: str
) -> None:
    assert findings(tmp_path, capsys, **change)["HEAD108"].startswith(says)


def test_values_that_it_serves_are_no_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = {"startup-weight-load-mode": "sequential", "weight-cache-mode": "off", "device": "cuda"}
    assert "HEAD108" not in findings(tmp_path, capsys, extra={"args": args})


def test_a_granularity_that_no_build_reads_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wish: dict[str, Any] = {"optimizations": {"fp8-lm-head": {"granularity": "per-row"}}}
    assert "HEAD109" not in findings(tmp_path, capsys, "warning", **wish)
    found = findings(tmp_path, capsys, "warning", **{"extends": "ling-3.0-flash-spark", **wish})
    assert found["HEAD109"] == (
        "granularity is per-row, and only the plugin of fp8-lm-head reads it: its provider is "
        "build; leave granularity out, or set provider to configurator"
    )


def test_a_float32_head_is_still_a_contrary_wish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(tmp_path, capsys, extra={"args": {"enable-fp32-lm-head": True}})
    assert "HEAD101" in found


@pytest.mark.parametrize("version", ["0.5.16", "0.5.15.post1"])
def test_a_release_that_it_does_not_know_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    found = findings(tmp_path, capsys, engine={"version": version})
    assert found["REF116"] == (
        "the plugin of fp8-lm-head is written for SGLang 0.5.17, 0.5.18, 0.5.19, 0.5.20, 0.5.21, "
        f"0.5.22, 0.5.23; the engine is sglang-{version}; set engine.version to 0.5.23, or remove "
        "the mechanism with 'fp8-lm-head: null'"
    )


@pytest.mark.parametrize("minor", range(17, 24))
def test_a_release_that_it_knows_is_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], minor: int
) -> None:
    found = findings(tmp_path, capsys, engine={"version": f"0.5.{minor}"})
    assert {"REF116", "HEAD102", "HEAD103", "HEAD104", "HEAD108"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("version", "told"), [("0.5.23", True), ("0.5.18", True), ("0.5.16", False)]
)
def test_where_the_build_has_no_head_the_plugin_is_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, told: bool
) -> None:
    change: dict[str, Any] = {
        "engine": {"version": version},
        "optimizations": {"fp8-lm-head": {"provider": "build"}},
    }
    remedy = findings(tmp_path, capsys, **change)["HEAD102"]
    assert ("'fp8-lm-head: {provider: configurator}' brings a plugin along" in remedy) is told
