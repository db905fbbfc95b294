"""What runs in the cluster's containers, under real bash, and the commands of START.md."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from render.cluster_rules import Received, lay_out, objects, of_kind, received, started
from stand_in import LIBRARY

from configurator.deployment import Deployment
from configurator.render import TARGETS
from configurator.render.launches import secrets_of
from configurator.resolve import resolve

CLUSTER = ("k8s", "lws", "dynamo")
HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: d\n"


def made(tmp_path: Path, text: str) -> Deployment:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + text)
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def pod(deployment: Deployment, target: str) -> dict[str, Any]:
    kind = {"k8s": "StatefulSet", "lws": "LeaderWorkerSet", "dynamo": "DynamoGraphDeployment"}
    spec = of_kind(objects(deployment, target), kind[target])[0]["spec"]
    if target == "dynamo":
        spec = {"template": spec["components"][1]["podTemplate"]}
    if target == "lws":
        spec = {"template": spec["leaderWorkerTemplate"]["workerTemplate"]}
    found: dict[str, Any] = spec["template"]["spec"]
    return found


def home(deployment: Deployment, target: str, folder: Path) -> Path:
    lay_out(objects(deployment, target), pod(deployment, target), folder)
    return folder


@pytest.mark.parametrize("target", CLUSTER)
def test_every_container_has_its_scripts(target: str, tmp_path: Path) -> None:
    for name in LIBRARY.names("deployment"):
        folder = home(resolve(*LIBRARY.profile(name), LIBRARY), target, tmp_path / name)
        wanted = {"k8s": {"entry", "check", "preflight"}, "dynamo": {"entry", "preflight"}}
        assert wanted.get(target, wanted["k8s"]) <= {path.stem for path in folder.glob("*.sh")}


PREFLIGHT = "memory: {min_available_gib: 1}\nhardware: {name: h200, gpus: 2}\n" \
            "topology: {tensor: 2}\nengine: {version: 0.5.23}\n"  # fmt: skip


def preflight(
    tmp_path: Path,
    deployment: Deployment,
    names: str = "NVIDIA H200\n" * 2,
    target: str = "k8s",
    **env: str,
) -> subprocess.CompletedProcess[str]:
    folder = home(deployment, target, tmp_path / "home")
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{names}'\n")
    # As importlib.metadata in an image with SGLang; the plugin is looked for by the real one.
    (tools / "python3").write_text(
        '#!/bin/sh\ncase $2 in *sglang*) echo "${FOUND-0.5.23}" ;; '
        f'*entry_points*) exec {sys.executable} "$@" ;; *) [ "$3" != "$LACKS" ] ;; esac\n'
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return subprocess.run(
        ["bash", folder / "preflight.sh"],
        env={"PATH": f"{tools}:/usr/bin:/bin", "CONFIGURATOR_PROBE_DIR": f"{tmp_path}/r", **env},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_preflight_is_good_where_all_is_there(tmp_path: Path) -> None:
    model = tmp_path / "it's a $(model)"
    model.mkdir()
    path = json.dumps(str(model))
    done = preflight(
        tmp_path, made(tmp_path, f"{PREFLIGHT}model: {{name: qwen3-8b, path: {path}}}\n")
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("preflight: good")
    assert "preflight gpu: 2 x NVIDIA H200" in done.stdout
    assert "preflight plugins: configurator_probe is seen" in done.stdout
    assert f"preflight model: {model}" in done.stdout


@pytest.mark.parametrize(
    ("names", "env", "said"),
    [
        ("NVIDIA H200\n", {}, "this pod has 1 NVIDIA H200, the profile needs 2 NVIDIA H200"),
        ("NVIDIA B200\n" * 2, {}, "the profile needs 2 NVIDIA H200"),
        ("NVIDIA H200\n" * 2, {"FOUND": "0.5.22"}, "sglang is 0.5.22, the profile is for 0.5.23"),
    ],
)
def test_preflight_says_what_is_not_as_the_profile_has_it(
    tmp_path: Path, names: str, env: dict[str, str], said: str
) -> None:
    deployment = made(tmp_path, f"{PREFLIGHT}model: {{name: qwen3-8b}}\n")
    done = preflight(tmp_path, deployment, names, **env)
    assert done.returncode == 1
    assert said in done.stderr
    skipped = preflight(tmp_path, deployment, names, **env, CONFIGURATOR_SKIP="all")
    assert skipped.returncode == 0


@pytest.mark.parametrize("target", CLUSTER)
@pytest.mark.parametrize(
    ("installed", "allowed", "said"),
    [
        (True, "", "preflight kernels: nvidia_megakernel"),
        (True, "other", "SGLANG_PLUGINS leaves out nvidia_megakernel, so its kernels"),
        (False, "", "the plugin nvidia_megakernel (entry point in sglang.srt.plugins) is not "
                    "installed for python3 in the image; the profile needs its kernels"),
    ],
)  # fmt: skip
def test_preflight_looks_for_the_plugins_that_bring_kernels(
    tmp_path: Path, target: str, installed: bool, allowed: str, said: str
) -> None:
    deployment = resolve(*LIBRARY.profile("muse-spark-open-gb300x8"), LIBRARY)
    site = tmp_path / "site" / "mega-1.dist-info"
    if installed:
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: mega\nVersion: 1\n")
        (site / "entry_points.txt").write_text("[sglang.srt.plugins]\nnvidia_megakernel = mega:x\n")
    env = {"SGLANG_PLUGINS": allowed} if allowed else {}
    done = preflight(
        tmp_path, deployment, target=target, **env, PYTHONPATH=str(site.parent),
        CONFIGURATOR_SKIP="engine,gpu",
    )  # fmt: skip
    assert said in done.stdout + done.stderr
    assert done.returncode == (0 if said.startswith("preflight kernels") else 1)


def test_a_preflight_that_may_not_fail_looks_again_until_all_is_good(tmp_path: Path) -> None:
    """LeaderWorkerSet makes a group anew, and its log is lost, where an init container restarts."""
    model = tmp_path / "model"
    (tmp_path / "settings").mkdir()
    path = json.dumps(str(model))
    deployment = made(tmp_path, f"{PREFLIGHT}model: {{name: qwen3-8b, path: {path}}}\n")
    (tmp_path / "tools").mkdir()
    sleep = tmp_path / "tools" / "sleep"
    sleep.write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/slept; mkdir -p {model}\n')
    done = preflight(tmp_path, deployment, CONFIGURATOR_AGAIN_S="30")
    assert done.returncode == 0
    assert (tmp_path / "slept").read_text() == "30\n"
    assert f"there is no checkpoint at {model}" in done.stderr
    assert "looking again in 30 s" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("preflight: good")


def test_preflight_misses_a_checkpoint_and_packages(tmp_path: Path) -> None:
    gone = made(tmp_path, f"{PREFLIGHT}model: {{name: qwen3-8b, path: /no/such}}\n")
    assert "there is no checkpoint at /no/such" in preflight(tmp_path, gone).stderr
    deployment = resolve(*LIBRARY.profile("ling-3.0-flash-spark"), LIBRARY)
    folder = home(deployment, "dynamo", tmp_path / "dynamo")
    text = (folder / "preflight.sh").read_text()
    assert "ai-dynamo" in text
    assert (
        "ai-dynamo" not in (home(deployment, "k8s", tmp_path / "k8s") / "preflight.sh").read_text()
    )


def operated(args: list[str], command: list[str], *, shell: bool) -> list[str]:
    """What Dynamo's operator makes of the command of a worker over two hosts."""
    flags = "--dist-init-addr leader.ns:29500 --nnodes 2 --node-rank "
    if not shell:
        return [*command, *args, *f"{flags}$(LWS_WORKER_INDEX)".split()]
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in [*command, *args])
    return ["sh", "-c", f"exec {quoted} {flags}$((GROVE_PCLQ_POD_INDEX + 1))"]


