"""Variables of the engine that are kept elsewhere: every target brings them, and holds none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from render.cluster_rules import engine_of, lay_out, objects, of_kind, received, started
from render.entering import enter
from stand_in import LIBRARY, environment, launch, rendered, seen, shellcheck, wait_for
from stand_in_docker import with_docker

from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.render import TARGETS, fingerprint, write
from configurator.render.launches import secrets_of
from configurator.resolve import resolve
from configurator.up.launching import commands_of

TOKEN = "hf_abc-123"
CLUSTER = ("k8s", "lws", "dynamo")


def deployment(folder: Path, secrets: str, base: str = "ling-3.0-flash-spark") -> Deployment:
    path = folder / "p.yaml"
    path.write_text(
        f"apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: {base}\n"
        f"extra: {{secrets: {secrets}}}\n"
    )
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_and_a_variable_are_named_and_scripts_are_clean(tmp_path: Path, target: str) -> None:
    made = deployment(tmp_path, "{HF_TOKEN: {env: MY_TOKEN}, OTHER_KEY: {file: /etc/other}}")
    files = TARGETS[target](made)
    text = "".join(file.text for file in files if not file.path.startswith("probe/"))
    assert "MY_TOKEN" in text
    assert "/etc/other" in text
    start = next(file.text for file in files if file.path == "START.md")
    assert "A gated repository wants" not in start
    write(files, tmp_path / "out")
    scripts = [*(tmp_path / "out").glob("*.sh"), *(tmp_path / "out").glob("*.sbatch")]
    if scripts:
        shellcheck(*scripts)


def test_the_fingerprint_and_the_listing_follow_the_reference(tmp_path: Path) -> None:
    from configurator.render import listing
    from configurator.render.launches import Folders

    one, other = "{HF_TOKEN: {env: A_TOKEN}}", "{HF_TOKEN: {file: /etc/token}}"
    assert fingerprint(deployment(tmp_path, one)) != fingerprint(deployment(tmp_path, other))
    found = json.loads(listing(deployment(tmp_path, other), Folders("probe", "reports")))
    assert found[0]["secrets"] == {"HF_TOKEN": {"file": "/etc/token"}}
    made = deployment(tmp_path, one, "muse-spark-open-gb300x8")
    found = json.loads(listing(made, Folders("probe", "reports")))
    assert [row["secrets"] for row in found] == [{"HF_TOKEN": {"env": "A_TOKEN"}}] * 2 + [{}]


@pytest.mark.parametrize("source", ["HF_TOKEN", "MY_TOKEN"])
def test_a_script_gives_it_to_the_engine_alone(tmp_path: Path, free_port: int, source: str) -> None:
    out = rendered(
        tmp_path,
        f"serving: {{port: {free_port}}}\nextra: {{secrets: {{HF_TOKEN: {{env: {source}}}}}}}\n",
    )
    process = launch(out, environment(tmp_path, **{source: f"{TOKEN}\n"}))
    wait_for(tmp_path / "checked.json")
    process.terminate()
    printed, _ = process.communicate(timeout=60)
    found: Any = seen(tmp_path)
    assert found["env"]["HF_TOKEN"] == TOKEN
    assert TOKEN not in printed + "".join(found["argv"])


def test_a_script_without_it_does_not_start(tmp_path: Path) -> None:
    out = rendered(tmp_path, "extra: {secrets: {HF_TOKEN: {env: NO_TOKEN}}}\n")
    process = launch(out, environment(tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "FAILED: variable NO_TOKEN is empty; it must hold the key" in printed


def test_a_docker_script_gives_it_by_name(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    out = tmp_path / "out"
    rendered_files = TARGETS["docker"](
        _stub(tmp_path, free_port, f"{{HF_TOKEN: {{file: {tmp_path}/token}}}}")
    )
    write(rendered_files, out)
    process = launch(out, with_docker(tmp_path))
    wait_for(tmp_path / "checked.json")
    process.terminate()
    process.communicate(timeout=60)
    found: Any = seen(tmp_path)
    assert found["env"]["HF_TOKEN"] == TOKEN
    assert "CONFIGURATOR_SECRET_1" not in found["env"]
    assert TOKEN not in (tmp_path / "asked.jsonl").read_text()


def _stub(folder: Path, port: int, secrets: str) -> Deployment:
    path = folder / "stub.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        "hardware: {name: cpu, gpus: 1}\nmodel: {name: qwen3-8b}\n"
        f"serving: {{port: {port}}}\nextra: {{secrets: {secrets}}}\n"
    )
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def test_a_variable_of_small_letters_too_arrives_in_a_container(tmp_path: Path) -> None:
    made = deployment(tmp_path, "{Hf_token: {env: MY_TOKEN}}")
    write(TARGETS["compose"](made), tmp_path / "out")
    services = yaml.safe_load((tmp_path / "out" / "compose.yaml").read_text())["services"]
    service = services["replica0"]
    env = {n: v for n, v in service["environment"].items() if v is not None}
    command = [*service["entrypoint"], *service["command"]]
    kept = {"LING_API_KEY": "k", "MY_TOKEN": TOKEN}
    assert enter(tmp_path / "out", command, {**env, **kept}, tmp_path).env["Hf_token"] == TOKEN


@pytest.mark.parametrize("source", ["{env: HF_TOKEN}", "{env: MY_TOKEN}", "{file: /etc/token}"])
def test_compose_brings_it_by_its_variable_or_secret(tmp_path: Path, source: str) -> None:
    files = TARGETS["compose"](deployment(tmp_path, f"{{HF_TOKEN: {source}}}"))
    write(files, tmp_path / "out")
    service = yaml.safe_load((tmp_path / "out" / "compose.yaml").read_text())["services"][
        "replica0"
    ]
    env = {n: v for n, v in service["environment"].items() if v is not None}
    name = next(iter(yaml.safe_load(source).values()))
    kept = {name: TOKEN} if "env" in source else {}
    assert service.get("secrets", []) == ([] if kept else ["secret-2"])
    token = tmp_path / "secret-2"
    token.write_text(f"{TOKEN}\n")
    env["CONFIGURATOR_KEYS"] = env["CONFIGURATOR_KEYS"].replace("/run/secrets", str(tmp_path))
    command = [*service["entrypoint"], *service["command"]]
    got = enter(tmp_path / "out", command, {**env, "LING_API_KEY": "k", **kept}, tmp_path)
    assert got.env["HF_TOKEN"] == TOKEN
    assert "MY_TOKEN" not in got.env


@pytest.mark.parametrize("target", CLUSTER)
def test_a_pod_has_it_from_the_secret(tmp_path: Path, target: str) -> None:
    made = deployment(tmp_path, "{HF_TOKEN: {env: MY_TOKEN}}")
    found = objects(made, target)
    kind = {"k8s": "StatefulSet", "lws": "LeaderWorkerSet", "dynamo": "DynamoGraphDeployment"}
    spec = of_kind(found, kind[target])[0]["spec"]
    if target == "dynamo":
        spec = {"template": spec["components"][1]["podTemplate"]}
    if target == "lws":
        spec = {"template": spec["leaderWorkerTemplate"]["workerTemplate"]}
    pod = spec["template"]["spec"]
    secrets = {
        one.name: TOKEN if one.reference.env == "MY_TOKEN" else "k" for one in secrets_of(made)
    }
    named = {item["name"] for item in engine_of(pod)["env"] if "valueFrom" in item}
    keys = {"CONFIGURATOR_SECRET_2"} if target == "dynamo" else {
        "CONFIGURATOR_SECRET_1", "CONFIGURATOR_SECRET_2",
    }  # fmt: skip
    assert named == keys
    start = next(file.text for file in TARGETS[target](made) if file.path == "START.md")
    assert '--from-file=secret-2=<(printf %s "$MY_TOKEN")' in start
    assert ("secret-1=" in start) is (target != "dynamo")
    if target == "dynamo":
        assert "HF_TOKEN=env:CONFIGURATOR_SECRET_2" in str(engine_of(pod)["env"])
        return
    home, run, stub = (tmp_path / name for name in ("home", "run", "stub"))
    stub.mkdir()
    lay_out(found, pod, home)
    got = started(received(engine_of(pod), {}, secrets), home, run, stub)
    assert got.env["HF_TOKEN"] == TOKEN
    assert not any(name.startswith("CONFIGURATOR_SECRET") for name in got.env)


def test_a_unit_has_it_as_a_credential(tmp_path: Path) -> None:
    files = TARGETS["systemd"](deployment(tmp_path, "{HF_TOKEN: {env: MY_TOKEN}}"))
    unit = next(file.text for file in files if file.path.endswith("host0.service"))
    assert "LoadCredential=secret-2:/etc/credstore/MY_TOKEN" in unit
    assert "HF_TOKEN=file:${CREDENTIALS_DIRECTORY}/secret-2" in unit


def test_up_gives_it_to_the_engine_and_shows_it_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    made = _stub(tmp_path, 1, "{HF_TOKEN: {env: MY_TOKEN}}")
    (command,) = commands_of(made, 0, {}, None, {})
    assert command.env["HF_TOKEN"] == TOKEN
    assert TOKEN in command.secrets
    assert TOKEN not in str(command.shown) + str(command.added)


@pytest.mark.parametrize(
    ("extra", "fact"),
    [
        ("{secrets: {HF_TOKEN: hf_abc}}", "HF_TOKEN is written in clear; write {file: PATH} or"),
        ("{secrets: {HF_TOKEN: {file: token}}}", "give an absolute path"),
        ("{secrets: {PATH: {env: A}}}", "rendered scripts have one of this name"),
        ("{env: {A_TOKEN: x}, secrets: {A_TOKEN: {env: A}}}", "give A_TOKEN once, in 'env' or"),
    ],
)
def test_what_is_no_reference_is_refused(tmp_path: Path, extra: str, fact: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: ling-3.0-flash-spark\n"
        f"extra: {extra}\n"
    )
    with pytest.raises(ConfiguratorError) as caught:
        LIBRARY.profile(str(path))
    assert fact in str(caught.value)
    assert "hf_abc" not in str(caught.value)
