"""Reading evidence: both layouts, what is missing, what is broken, values of an odd type."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from configurator.errors import ConfiguratorError
from configurator.evidence.read import (
    greedy_requests,
    read_evidence,
    requested_of,
    with_reference,
)


def write(folder: Path, **files: Any) -> Path:
    """A folder of files; `__` in a name stands for the dot, values that are no text are JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def collected(tmp_path: Path, entry: dict[str, Any] | None = None, **files: Any) -> Path:
    """A directory of format 1 with one replica."""
    write(tmp_path / "replica-0", **files)
    replicas = [{"index": 0, "ready": True, **(entry or {})}]
    return write(tmp_path, manifest__json={"format": 1, "replicas": replicas})


def test_a_collected_directory(tmp_path: Path) -> None:
    directory = collected(
        tmp_path,
        {"environment": {"SGLANG_X": 1}, "files": ["server_info.json"]},
        server_info__json={"version": "0.5.23", "launch_command": "serve --tp 2 --enable-metrics"},
        metrics__txt='sglang:cuda_graph_passes_total{mode="decode_none"} 3\nbroken line\n',
        server__log="one\ntwo",
    )
    exchange = {"path": "/generate", "status": 200, "kind": "easy", "response": {"text": "a"}}
    exchange["together"] = 48
    write(tmp_path / "replica-0" / "requests", a__json=exchange, b__json=[1])
    replica = read_evidence(directory).replicas[0]
    assert (replica.state.state, replica.version) == ("ready", "0.5.23")
    assert replica.requested == {"tp": "2", "enable_metrics": True}
    assert replica.environment == {"SGLANG_X": "1"}
    assert replica.metrics is not None
    assert replica.metrics[0].labels == {"mode": "decode_none"}
    assert [line.text for line in replica.log or ()] == ["one", "two"]
    first, second = replica.exchanges
    assert (first.name, first.kind, first.response) == ("requests/a.json", "easy", {"text": "a"})
    assert (second.status, second.kind, second.response) == (0, "unknown", None)
    assert (first.together, second.together) == (48, None)


def test_the_host_beside_the_engine(tmp_path: Path) -> None:
    directory = collected(tmp_path)
    assert read_evidence(directory).replicas[0].host is None
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["host"] = {"gpus": ["NVIDIA GB10, [N/A], 12.1, 580.95"], "memory_kib": 65_011_712}
    write(directory, manifest__json=manifest)
    host = read_evidence(directory).replicas[0].host
    assert host is not None
    assert (host.gpus[0].arch, host.memory_gib) == ("sm_121", 62)


