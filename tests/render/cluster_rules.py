"""What a cluster makes of manifests: written after Kubernetes' rules, not after our rendering."""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import yaml
from jsonschema import Draft202012Validator
from render.recording import OF_BASH, recorded, recorder

from configurator.deployment import Deployment
from configurator.render import TARGETS

CRDS = Path(__file__).parents[1] / "fixtures" / "crds"
# It reads its schemas, which are megabytes, for every object anew.
kubernetes_validate.utils.schema_contents = functools.cache(
    kubernetes_validate.utils.schema_contents
)
VERSIONS = ("1.31", "1.37")
"""Of Kubernetes: the first with claims in pods as they are here, and the last one known."""
HOME, RUN = "/configurator", "/var/configurator"
ENTRY = {"CONFIGURATOR_KEYS", "CONFIGURATOR_LOG", "CONFIGURATOR_STATE"}


@dataclass(frozen=True)
class Rendered:
    """One target of one deployment."""

    deployment: Deployment
    text: str
    """Of all files."""
    objects: list[dict[str, Any]]


_RENDERED: dict[tuple[int, str], Rendered] = {}


def rendered(deployment: Deployment, target: str) -> Rendered:
    """Rendered once: every test looks at the same. The deployment is kept, so its id is its own."""
    key = (id(deployment), target)
    if key not in _RENDERED:
        files = TARGETS[target](deployment)
        (text,) = [file.text for file in files if file.path == f"{target}.yaml"]
        found = list(yaml.load_all(text, yaml.CSafeLoader))
        _RENDERED[key] = Rendered(deployment, "".join(file.text for file in files), found)
    return _RENDERED[key]


def objects(deployment: Deployment, target: str) -> list[dict[str, Any]]:
    """The objects of the target's manifests."""
    return rendered(deployment, target).objects


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in found if one["kind"] == kind]


def expanded(text: str, env: Mapping[str, str]) -> str:
    """A word or value, read from left to right: `$(NAME)`, `$$`, and what is neither as it is."""
    done, at = "", 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair == "$$":
            done, at = done + "$", at + 2
        elif pair == "$(" and ")" in text[at:]:
            end = text.index(")", at)
            name = text[at + 2 : end]
            done, at = done + env.get(name, text[at : end + 1]), end + 1
        else:
            done, at = done + text[at], at + 1
    return done


@dataclass(frozen=True)
class Received:
    """What the first program of a container gets."""

    argv: list[str]
    env: dict[str, str]


def received(
    container: Mapping[str, Any], given: Mapping[str, str], secrets: Mapping[str, str]
) -> Received:
    """`given` are variables before the container's own, `secrets` values by their key."""
    env = {"NAME": "not to be seen", "HOME": "nor this", **given}
    for item in container["env"]:
        source = item.get("valueFrom", {}).get("secretKeyRef")
        value = secrets[source["key"]] if source else expanded(item["value"], env)
        env[item["name"]] = value
    words = [*container["command"], *container.get("args", ())]
    own = {item["name"] for item in container["env"]} | set(given)
    return Received([expanded(word, env) for word in words], {n: env[n] for n in own})


def entered(got: Received, given: Mapping[str, str] | None = None) -> Received:
    """What the entry script starts, but for what it joins with an image's own variables."""
    assert got.argv[:3] == ["bash", "-p", f"{HOME}/entry.sh"]
    words, taken = got.argv[3:], {*ENTRY, *(given or {})}
    for key in got.env.get("CONFIGURATOR_KEYS", "").split():
        place, name = key.split("=env:")
        words[int(place)] = got.env[name]
        taken.add(name)
    return Received(words, {k: v for k, v in got.env.items() if k not in taken})


def engine_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["containers"][0]
    return found


def lay_out(found: list[dict[str, Any]], spec: Mapping[str, Any], folder: Path) -> None:
    """The files that a pod mounts in HOME, in `folder`."""
    (volume,) = [one["configMap"] for one in spec["volumes"] if one["name"] == "files"]
    maps = of_kind(found, "ConfigMap")
    (data,) = [one["data"] for one in maps if one["metadata"]["name"] == volume["name"]]
    for item in volume["items"]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data[item["key"]], encoding="utf-8", newline="")
    assert len(volume["items"]) == len(data)


def started(got: Received, home: Path, run: Path, stub: Path) -> Received:
    """What the engine sees in the end: the entry script under real bash, the engine a stand-in."""
    tools = stub / "tools"
    recorder(tools, f"{stub}/seen")
    own = ("CONFIGURATOR_LOG", "CONFIGURATOR_STATE", "CONFIGURATOR_PROBE_DIR")
    env = {k: v.replace(RUN, str(run), 1) if k in own else v for k, v in got.env.items()}
    command = [str(home / "entry.sh") if w == f"{HOME}/entry.sh" else w for w in got.argv]
    # What an image sets must not hide what the rendering did not: PATH is the one that must stay.
    subprocess.run(
        command, env={**env, "PATH": f"{tools}:/usr/bin:/bin"}, check=True, timeout=60,
        stdout=subprocess.DEVNULL, cwd=stub,
    )  # fmt: skip
    seen = recorded(stub / "seen")
    shown = {
        name: value.replace(str(home), HOME).replace(str(run), RUN)
        for name, value in seen.env.items()
        if name not in OF_BASH
    }
    return Received(seen.argv, shown)


def check_schema(one: dict[str, Any]) -> None:
    """Refuses what the cluster would refuse, and every field that nobody has declared."""
    crd = {
        "LeaderWorkerSet": "leaderworkerset-v1.json.gz",
        "ComputeDomain": "computedomain-v1beta1.json.gz",
        "DynamoGraphDeployment": "dynamographdeployment-v1beta1.json",
    }.get(one["kind"])
    if crd is None:
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)
        return
    _declared(crd).validate(one)
    for template in _templates(one):
        check_schema({"apiVersion": "v1", "kind": "PodTemplate",
                      "metadata": {"name": "t"}, "template": template})  # fmt: skip


@functools.cache
def _declared(crd: str) -> Draft202012Validator:
    raw = (CRDS / crd).read_bytes()
    schema = json.loads(gzip.decompress(raw) if crd.endswith(".gz") else raw)
    return Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """A structural schema for a validator of JSON Schema, with undeclared fields refused."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    left_out = ("format", "default")
    done = {key: _closed(value) for key, value in schema.items() if key not in left_out}
    has_fields = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    if has_fields and not schema.get("x-kubernetes-preserve-unknown-fields"):
        done.setdefault("additionalProperties", False)
    return done


def _templates(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if one["kind"] == "LeaderWorkerSet":
        group = one["spec"]["leaderWorkerTemplate"]
        yield from (group[name] for name in ("leaderTemplate", "workerTemplate") if name in group)
    if one["kind"] == "DynamoGraphDeployment":
        yield from (component["podTemplate"] for component in one["spec"]["components"])
