"""The recordings that ship, and the server that replays them."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from configurator.collector.collecting import collect
from configurator.collector.redaction import redact_text
from configurator.demo.server import HEADER, RECORDINGS, RecordedServer, recording
from configurator.errors import ConfiguratorError

NAMES = ("healthy", "sabotaged")


def load(path: Path) -> Any:
    return json.loads(path.read_text())


def acceptance(folder: Path) -> list[tuple[int, int, list[int]]]:
    """Completion tokens, verify steps and histogram of every request."""
    metas = [load(p)["response"]["meta_info"] for p in sorted(folder.glob("requests/*.json"))]
    return [
        (m["completion_tokens"], m["spec_verify_ct"], m["spec_correct_drafts_histogram"])
        for m in metas
    ]


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, response.headers[HEADER], response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers[HEADER], error.read().decode()


# --- the recordings ----------------------------------------------------------------------------


def test_the_healthy_recording_accepts_every_draft() -> None:
    found = acceptance(recording("healthy") / "replica-0")
    assert found == [(128, 32, [0, 0, 0, 32])] * 13


def test_the_sabotaged_recording_accepts_none_and_looks_the_same() -> None:
    found = acceptance(recording("sabotaged") / "replica-0")
    assert found == [(128, 127, [127]), *[(128, 126, [125, 1])] * 3]
    texts = [
        [load(p)["response"]["text"] for p in sorted(folder.glob("requests/*.json"))[:4]]
        for folder in (recording(name) / "replica-0" for name in NAMES)
    ]
    assert texts[0] == texts[1]
    log = (recording("sabotaged") / "replica-0" / "server.log").read_text()
    assert not re.search(r"error|traceback", log, re.IGNORECASE)


@pytest.mark.parametrize(
    ("name", "method", "same_module"),
    [("healthy", "Fp8HeadStub", True), ("sabotaged", "UnquantizedEmbeddingMethod", False)],
)
def test_the_report_tells_how_the_head_is_shared(name: str, method: str, same_module: bool) -> None:
    (path,) = (recording(name) / "replica-0" / "reports").glob("*.json")
    draft = load(path)["drafts"][0]
    assert draft["lm_head"]["quant_method"] == method
    assert draft["head_shared_with_target"]["same_module"] is same_module
    assert draft["head_shared_with_target"]["same_storage"] is True


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_complete_format_1(name: str) -> None:
    manifest = load(recording(name) / "manifest.json")
    assert (manifest["format"], manifest["engine"]["version"]) == (1, "0.5.23")
    (replica,) = manifest["replicas"]
    assert (replica["ready"], replica["errors"]) == (True, [])
    folder = recording(name) / "replica-0"
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == sorted(replica["files"])
    assert "recorded on CPU with a tiny synthetic model" in manifest["notes"][-1]


def test_the_recordings_are_small_and_hold_neither_secrets_nor_machine_paths() -> None:
    files = [path for path in RECORDINGS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 410_000
    for path in files:
        text = path.read_text()
        assert redact_text(text) == text, path
        assert not re.search(r"(?<![\w.])/(?:tmp|home|root|work|opt|usr)/", text), path


# --- the server --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_is_collected_from_it_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    source = recording(name) / "replica-0"
    with RecordedServer(recording(name)) as server:
        manifest = collect(
            {0: server.url}, tmp_path / "out", level=2, logs={0: server.log},
            reports={0: server.reports},
        )  # fmt: skip
    copy = tmp_path / "out" / "replica-0"
    assert manifest["replicas"][0]["errors"] == []
    assert acceptance(copy) == acceptance(source)
    for file in ("server_info.json", "server_info_startup.json", "loads.json", "model_info.json"):
        assert load(copy / file) == load(source / file)
    for file in ("metrics.txt", "metrics_startup.txt", "server.log"):
        assert (copy / file).read_text() == (source / file).read_text()
    assert [p.name for p in (copy / "reports").iterdir()] == [
        p.name for p in (source / "reports").iterdir()
    ]


def test_it_listens_on_loopback_and_says_that_it_is_a_recording() -> None:
    with RecordedServer(recording("healthy")) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url)
        assert get(server.url + "/health") == (200, "healthy", "")
        status, name, body = get(server.url + "/v1/models")
        assert (status, name) == (200, "healthy")
        assert json.loads(body)["data"][0]["id"] == "models/glm4moe-mtp-good"
        assert get(server.url + "/nothing")[:2] == (404, "healthy")
        assert get(server.url + "/../manifest.json")[0] == 404
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.url + "/health", timeout=5)


def test_the_pages_change_with_the_first_request_and_responses_start_again() -> None:
    source = recording("sabotaged") / "replica-0"
    with RecordedServer(recording("sabotaged")) as server:
        assert "avg_spec_accept_length" not in get(server.url + "/get_server_info")[2]
        told = []
        for _ in range(5):
            request = urllib.request.Request(server.url + "/generate", data=b"{}")
            with urllib.request.urlopen(request, timeout=5) as response:
                told.append(json.loads(response.read()))
        assert told[:4] == [load(p)["response"] for p in sorted(source.glob("requests/*.json"))]
        assert told[4] == told[0]
        after = json.loads(get(server.url + "/server_info")[2])
        assert after["internal_states"][0]["avg_spec_accept_length"] < 1.01


def test_a_recording_that_does_not_exist() -> None:
    with pytest.raises(ConfiguratorError, match="no recording is named 'sick'; known: healthy, s"):
        recording("sick")


def test_a_directory_that_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="no requests of replica 0"):
        RecordedServer(tmp_path)