def test_a_reference_run_and_its_greedy_requests(tmp_path: Path) -> None:
    body = {"text": "a", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    warm = {"text": "b", "sampling_params": {"temperature": 0.6}}
    baseline = collected(tmp_path / "baseline", server_info__json={"model_path": "/models/m/"})
    write(
        baseline / "replica-0" / "requests",
        **{
            f"{name}__json": {"path": "/generate", "status": status, "request": request}
            for name, status, request in (
                ("a", 200, body), ("b", 200, warm), ("c", 500, {**body, "text": "c"}),
                ("d", 200, body), ("e", 200, "x"), ("f", 200, {"text": "f"}),
            )
        },
    )  # fmt: skip
    reference = read_evidence(baseline)
    assert greedy_requests(reference) == [body]
    judged = with_reference(read_evidence(collected(tmp_path / "run", {"index": 3})), reference)
    kept = judged.replicas[0].reference
    assert kept is not None
    assert (kept.directory, kept.model, len(kept.exchanges)) == (str(baseline), "m", 6)


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    replica = read_evidence(collected(tmp_path)).replicas[0]
    assert (replica.server_info, replica.metrics, replica.log) == (None, None, None)
    assert (replica.exchanges, replica.reports, replica.traces) == ((), (), ())


def test_a_recording_and_its_packed_files(tmp_path: Path) -> None:
    case = {"cmd": "serve --api-key verysecret --tp 1", "ready_s": 3, "env": "{broken"}
    write(tmp_path, case__json=case, generate_bs2__json=[{"meta_info": {}}, {"meta_info": {}}])
    (tmp_path / "server_info.json.gz").write_bytes(gzip.compress(b'{"version": "0.5.17"}'))
    replica = read_evidence(tmp_path).replicas[0]
    assert (replica.version, replica.state.state, replica.environment) == ("0.5.17", "ready", None)
    assert [e.name for e in replica.exchanges] == ["generate_bs2.json#/0", "generate_bs2.json#/1"]
    assert "verysecret" not in replica.command


def test_every_file_may_be_packed(tmp_path: Path) -> None:
    plain = collected(tmp_path / "plain", {"files": ["server.log"]}, server__log="")
    replica = plain / "replica-0"
    (replica / "server.log").write_bytes(b"\xff one")
    write(replica / "requests", a__json={"kind": "profile"}, b__json={"kind": "easy"})
    write(replica / "reports", a__json={"target": {}, "rank": {"tp_rank": 3}})
    write(replica / "trace", a__json={"traceEvents": []})
    before = read_evidence(plain).replicas[0]
    for path in [path for path in plain.rglob("*") if path.is_file()]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    after = read_evidence(plain).replicas[0]
    assert after.exchanges == before.exchanges
    assert [exchange.kind for exchange in after.exchanges] == ["profile", "easy"]
    assert after.reports == before.reports
    assert [report.rank for report in after.reports] == [3]
    assert [trace.file for trace in after.traces] == ["a.json.gz"]
    assert after.log == before.log
    assert [line.text for line in after.log or ()] == ["\ufffd one"]


def test_packed_responses_of_a_recording(tmp_path: Path) -> None:
    write(tmp_path, case__json={"ready": True, "cmd": "serve"})
    (tmp_path / "generate_bs1.json.gz").write_bytes(gzip.compress(b'{"meta_info": {}}'))
    (exchange,) = read_evidence(tmp_path).replicas[0].exchanges
    assert (exchange.name, exchange.path, exchange.kind) == (
        "generate_bs1.json", "/generate", "unknown",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("files", "code", "fact"),
    [
        ({}, "EVD001", "no manifest.json"),
        ({"manifest__json": "{"}, "EVD002", "manifest.json is not JSON"),
        ({"manifest__json": [1]}, "EVD004", "format None"),
        ({"manifest__json": {"format": 2, "replicas": [{}]}}, "EVD004", "format 2"),
        ({"manifest__json": {"format": 1, "replicas": []}}, "EVD004", "names no replica"),
        (
            {"manifest__json": {"format": 1, "replicas": [{"index": 0, "files": ["server.log"]}]}},
            "EVD003",
            "lacks replica-0/server.log",
        ),
        ({"case__json": {}, "server_info__json": "<html>"}, "EVD002", "server_info.json is not"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, files: dict[str, Any], code: str, fact: str) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read_evidence(write(tmp_path, **files))
    problem = caught.value.problems[0]
    assert problem.code == code
    assert fact in problem.message
    assert problem.remedy


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"EVD001 .*not a directory"):
        read_evidence(tmp_path / "nowhere")


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    write(tmp_path, case__json={})
    packed = gzip.compress(b'{"a": "' + bytes(range(32, 91)) * 9 + b'"}')
    (tmp_path / "server_info.json.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ConfiguratorError, match=r"EVD002 .*server_info\.json cannot be read"):
        read_evidence(tmp_path)


ODD: tuple[Any, ...] = (None, 5, -1.5, "x", [], [None], {}, {"a": [1]}, True)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_values_of_an_odd_type_are_survived(tmp_path: Path, odd: Any) -> None:
    files = [] if odd == [None] else odd
    directory = collected(
        tmp_path, {"files": files, "environment": odd, "ready": odd, "error": odd},
        server_info__json=json.dumps(odd), model_info__json=json.dumps(odd),
        loads__json=json.dumps(odd),
    )  # fmt: skip
    write(directory / "replica-0" / "requests", a__json=json.dumps(odd))
    write(directory / "replica-0" / "reports", r__json={"target": {"lm_head": odd}, "rank": odd})
    events = [{"name": "k", "cat": "kernel", "dur": odd, "args": {"correlation": odd}}, odd]
    write(directory / "replica-0" / "trace", a__json={"traceEvents": events})
    write(directory / "replica-0" / "trace", b__json={"traceEvents": odd})
    replica = read_evidence(directory).replicas[0]
    assert [kernel.name for kernel in replica.traces[0].kernels] == ["k"]
    assert replica.traces[1].kernels == ()
    assert replica.reports[0].rank is None


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("serve --tp=2 --tp 4", {"tp": "4"}),
        ("serve --cuda-graph-bs 1 2 4 --x", {"cuda_graph_bs": ["1", "2", "4"], "x": True}),
        ("serve --json '{\"a\": 1}'", {"json": '{"a": 1}'}),
        ("serve --open 'quote", {"open": "'quote"}),
        ("", {}),
    ],
)
def test_arguments_of_a_command(command: str, arguments: dict[str, Any]) -> None:
    assert requested_of(command) == arguments


def test_hooks_and_the_report_in_the_servers_answer_are_read(tmp_path: Path) -> None:
    hooks = {"schema": "configurator/hooks/1", "pid": 7, "registered": ["a.b"], "missing": {}}
    report = {"schema": "configurator/report/1", "stage": "ready", "rank": {"tp_rank": 0},
              "target": {"model_class": "Answered"}, "drafts": []}  # fmt: skip
    folder = tmp_path / "replica-0"
    (folder / "reports").mkdir(parents=True)
    (folder / "reports" / "hooks-7.json").write_text(json.dumps(hooks))
    (folder / "server_info.json").write_text(json.dumps({"configurator_probe": report}))
    entry = {"index": 0, "ready": True, "files": []}
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "replicas": [entry]}))
    (replica,) = read_evidence(tmp_path).replicas
    assert [(found.process, found.registered) for found in replica.hooks] == [(7, ("a.b",))]
    (answered,) = replica.reports
    assert (answered.file, answered.rank) == ("server_info.json#/configurator_probe", 0)
    own = {**report, "target": {"model_class": "Written"}}
    (folder / "reports" / "report-tp0-pp0-dp0.json").write_text(json.dumps(own))
    (replica,) = read_evidence(tmp_path).replicas
    assert replica.reports == ()
    (why,) = replica.set_aside
    assert "server_info.json#/configurator_probe and reports/report-tp0-pp0-dp0.json" in why
    assert "contradict each other" in why