@pytest.mark.parametrize("shell", [False, True])
def test_what_dynamos_operator_appends_reaches_the_engine(shell: bool, tmp_path: Path) -> None:
    """For LeaderWorkerSet it appends words; for Grove it puts a shell in front."""
    text = (
        "extends: muse-spark-open-gb300x8-tp8\nextra: {args: {words: ['$(A) $$', \"it's\", '']}}\n"
    )
    deployment = made(tmp_path, text)
    main = pod(deployment, "dynamo")["containers"][0]
    assert main["command"][0] == "python3"
    command = operated(main["args"], main["command"], shell=shell)
    got = received(
        {**main, "command": command, "args": []}, {"LWS_WORKER_INDEX": "1", "A": "x"}, {}
    )
    place = home(deployment, "dynamo", tmp_path / "home")
    # The stand-in for python3 is the engine's; the first python3 is a real one.
    script = (place / "enter.py").read_text().replace("/configurator/", f"{place}/")
    (place / "enter.py").write_text(script)
    line = [word.replace("/configurator/enter.py", f"{place}/enter.py") for word in got.argv]
    if shell:
        line[2] = line[2].replace("exec 'python3'", f"exec '{sys.executable}'", 1)
    else:
        line[0] = sys.executable
    stub = tmp_path / "stub"
    stub.mkdir()
    wrapped = Received(["bash", "-c", 'exec "$@"', "_", *line],
                       {**got.env, "GROVE_PCLQ_POD_INDEX": "0"})  # fmt: skip
    seen = started(wrapped, place, tmp_path / "run", stub)
    end = ["--dist-init-addr", "leader.ns:29500", "--nnodes", "2", "--node-rank", "1"]
    assert seen.argv[:3] == ["python3", "-m", "dynamo.sglang"]
    assert seen.argv[-6:] == end
    at = seen.argv.index("--words")
    assert seen.argv[at + 1 : at + 4] == ["$(A) $$", "it's", ""]
    assert seen.env["PYTHONPATH"] == "/configurator/probe"


