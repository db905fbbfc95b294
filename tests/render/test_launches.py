"""What every target starts: words and variables of each process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.deployment import Deployment
from configurator.render.launches import (
    EngineLaunch,
    Folders,
    address_text,
    addresses_of,
    launches,
    listing,
    secrets_of,
)
from configurator.resolve import resolve

FOLDERS = Folders("/b/probe", "/r")
HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: d\n"
MULTI = "extends: muse-spark-open-gb300x8-tp8\n"


def made(tmp_path: Path, text: str) -> Deployment:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + text)
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def first(tmp_path: Path, text: str) -> EngineLaunch:
    return launches(made(tmp_path, text), FOLDERS)[0]


def test_one_launch_a_process_and_the_router_last() -> None:
    deployment = resolve(*LIBRARY.profile("muse-spark-open-gb300x8"), LIBRARY)
    found = launches(deployment, FOLDERS)
    assert [one.name for one in found] == ["replica0-host0", "replica1-host0", "router"]
    assert [dict(one.env).get("CONFIGURATOR_PROBE_DIR") for one in found] == [
        "/r/replica-0", "/r/replica-1", None,
    ]  # fmt: skip


def test_ranks_differ_in_their_rank_alone(tmp_path: Path) -> None:
    one, other = launches(made(tmp_path, MULTI), FOLDERS)
    assert (one.name, other.name) == ("replica0-host0", "replica0-host1")
    place = one.argv.index("--node-rank") + 1
    assert (one.argv[place], other.argv[place]) == ("0", "1")
    assert one.argv[:place] + one.argv[place + 1 :] == other.argv[:place] + other.argv[place + 1 :]
    assert one.env == other.env
    assert dict(one.env)["NCCL_MNNVL_ENABLE"] == "1"


@pytest.mark.parametrize(
    ("held", "search", "plugins"),
    [
        ("", "/b/probe", None),
        ("PYTHONPATH: /mine", "/b/probe:/mine", None),
        ("SGLANG_PLUGINS: a", "/b/probe", "a,configurator_probe"),
        ("SGLANG_PLUGINS: 'a, configurator_probe'", "/b/probe", "a, configurator_probe"),
        ("SGLANG_PLUGINS: ''", "/b/probe", ""),
    ],
)
def test_what_the_profile_has_is_joined_and_declared_as_it_is(
    tmp_path: Path, held: str, search: str, plugins: str | None
) -> None:
    launch = first(tmp_path, f"extends: ling-3.0-flash-spark\nextra: {{env: {{{held}}}}}\n")
    env, declared = dict(launch.env), dict(launch.declared)
    assert (env["PYTHONPATH"], env.get("SGLANG_PLUGINS")) == (search, plugins)
    name, _, value = held.partition(": ")
    assert declared.get(name) == (value.strip("'") if name else None)
    assert ("PYTHONPATH" in declared) is (name == "PYTHONPATH")
    assert declared["CONFIGURATOR_PROBE_REQUIRED"] == "1"


def test_without_an_instrument_nothing_is_added(tmp_path: Path) -> None:
    text = "extends: ling-3.0-flash-spark\nevidence: {instrument: none, require_report: false}\n"
    launch = first(tmp_path, text)
    assert launch.env == launch.declared
    assert not {"PYTHONPATH", "CONFIGURATOR_PROBE_DIR"} & dict(launch.env).keys()


def test_a_secret_is_one_wherever_it_stands(tmp_path: Path) -> None:
    text = (
        "extends: muse-spark-open-gb300x8\n"
        "serving: {api_key: {env: K}, admin_api_key: {file: /etc/admin}}\n"
    )
    found = secrets_of(made(tmp_path, text))
    assert [(s.name, s.reference.env, s.reference.file) for s in found] == [
        ("secret-1", "K", None), ("secret-2", None, "/etc/admin"),
    ]  # fmt: skip


def test_addresses_are_those_that_a_process_must_know(tmp_path: Path) -> None:
    deployment = resolve(*LIBRARY.profile("muse-spark-open-gb300x8"), LIBRARY)
    router = deployment.processes[-1]
    found = list(addresses_of(router))
    assert [(word.replica, word.host) for word in found] == [(0, 0), (1, 0)]
    assert address_text(found[0], "node-a") == "http://node-a:30000"
    assert list(addresses_of(deployment.processes[0])) == []
    rank = made(tmp_path, MULTI).processes[1]
    assert [address_text(word, "10.0.0.1") for word in addresses_of(rank)] == ["10.0.0.1:20000"]


def test_the_listing_keeps_what_is_no_text_apart(tmp_path: Path) -> None:
    text = f"{MULTI}serving: {{api_key: {{env: K}}, served_model_name: '{{address}}'}}\n"
    rows = json.loads(listing(made(tmp_path, text), FOLDERS))
    assert [(r["host"], r["rank"], r["replica"], r["role"]) for r in rows] == [
        (0, 0, 0, "engine"), (1, 1, 0, "engine"),
    ]  # fmt: skip
    argv = rows[1]["argv"]
    assert argv[argv.index("--api-key") + 1] == {"secret": {"env": "K"}}
    assert argv[argv.index("--dist-init-addr") + 1] == {
        "address": {"replica": 0, "host": 0}, "text": "{address}:20000",
    }  # fmt: skip
    assert argv[argv.index("--served-model-name") + 1] == "{address}"
    assert rows[0]["env"]["CONFIGURATOR_PROBE_DIR"] == "/r/replica-0"
