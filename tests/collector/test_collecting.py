"""The whole directory, of one replica and of two."""

from __future__ import annotations

from pathlib import Path

from collector.stub import KEY, Stub, closed_url, everything, read

from configurator.collector.collecting import collect


def test_a_ready_server_yields_the_whole_directory(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=5)
    folder = tmp_path / "out" / "replica-0"
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == [
        "loads.json", "metrics.txt", "metrics_startup.txt", "model_info.json",
        "requests/001.json", "requests/002.json", "requests/003.json",
        "server_info.json", "server_info_startup.json",
    ]  # fmt: skip
    assert read(tmp_path / "out" / "manifest.json") == manifest
    assert (manifest["format"], manifest["engine"]["version"]) == (1, "0.5.23")
    replica = manifest["replicas"][0]
    assert (replica["index"], replica["url"]) == (0, stub.url)
    assert (replica["reachable"], replica["ready"], replica["error"]) == (True, True, "")
    assert manifest["environment"] == {"SGLANG_X": "1", "HF_TOKEN": "<redacted>"}
    kinds = [request["kind"] for request in manifest["requests"]]
    assert kinds == ["known-answer", "easy", "easy"]
    last = manifest["requests"][2]
    assert 0 <= last.pop("took_s") <= last.pop("started_s") + 5
    assert last == {
        "replica": 0, "file": "replica-0/requests/003.json", "path": "/generate",
        "kind": "easy", "status": 200, "together": 1,
    }  # fmt: skip
    kept = read(folder / "requests/001.json")
    assert kept["request"] == stub.generated[0]
    assert kept["response"]["meta_info"]["spec_verify_ct"] == 16


def test_the_name_of_server_info_in_older_engines(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/get_server_info"] = stub.pages.pop("/server_info")
    collect({0: stub.url}, tmp_path / "out")
    assert read(tmp_path / "out/replica-0/server_info.json")["version"] == "0.5.23"


def test_two_replicas_of_which_one_is_dead(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({1: closed_url(), 0: stub.url}, tmp_path / "out")
    assert [(r["index"], r["ready"]) for r in manifest["replicas"]] == [(0, True), (1, False)]
    assert {request["replica"] for request in manifest["requests"]} == {0}


def test_the_key_is_sent_and_never_written(stub: Stub, tmp_path: Path) -> None:
    stub.key = KEY
    manifest = collect({0: stub.url}, tmp_path / "out", api_key=KEY)
    assert manifest["replicas"][0]["errors"] == []
    assert KEY not in everything(tmp_path / "out")


def test_no_json_no_file(stub: Stub, tmp_path: Path) -> None:
    stub.answer("/server_info", 200, b"<html>not an engine</html>")
    stub.answer("/model_info", 200, b"[1]")
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert manifest["replicas"][0]["errors"] == [
        "/server_info: HTTP 200 but the body is not a JSON object",
        "/model_info: HTTP 200 but the body is not a JSON object",
        "/server_info: HTTP 200 but the body is not a JSON object",
    ]
    assert not (tmp_path / "out/replica-0/server_info.json").exists()
