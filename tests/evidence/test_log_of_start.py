"""Whether a log is of the server that answers: files outlive servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configurator.evidence.model import Replica
from configurator.evidence.read import read_evidence
from configurator.evidence.serverlog import parse_log

INFO = {
    "version": "0.5.23", "model_path": "/models/a", "random_seed": 222, "port": 30000,
    "tp_size": 1, "dp_size": 1, "pp_size": 1, "kv_cache_dtype": "auto",
}  # fmt: skip
SAME = "model_path='/models/a', random_seed=222, port=30000, tp_size=1, dp_size=1, pp_size=1"
BUILT = (
    "[2026-11-30 05:00:29 TP0] Init torch distributed begin.\n"
    "[2026-11-30 05:00:30 TP0] KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 5\n"
    "[2026-11-30 05:01:00] The server is fired up and ready to roll!\n"
)


def read(tmp_path: Path, log: str, info: dict[str, Any] | None, ready: bool = True) -> Replica:
    folder = tmp_path / "replica-0"
    folder.mkdir()
    (folder / "server.log").write_text(log)
    files = ["server.log"]
    if info is not None:
        (folder / "server_info.json").write_text(json.dumps(info))
        files.append("server_info.json")
    replicas = [{"index": 0, "ready": ready, "files": files}]
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "replicas": replicas}))
    return read_evidence(tmp_path).replicas[0]


def started(arguments: str) -> str:
    return f"[2026-11-30 05:00:00] server_args=ServerArgs({arguments})\n{BUILT}"


@pytest.mark.parametrize(
    ("own", "other", "what"),
    [
        ("random_seed=222", "random_seed=111", "random_seed is 111, and 222 answers"),
        ("'/models/a'", "'/models/b'", "model_path is b, and a answers"),
        ("port=30000", "port=31000", "port is 31000"),
        ("tp_size=1", "tp_size=2", "tp_size is 2"),
        ("dp_size=1", "dp_size=2", "dp_size is 2"),
        ("pp_size=1", "pp_size=2", "pp_size is 2"),
    ],
)
def test_the_log_of_another_start_is_set_aside(
    tmp_path: Path, own: str, other: str, what: str
) -> None:
    replica = read(tmp_path, started(SAME.replace(own, other)), INFO)
    assert replica.log is None
    assert replica.state.state == "ready"
    (reason,) = replica.set_aside
    assert reason.startswith("server.log does not count: it is of another start, whose ")
    assert what in reason


@pytest.mark.parametrize(
    ("arguments", "info"),
    [
        (SAME, INFO),
        (SAME.replace("/models/a", "/mnt/other/a/"), INFO),
        (SAME.replace("222", "None"), INFO),
        (SAME, {"version": "0.5.23"}),
        (SAME, {**INFO, "random_seed": None}),
        (SAME.replace("222", "111"), None),
        ("...", INFO),
        (f"{SAME}, served_model_name='random_seed=1', x=Config(port=2)", INFO),
    ],
)
def test_a_log_that_may_be_of_this_start_counts(
    tmp_path: Path, arguments: str, info: dict[str, Any] | None
) -> None:
    replica = read(tmp_path, started(arguments), info)
    assert replica.set_aside == ()
    assert replica.log is not None
    assert len(replica.log) == 4
    assert replica.log[0].text == "[2026-11-30 05:00:00] server_args="


def test_a_key_in_the_arguments_is_kept_nowhere(tmp_path: Path) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz"
    log = started(f"{SAME.replace('/models/a', f'/models/{key}')}, api_key='{key}'")
    replica = read(tmp_path, log, INFO)
    assert "<redacted>" in replica.set_aside[0]
    assert key not in repr(replica)


def test_a_start_without_its_arguments_begins_anew_after_the_server_was_ready() -> None:
    again = (
        "[2026-11-30 09:00:00 TP0] Init torch distributed begin.\n"
        "[2026-11-30 09:00:00 TP1] Init torch distributed begin.\n"
        "[2026-11-30 09:00:01 TP0] Load weight begin.\n"
    )
    found = parse_log(started(SAME) + again)
    assert [line.number for line in found] == [5, 6, 7]
    assert [
        line.number
        for line in parse_log(started(SAME) + again.replace("torch distributed", "parallel"))
    ] == [5, 6, 7]
    # Ranks of one start begin one after the other.
    ranks = parse_log(started(SAME).replace(BUILT, again + BUILT))
    assert len(ranks) == 7


def test_text_that_was_sent_begins_no_start() -> None:
    sent = "[2026-11-30 09:05:30 TP0] Hit invalid ebnf: key_string='Init torch distributed begin'"
    assert len(parse_log(f"{started(SAME)}{sent}\nInit torch distributed begin\n")) == 6
