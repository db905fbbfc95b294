"""Calls that end, and where they do not go."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from collector.stub import KEY, Stub, closed_url, late

from configurator.collector import client
from configurator.collector.collecting import collect


def test_a_hanging_server_costs_one_time_out(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/health"] = lambda: late(3)
    start = time.monotonic()
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=0.2)
    assert time.monotonic() - start < 2
    assert manifest["replicas"][0]["error"] == "/health: no answer within 0.2 s"


def test_one_page_that_hangs_does_not_stop_the_rest(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/metrics"] = lambda: late(1)
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=0.3)
    assert manifest["replicas"][0]["errors"] == ["/metrics: no answer within 0.3 s"] * 2
    assert len(stub.generated) == 3


def test_a_trickling_body_ends_at_the_deadline() -> None:
    class Drip:
        def read1(self, size: int) -> bytes:
            time.sleep(0.02)
            return b"x"

    with pytest.raises(TimeoutError):
        client._read(Drip(), time.monotonic() + 0.1)


def test_a_huge_body_is_refused(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BODY", 2 << 20)
    stub.answer("/metrics", 200, b"x" * (3 << 20))
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert manifest["replicas"][0]["error"] == "/metrics: the body is larger than 2 MiB"


def test_redirects_are_not_followed(stub: Stub, tmp_path: Path) -> None:
    other = Stub()
    stub.answer("/server_info", 307, b"")
    stub.extra_headers["Location"] = other.url + "/server_info"
    manifest = collect({0: stub.url}, tmp_path / "out", api_key=KEY)
    other.close()
    assert manifest["replicas"][0]["error"] == "/server_info: HTTP 307"
    assert other.seen == []


def test_proxies_are_ignored(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", closed_url())
    monkeypatch.delenv("no_proxy", raising=False)
    assert collect({0: stub.url}, tmp_path / "out")["replicas"][0]["ready"] is True