@pytest.mark.parametrize("target", ["k8s", "lws"])
def test_the_commands_of_start_make_the_secret(target: str, tmp_path: Path) -> None:
    """A key with everything in it arrives; a line break at the end of its file does not."""
    odd = tmp_path / 'it\'s $HOME "a"'
    odd.write_text("key $(x) `y` \\n\n")
    reference = json.dumps({"file": str(odd)})
    deployment = made(
        tmp_path,
        "extends: muse-spark-open-gb300x8\n"
        f"serving: {{api_key: {{env: THE_KEY}}, admin_api_key: {reference}}}\n",
    )
    (text,) = [file.text for file in TARGETS[target](deployment) if file.path == "START.md"]
    (block,) = [
        part for part in text.split("```bash\n") if part.startswith("kubectl create secret")
    ]
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").write_text(
        '#!/bin/bash\necho "$4"\nfor word in "${@:5}"; do word=${word#--from-file=}\n'
        'printf "%s <%s>\\n" "${word%%=*}" "$(cat "${word#*=}"; echo .)"; done\n'
    )
    (tools / "kubectl").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", block.split("```")[0]], capture_output=True, text=True, check=True,
        env={"PATH": f"{tools}:/usr/bin:/bin", "THE_KEY": "a'b\"c $d"}, timeout=60,
    )  # fmt: skip
    name, *rest = done.stdout.splitlines()
    assert [one.name for one in secrets_of(deployment)] == ["secret-1", "secret-2"]
    assert rest == ["secret-1 <a'b\"c $d.>", "secret-2 <key $(x) `y` \\n.>"]
    references = json.dumps(objects(deployment, target))
    assert f'"secretKeyRef": {{"name": "{name}", "key": "secret-2"}}' in references


def test_wait_ends_once_every_place_answers(tmp_path: Path, free_port: int) -> None:
    deployment = resolve(*LIBRARY.profile("muse-spark-open-gb300x8"), LIBRARY)
    script = home(deployment, "k8s", tmp_path / "home") / "wait.sh"
    waiting = subprocess.Popen(
        ["bash", str(script), f"127.0.0.1:{free_port}"], stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == f"waiting for 127.0.0.1:{free_port} to be proven\n"
    with socket.create_server(("127.0.0.1", free_port)):
        waiting.communicate(timeout=60)
    assert waiting.returncode == 0


def test_a_checker_that_holds_judges_the_next_start(tmp_path: Path) -> None:
    """A refuted start is not ready, the checker stays, and what is started next is judged anew."""
    deployment = resolve(*LIBRARY.profile("ling-3.0-flash-spark-baseline"), LIBRARY)
    folder = home(deployment, "k8s", tmp_path / "home")
    state, tools = tmp_path / "state", tmp_path / "tools"
    state.mkdir()
    tools.mkdir()
    (tools / "configurator").write_text('#!/bin/sh\nexit "$(cat "$CODE")"\n')
    (tools / "configurator").chmod(0o755)
    (tmp_path / "code").write_text("1")
    (state / "start").write_text("first\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "report-0.json").write_text("{}")
    env = {"PATH": f"{tools}:/usr/bin:/bin", "CODE": str(tmp_path / "code"),
           "CONFIGURATOR_STATE": str(state), "CONFIGURATOR_EVIDENCE": str(tmp_path / "evidence"),
           "CONFIGURATOR_PROBE_DIR": str(reports), "CONFIGURATOR_CHECK": "hold"}  # fmt: skip
    process = subprocess.Popen(
        ["bash", str(folder / "check.sh")], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "start first is not what the profile asks for" in process.stdout.readline()
        assert (state / "refuted").read_text() == "first\n"
        assert not (state / "proven").exists()
        (tmp_path / "code").write_text("0")
        (state / "next").write_text("second\n")
        os.replace(state / "next", state / "start")
        assert "proven: start second" in process.stdout.readline()
        assert (state / "proven").read_text() == "second\n"
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 143
