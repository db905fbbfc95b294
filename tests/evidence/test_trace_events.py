"""Reading traces event by event: any length, and nothing that is broken or made to do harm."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from configurator.errors import ConfiguratorError
from configurator.evidence import trace, trace_events
from configurator.evidence.trace import read_trace


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    about: dict[str, Any] = {}
    return list(trace_events.trace_events(path, about)), about


def written(tmp_path: Path, text: str | bytes, name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 1 << 20])
def test_events_are_found_wherever_a_piece_ends(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [{"name": f"käse {n} \" ] }}", "ts": n * 1.25, "args": {"a": [n, [], {}]}}
              for n in range(40)]  # fmt: skip
    data = {
        "schemaVersion": 1, "deviceProperties": [{"name": "a GPU"}], "traceEvents": events,
        "traceName": "x", "distributedInfo": {"rank": 3},
    }  # fmt: skip
    monkeypatch.setattr(trace_events, "PIECE", piece)
    for text in (
        json.dumps(data),
        json.dumps(data, indent=1),
        json.dumps(data, ensure_ascii=False),
    ):
        found, about = read(written(tmp_path, text))
        assert found == events
        assert about == {"deviceProperties": [{"name": "a GPU"}], "distributedInfo": {"rank": 3}}
        packed = written(tmp_path, gzip.compress(text.encode()), "b.trace.json.gz")
        assert read(packed)[0] == events


def test_an_array_of_events_and_other_json(tmp_path: Path) -> None:
    assert read(written(tmp_path, '[{"a": 1}, 5, null, [], {"b": 2} ]'))[0] == [{"a": 1}, {"b": 2}]
    for text in ("[]", "{}", "12", '"x"', "null", '{"traceEvents": 5}', '{"traceEvents": []}'):
        assert read(written(tmp_path, text)) == ([], {})


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "is cut off or no JSON"),
        ("{", "is cut off or no JSON"),
        ('{"traceEvents": [{"a": 1}', "is cut off"),
        ('{"traceEvents": [{"a": 1},', "is cut off or no JSON"),
        ('{"traceEvents": [{"a": 1}] ', "is cut off"),
        ('{"traceEvents": [{"a": 1} {"b": 2}]}', "a comma or ] is wanted"),
        ('{"traceEvents": [{"a": 1},]}', "is cut off or no JSON"),
        ('{"traceEvents": [{"a": tru}]}', "is cut off or no JSON"),
        ('{"traceEvents": []} x', "something follows the end"),
        ('{"traceEvents": [], "traceEvents": []}', "names traceEvents twice"),
        ("{5: []}", "a name and a colon are wanted"),
        ('{"a" []}', "a name and a colon are wanted"),
        ("[" * 200_000, "nested too deep"),
        ('{"traceEvents": [' + "[" * 200_000, "nested too deep"),
        ('[{"a": ' + "9" * 5000 + "}]", "cannot be read"),
        ("\x00\x01", "is cut off or no JSON"),
    ],
)
def test_what_is_broken_is_said(tmp_path: Path, text: str, fact: str) -> None:
    with pytest.raises(ConfiguratorError) as raised:
        read(written(tmp_path, text))
    (problem,) = raised.value.problems
    assert problem.code == "EVD002"
    assert str(tmp_path / "a.json") in problem.message
    assert fact in problem.message
    assert problem.remedy == "record it again, with at most 20 steps"


@pytest.mark.parametrize("left", [1, 20, 200])
def test_a_packed_file_that_is_cut_off(tmp_path: Path, left: int) -> None:
    events = ", ".join(json.dumps({"name": os.urandom(9).hex()}) for _ in range(99))
    whole = gzip.compress(f"[{events}]".encode())
    with pytest.raises(ConfiguratorError, match=r"EVD002 .* (cannot be unpacked|cut off|no JSON)"):
        read(written(tmp_path, whole[:-left] if left < 200 else whole[:left], "a.json.gz"))
    damaged = whole[:60] + bytes(8) + whole[68:]
    with pytest.raises(ConfiguratorError, match="EVD002"):
        read(written(tmp_path, damaged, "b.json.gz"))


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for path, fact in (
        (pipe, "is a pipe, not a file"),
        (tmp_path, "is a directory, not a file"),
        (Path("/dev/zero"), "is a device, not a file"),
        (tmp_path / "none.json", "No such file"),
    ):
        with pytest.raises(ConfiguratorError, match=f"EVD002 .*{fact}"):
            read(path)


def test_limits_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_events, "MOST_BYTES", 3 << 30)
    monkeypatch.setattr(trace_events, "PIECE", 1000)
    bomb = written(tmp_path, gzip.compress(b"[" + b" " * 5_000_000 + b"]"), "bomb.json.gz")
    assert read(bomb) == ([], {})
    monkeypatch.setattr(trace_events, "MOST_BYTES", 1_000_000)
    with pytest.raises(ConfiguratorError, match=r"bomb\.json\.gz holds over 0 GiB, more than is"):
        read(bomb)
    with pytest.raises(ConfiguratorError, match=r"big\.json is larger than"):
        read(written(tmp_path, "[" + " " * 2_000_000 + "]", "big.json"))
    monkeypatch.setattr(trace_events, "MOST_VALUE", 10_000)
    with pytest.raises(ConfiguratorError, match="or a value of over 0 MiB"):
        read(written(tmp_path, '[{"a": "' + "x" * 30_000 + '"}]'))
    monkeypatch.setattr(trace_events, "MOST_VALUES", 50)
    with pytest.raises(ConfiguratorError, match="holds over 50 events, more than is read"):
        read(written(tmp_path, json.dumps([1] * 60)))


def test_what_is_kept_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [{"cat": "kernel", "name": f"k{n}", "ts": n, "dur": 1} for n in range(30)]
    path = written(tmp_path, json.dumps(kernels))
    monkeypatch.setattr(trace, "_MOST_NAMES", 20)
    with pytest.raises(ConfiguratorError, match="names over 20 different kernels"):
        read_trace(path)
    monkeypatch.setattr(trace, "MOST_KEPT", 10)
    with pytest.raises(ConfiguratorError, match="holds over 10 kernels, copies and launches"):
        read_trace(path)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    event = json.dumps({"cat": "cpu_op", "name": "aten::mm", "ts": 1.5, "args": {"a": "x" * 300}})
    path = written(tmp_path, "[" + ",\n".join([event] * 60_000) + "]")
    size = path.stat().st_size
    assert size > 20_000_000
    tracemalloc.start()
    try:
        assert read_trace(path).events == 60_000
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8_000_000


def test_numbers_and_names_of_odd_kinds(tmp_path: Path) -> None:
    text = """[
      {"cat": "kernel", "name": "a", "ts": NaN, "dur": Infinity},
      {"cat": "kernel", "name": "a", "ts": 1, "dur": -5, "args": {"correlation": true}},
      {"cat": "kernel", "name": "half \\ud800 pair", "ts": 1e400, "dur": 2, "name": "b \\udc00"},
      {"cat": "kernel", "cat": "cpu_op", "name": "last one counts"},
      {"cat": ["kernel"], "name": "c"}, {"cat": "kernel", "name": {}}
    ]"""
    found = read_trace(written(tmp_path, text))
    assert [(one.name, one.count, one.mean_us) for one in found.kernels] == [
        ("b \ufffd", 1, 2.0), ("a", 2, 0.0),
    ]  # fmt: skip
    assert found.events == 6


def test_a_merged_trace_is_refused(tmp_path: Path) -> None:
    events = [
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": 1, "ts": 1,
         "args": {"correlation": pid}}
        for pid in (1, 2)
    ]  # fmt: skip
    with pytest.raises(ConfiguratorError, match=r"launches of 2 processes.*each rank"):
        read_trace(written(tmp_path, json.dumps(events)))


def test_steps_that_overlap_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from configurator.evidence import trace_steps

    monkeypatch.setattr(trace_steps, "MOST_SHARED", 50)
    events: list[dict[str, Any]] = [
        {"cat": "user_annotation", "name": "step[DECODE bs=1]", "ts": n / 100, "dur": 50, "tid": 1}
        for n in range(20)
    ]
    events.append({"cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 10, "tid": 1,
                   "args": {"correlation": 1}})  # fmt: skip
    events += [{"cat": "kernel", "name": "k", "ts": 20, "dur": 1, "args": {"correlation": 1}}] * 4
    with pytest.raises(ConfiguratorError, match="its steps overlap: over 50 kernels in them"):
        read_trace(written(tmp_path, json.dumps(events)))
