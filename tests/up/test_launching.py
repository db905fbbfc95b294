"""The words of the processes of a host: addresses, secrets, the interpreter, search paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from up.test_preflight import deployment

from configurator.errors import ConfiguratorError
from configurator.schema.profile import SecretRef
from configurator.up.launching import commands_of, read_secret

TWO_HOSTS = {
    "hardware": {"name": "dgx-spark", "gpus": 2},
    "topology": {"tensor": 2},
}
REPLICAS = {
    "hardware": {"name": "h200", "gpus": 2, "overrides": {"gpus_per_host": 8}},
    "topology": {"replicas": 2},
    "router": {"port": 31000},
}


def test_the_processes_of_this_host_alone(tmp_path: Path) -> None:
    made = deployment(tmp_path, **TWO_HOSTS)
    addresses = {(0, 0): "10.0.0.1"}
    (first,) = commands_of(made, 0, addresses, None, {})
    (second,) = commands_of(made, 1, addresses, None, {})
    assert (first.name, second.name) == ("replica0-host0", "replica0-host1")
    assert (first.answers, second.answers) == (True, False)
    for command in (first, second):
        assert command.argv[command.argv.index("--dist-init-addr") + 1] == "10.0.0.1:20000"
    assert second.argv[second.argv.index("--node-rank") + 1] == "1"


@pytest.mark.parametrize("address", ["fd00::1", "[fd00::1]"])
def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path, address: str) -> None:
    (first,) = commands_of(deployment(tmp_path, **TWO_HOSTS), 0, {(0, 0): address}, None, {})
    assert first.argv[first.argv.index("--dist-init-addr") + 1] == "[fd00::1]:20000"
    assert first.rendezvous == ("fd00::1", 20000)


def test_an_address_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"RUN002.*--address 0\.0=ADDRESS"):
        commands_of(deployment(tmp_path, **TWO_HOSTS), 1, {}, None, {})


def test_replicas_and_router_on_one_host(tmp_path: Path) -> None:
    made = deployment(tmp_path, **REPLICAS)
    instrument = {0: {"CONFIGURATOR_PROBE_DIR": "/a"}, 1: {"CONFIGURATOR_PROBE_DIR": "/b"}}
    one, two, router = commands_of(made, 0, {}, "/venv/python", instrument)
    assert [c.name for c in (one, two, router)] == ["replica0-host0", "replica1-host0", "router"]
    assert [c.url for c in (one, two, router)] == [
        f"http://127.0.0.1:{port}" for port in (30000, 30001, 31000)
    ]
    assert {c.argv[0] for c in (one, two, router)} == {"/venv/python"}
    assert "http://127.0.0.1:30001" in router.argv
    assert (one.env["CUDA_VISIBLE_DEVICES"], two.env["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert two.added["CONFIGURATOR_PROBE_DIR"] == "/b"
    assert "CONFIGURATOR_PROBE_DIR" not in router.env


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("::", "http://[::1]:30000"),
        ("10.1.2.3", "http://10.1.2.3:30000"),
    ],
)
def test_how_this_host_reaches_it(tmp_path: Path, host: str, url: str) -> None:
    (command,) = commands_of(deployment(tmp_path, serving={"host": host}), 0, {}, None, {})
    assert command.url == url


def test_our_search_path_stands_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    made = deployment(tmp_path)
    (command,) = commands_of(made, 0, {}, None, {0: {"PYTHONPATH": "/bundle"}})
    assert command.env["PYTHONPATH"] == f"/bundle{os.pathsep}/mine"
    own = deployment(tmp_path, extra={"env": {"PYTHONPATH": "/profile"}})
    (command,) = commands_of(own, 0, {}, None, {0: {"PYTHONPATH": "/bundle"}})
    assert command.env["PYTHONPATH"] == f"/bundle{os.pathsep}/profile"


def test_a_secret_is_used_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "correct-horse")
    made = deployment(tmp_path, serving={"api_key": {"env": "THE_KEY"}})
    (command,) = commands_of(made, 0, {}, None, {})
    assert command.argv[command.argv.index("--api-key") + 1] == "correct-horse"
    assert "correct-horse" not in repr(command)
    assert command.shown[command.shown.index("--api-key") + 1] == "<redacted>"
    assert "correct-horse" in command.secrets


@pytest.mark.parametrize(
    ("reference", "fact"),
    [
        ({"env": "NO_SUCH_VARIABLE"}, "variable NO_SUCH_VARIABLE cannot be used: it is not set"),
        ({"env": "AN_EMPTY_VARIABLE"}, "variable AN_EMPTY_VARIABLE cannot be used: it is empty"),
        ({"file": "/no/such/file"}, "file /no/such/file cannot be used: No such file"),
        ({"file": "/dev/null"}, "file /dev/null cannot be used: it is empty"),
    ],
)
def test_a_secret_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, reference: dict[str, Any], fact: str
) -> None:
    monkeypatch.setenv("AN_EMPTY_VARIABLE", "")
    with pytest.raises(ConfiguratorError, match=fact) as caught:
        read_secret(SecretRef(**reference))
    assert caught.value.problems[0].code == "RUN003"


@pytest.mark.parametrize(
    ("kept", "fact"),
    [
        (b"correct-horse-1\ncorrect-horse-2\n", "it has 2 lines"),
        (b"correct\rhorse\n", "it has 2 lines"),
        (b"correct-horse\n\n", "it has an empty line at its end"),
        (b"\xef\xbb\xbfcorrect-horse\n", "it begins with a byte order mark"),
        (b" correct-horse", "it has a space or a control character"),
        (b"correct-horse \n", "it has a space or a control character"),
        (b"correct\0horse", "it has a space or a control character"),
        ("süßes-geheimnis".encode(), "it has characters that are not ASCII"),
        (b"\n\n", "it is empty"),
        (b"k" * 5000, "it is longer than 4096 characters"),
    ],
)
def test_a_secret_that_no_request_could_carry(tmp_path: Path, kept: bytes, fact: str) -> None:
    (tmp_path / "key").write_bytes(kept)
    with pytest.raises(ConfiguratorError, match=fact) as caught:
        read_secret(SecretRef(file=str(tmp_path / "key")))
    assert caught.value.problems[0].code == "RUN003"
    assert "horse" not in str(caught.value)


@pytest.mark.parametrize("kept", [b"correct-horse", b"correct-horse\n", b"correct-horse\r\n"])
def test_one_newline_at_the_end_is_none_of_the_secret(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "key").write_bytes(kept)
    assert read_secret(SecretRef(file=str(tmp_path / "key"))) == "correct-horse"