@pytest.mark.parametrize(
    "indices", [["0"], [None], [True], [-1], [10**30], ["../replica-0"], [0, 0], [0, "1"], [0.0]]
)
def test_a_replica_has_a_number_of_its_own(tmp_path: Path, indices: list[Any]) -> None:
    directory = collected(tmp_path)
    replicas = [{"index": index, "ready": True} for index in indices]
    write(directory, manifest__json={"format": 1, "replicas": replicas})
    with pytest.raises(ConfiguratorError) as raised:
        read_evidence(directory)
    assert [problem.code for problem in raised.value.problems] == ["EVD004"]


def test_a_report_of_a_later_schema_is_named_and_not_read(tmp_path: Path) -> None:
    directory = collected(tmp_path)
    later = {"schema": "configurator/report/2", "target": {"model_class": "X"}}
    write(directory / "replica-0" / "reports", r__json=later)
    (replica,) = read_evidence(directory).replicas
    assert replica.reports == ()
    assert replica.set_aside == (
        "reports/r.json does not count: its schema is configurator/report/2",
    )


def test_a_report_of_another_model_than_the_command_serves_does_not_count(tmp_path: Path) -> None:
    info = {"launch_command": "serve --model-path /models/served"}
    directory = collected(tmp_path, server_info__json=info)
    other = {"target": {"model_class": "X", "model_path": "other"}}
    write(directory / "replica-0" / "reports", r__json=other)
    (replica,) = read_evidence(directory).replicas
    assert replica.reports == ()
    assert "it is of the model other, and served is served" in replica.set_aside[0]


def test_numbers_and_texts_that_cannot_be_written_out_are_mended(tmp_path: Path) -> None:
    text = '{"much": 1%s, "odd": ["\\ud800x", {"\\udc00": 1}], "pair": "\\ud83d\\ude00"}'
    directory = collected(tmp_path, server_info__json=text % ("0" * 400))
    info = read_evidence(directory).replicas[0].server_info
    assert info is not None
    assert info["much"] == float("inf")
    assert info["odd"] == ["\ufffdx", {"\ufffd": 1}]
    assert info["pair"] == "\U0001f600"
