"""Who answers at an address of this machine, by the system's tables."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in import free_port

from configurator.collector import listeners
from configurator.collector.listeners import holders, open_files, sockets_at, sockets_on, told

OWN = os.getpid()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def listen(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if ":" in host:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        made.bind((host, port))
    except OSError:
        made.close()
        pytest.skip(f"{host} is not an address of this machine")
    made.listen()
    return made


def name(made: socket.socket) -> str:
    return os.readlink(f"/proc/self/fd/{made.fileno()}")


@pytest.mark.parametrize(
    ("bound", "asked", "wanted"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "127.0.0.2", None),
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "127.0.0.1", True),
        ("::", "::1", True),
        ("::1", "[::1]", True),
        ("::1", "127.0.0.1", None),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "no.such.host.invalid", None),
    ],
)
def test_a_socket_answers_at_its_address(
    port: int, bound: str, asked: str, wanted: bool | None
) -> None:
    with listen(bound, port):
        found = told(asked, port, {OWN})
    assert found.theirs is wanted
    assert ("nobody who listens on port" in found.why) is (wanted is None)


def test_the_very_address_goes_before_all_addresses(port: int) -> None:
    with listen("127.0.0.2", port) as one, listen("127.0.0.1", port) as other:
        assert sockets_at("127.0.0.1", port) == {name(other)}
        assert sockets_on(port) == {name(one), name(other)}
        assert sockets_at("127.0.0.3", port) == set()


def test_another_process_is_named(port: int, sleeper: int) -> None:
    with listen("127.0.0.1", port) as made:
        found = told("127.0.0.1", port, {sleeper})
        assert list(holders({name(made)})) == [OWN]
    assert found.theirs is False
    assert found.why.startswith(f"process {OWN} (")
    assert found.why.endswith(f") listens on port {port}")


def test_a_socket_that_a_child_has_inherited_is_its_own_too(port: int) -> None:
    with listen("127.0.0.1", port) as made:
        os.set_inheritable(made.fileno(), True)
        with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
            assert told("127.0.0.1", port, {child.pid}).theirs
            child.kill()


def test_who_shares_a_port_with_others_does_not_answer_alone(port: int, sleeper: int) -> None:
    code = (
        "import socket, sys, time; s = socket.socket(); "
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); "
        f"s.bind(('127.0.0.1', {port})); s.listen(); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with socket.socket() as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(("127.0.0.1", port))
            made.listen()
            assert told("127.0.0.1", port, {OWN}).theirs is False
            assert told("127.0.0.1", port, {OWN, other.pid}).theirs is True
        other.kill()


def test_what_is_gone_cannot_be_told(port: int) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with listen("127.0.0.1", port):
        for pids in ({gone.pid}, set[int]()):
            found = told("127.0.0.1", port, pids)
            assert found.theirs is None
            assert "cannot be seen from here" in found.why
    assert open_files(gone.pid) is None


ROW = "   0: 0100007F:7531 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0\n"


@pytest.mark.skipif(sys.byteorder != "little", reason="the row is of such a machine")
def test_permissions_decide_what_can_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(f"  sl  local_address\n{ROW}")
    for pid in ("7", "8", "self"):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "ns/net").symlink_to("net:[1]")
        (tmp_path / pid / "stat").write_text(f"{pid} (x) S 1")
    (tmp_path / "7/fd").mkdir()
    monkeypatch.setattr(listeners, "PROC", tmp_path)
    # All that 7 has open is seen, so whoever listens is not 7.
    found = told("127.0.0.1", 0x7531, {7})
    assert (found.theirs, found.why) == (
        False, "a process of another user listens on port 30001",
    )  # fmt: skip
    # What 8 has open is not seen.
    assert told("127.0.0.1", 0x7531, {7, 8}).theirs is None
    (tmp_path / "8/stat").write_text("8 (x) Z 1")
    assert told("127.0.0.1", 0x7531, {7, 8}).theirs is False
    # Another network has ports of its own.
    (tmp_path / "7/ns/net").unlink()
    (tmp_path / "7/ns/net").symlink_to("net:[2]")
    assert told("127.0.0.1", 0x7531, {7}).theirs is None
    (tmp_path / "7/fd/3").symlink_to("socket:[4711]")
    assert told("127.0.0.1", 0x7531, {7}).theirs is True
    (tmp_path / "net/tcp").unlink()
    assert told("127.0.0.1", 0x7531, {7}).theirs is None
