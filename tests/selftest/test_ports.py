"""Ports of servers that run side by side."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from itertools import pairwise

import pytest

from configurator.selftest import ports as ports_module
from configurator.selftest.matrix import Start
from configurator.selftest.ports import Ports

FREE, TAKEN = Start(model="good"), Start(model="good", port="taken")


def test_servers_are_far_apart_and_below_what_others_draw() -> None:
    ports = Ports()
    with ExitStack() as held:
        found = sorted(held.enter_context(ports.for_server(FREE)) for _ in range(8))
        assert all(after - before >= 500 for before, after in pairwise(found))
        assert found[-1] + 500 <= 22_000
    assert ports._used == set()  # all may be had again


def test_a_free_port_can_be_listened_on_at_once() -> None:
    with Ports().for_server(FREE) as port, socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port


def test_a_port_that_somebody_has_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        # The range is drawn from until another port comes.
        monkeypatch.setattr(ports_module, "_RANGE", [taken] * 9 + [taken + 1, taken + 2])
        for _ in range(5):
            with Ports().for_server(FREE) as port:
                assert port in (taken + 1, taken + 2)


def test_a_stranger_hangs_up_on_everybody() -> None:
    with Ports().for_server(TAKEN) as port, socket.create_connection(("127.0.0.1", port)) as client:
        assert client.recv(1) == b""
