"""The trace of level 3: bounded, brought along, and the profiler off whatever happens."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from collector.stub import KEY, Answer, Stub, closed_url, everything, read
from stand_in import as_from_a_terminal

from configurator.collector import profiling, tracefiles
from configurator.collector.collecting import collect
from configurator.collector.inputs import CollectError
from configurator.evidence.read import read_evidence

TRACE = gzip.compress(b'{"traceEvents": [{"cat": "kernel", "name": "k", "dur": 2}]}')
REPOSITORY = Path(__file__).parents[2]


class Profiler:
    """The profiler of a stub, as SGLang 0.5.17 and 0.5.23 have it."""

    def __init__(self, stub: Stub, folder: Path, ranks: int = 1) -> None:
        self.stub, self.folder, self.ranks = stub, folder, ranks
        self.asked: list[dict[str, Any]] = []
        self.armed: dict[str, Any] | None = None
        self.running: dict[str, Any] | None = None
        self.ends_by_itself = True
        self.written = TRACE
        self.generate = stub.generate
        folder.mkdir(exist_ok=True)
        stub.posts |= {
            "/start_profile": self.start, "/stop_profile": self.stop, "/generate": self.work,
        }  # fmt: skip

    def start(self, body: dict[str, Any]) -> Answer:
        self.asked.append(body)
        if self.running is not None:
            return 500, b"Internal Server Error"
        self.armed = body
        return 200, b"Start profiling.\n"

    def stop(self, body: dict[str, Any]) -> Answer:
        if self.running is None:
            return 500, b"Internal Server Error"
        self.write(self.running)
        self.running = None
        return 200, b"Stop profiling.\n"

    def work(self, body: dict[str, Any]) -> Answer:
        if self.armed is not None and self.armed["start_step"] < 1000:
            self.running, self.armed = self.armed, None
        if self.running is not None and self.ends_by_itself:
            self.stop({})
        return self.generate(body)

    def write(self, body: dict[str, Any]) -> None:
        for rank in range(self.ranks):
            name = f"{body['profile_id']}-TP-{rank}.trace.json.gz"
            (Path(body["output_dir"]) / name).write_bytes(self.written)

    @property
    def is_off(self) -> bool:
        return self.running is None and (self.armed is None or self.armed["start_step"] > 1 << 40)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefiles, "FREE", 1)
    monkeypatch.setattr(tracefiles, "_QUIET_S", 0.2)
    monkeypatch.setattr(profiling, "_FILES_S", 0.5)
    monkeypatch.setattr(profiling, "_LATE_S", 0.2)


@pytest.fixture
def profiler(stub: Stub, tmp_path: Path) -> Profiler:
    stub.steps = 400
    return Profiler(stub, tmp_path / "traces")


def collected(profiler: Profiler, out: Path, **more: Any) -> dict[str, Any]:
    more = {"trace_dir": str(profiler.folder), "level": 3, **more}
    return collect({0: profiler.stub.url}, out, **more)


def test_a_trace_is_brought_along(profiler: Profiler, tmp_path: Path) -> None:
    manifest = collected(profiler, tmp_path / "out")
    (replica,) = manifest["replicas"]
    first, last = profiler.asked
    mark = first["profile_id"]
    assert first == {
        "start_step": 1, "num_steps": 16, "activities": ["CPU", "GPU"], "with_stack": False,
        "record_shapes": False, "profile_id": mark, "output_dir": str(profiler.folder),
    }  # fmt: skip
    assert last["start_step"] == 1 << 53
    name = f"trace/{mark}-TP-0.trace.json.gz"
    assert replica["profile"] == {
        "id": mark, "folder": str(profiler.folder), "steps": 16, "files": [name], "state": "off",
        "answered": True,
    }  # fmt: skip
    assert read(tmp_path / "out/replica-0/profile.json") == replica["profile"]
    assert manifest["notes"] == []
    assert profiler.is_off
    # Nobody else knows of the engine's own copy.
    assert list(profiler.folder.iterdir()) == []
    (trace,) = read_evidence(tmp_path / "out").replicas[0].traces
    assert [(kernel.name, kernel.mean_us) for kernel in trace.kernels] == [("k", 2.0)]
    # Nothing was asked to stop: that would write an error into the engine's log.
    assert "/stop_profile" not in profiler.stub.seen


def test_the_request_is_long_enough_and_not_kept(profiler: Profiler, tmp_path: Path) -> None:
    profiler.stub.info |= {"speculative_num_draft_tokens": 4, "dp_size": 2, "tp_size": 1}
    manifest = collected(profiler, tmp_path / "out")
    *_, first, second = profiler.stub.generated
    for body in (first, second):
        assert body["sampling_params"] == {
            "temperature": 0, "max_new_tokens": 80, "ignore_eos": True,
        }  # fmt: skip
    assert first["text"] != second["text"]
    assert len(manifest["requests"]) == len(profiler.stub.generated) - 2


def test_every_rank_of_the_host(profiler: Profiler, tmp_path: Path) -> None:
    profiler.ranks, profiler.stub.info["tp_size"] = 2, 4
    profiler.stub.info["nnodes"] = 2
    manifest = collected(profiler, tmp_path / "out")
    names = manifest["replicas"][0]["profile"]["files"]
    assert [name.split("-TP-")[1] for name in names] == ["0.trace.json.gz", "1.trace.json.gz"]


def test_a_profile_that_goes_on_is_stopped(profiler: Profiler, tmp_path: Path) -> None:
    profiler.ends_by_itself = False
    manifest = collected(profiler, tmp_path / "out")
    assert profiler.is_off
    assert manifest["replicas"][0]["profile"]["state"] == "off"
    # What it had recorded is brought along all the same.
    assert len(manifest["replicas"][0]["profile"]["files"]) == 1


def test_another_profile_is_left_alone(profiler: Profiler, tmp_path: Path) -> None:
    theirs = {"profile_id": "theirs", "output_dir": str(profiler.folder)}
    profiler.running, profiler.ends_by_itself = theirs, False
    manifest = collected(profiler, tmp_path / "out")
    assert manifest["replicas"][0]["profile"]["state"] == "refused"
    assert manifest["notes"] == [
        "replica 0: no trace: /start_profile was refused: a profile runs already, or the log says "
        "why; record one yourself and give it by --trace"
    ]
    assert profiler.running is theirs
    assert len(profiler.asked) == 1


@pytest.mark.parametrize(
    ("status", "fact"),
    [(403, "wants another key"), (404, "has no /start_profile"), (400, "HTTP 400")],
)
def test_a_server_that_refuses(profiler: Profiler, tmp_path: Path, status: int, fact: str) -> None:
    profiler.stub.posts["/start_profile"] = lambda body: (status, b"no")
    manifest = collected(profiler, tmp_path / "out")
    assert fact in manifest["notes"][0]
    assert manifest["replicas"][0]["errors"] == []


def test_requests_that_fail(profiler: Profiler, tmp_path: Path) -> None:
    def fail(body: dict[str, Any]) -> Answer:
        return (500, b"no") if body["sampling_params"].get("ignore_eos") else good(body)

    good = profiler.work
    profiler.stub.posts["/generate"] = fail
    manifest = collected(profiler, tmp_path / "out")
    # It never began, and will not begin with the next request of somebody else.
    assert profiler.is_off
    assert manifest["replicas"][0]["profile"]["state"] == "off"
    assert "no request was answered while it ran" in manifest["notes"][-1]


def test_a_server_that_ends(profiler: Profiler, tmp_path: Path) -> None:
    def die(body: dict[str, Any]) -> Answer:
        if body["sampling_params"].get("ignore_eos"):
            profiler.stub.answer("/health", 503, b"")
            profiler.stub.posts["/start_profile"] = lambda body: (500, b"")
            return 500, b""
        return profiler.generate(body)

    profiler.stub.posts["/generate"] = die
    (replica,) = collected(profiler, tmp_path / "out")["replicas"]
    assert replica["ready"] is False
    assert replica["error"] == "the server ended while it was traced: /health: HTTP 503"
    assert replica["profile"]["state"] == "ended"


def test_a_profiler_that_cannot_be_stopped(profiler: Profiler, tmp_path: Path) -> None:
    profiler.ends_by_itself = False
    profiler.stub.posts["/stop_profile"] = lambda body: (500, b"")
    (replica,) = collected(profiler, tmp_path / "out")["replicas"]
    assert replica["errors"] == [
        "the profiler is not known to be off: HTTP 500 Internal Server Error; POST /stop_profile"
    ]


def test_a_file_that_is_never_whole(profiler: Profiler, tmp_path: Path) -> None:
    profiler.written = TRACE[:-9]
    began = time.monotonic()
    manifest = collected(profiler, tmp_path / "out")
    assert time.monotonic() - began < 30
    mark = profiler.asked[0]["profile_id"]
    assert manifest["notes"][-1] == (
        f"replica 0: no trace was found: look for {profiler.folder}/{mark}-*.trace.json.gz on the "
        "engine's host, and give it by --trace"
    )


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        ({"trace_dir": "/no/such/folder"}, "/no/such/folder does not exist, and a profile that"),
        ({"trace_dir": "traces"}, "the folder traces of traces is no absolute path"),
        ({"trace_dir": "/proc/self/status"}, "is no directory"),
        ({"passive": True}, "--passive sends no request"),
    ],
)
def test_nothing_is_begun_that_could_end_badly(
    profiler: Profiler, tmp_path: Path, more: dict[str, Any], fact: str
) -> None:
    manifest = collected(profiler, tmp_path / "out", **more)
    assert fact in manifest["notes"][0]
    assert profiler.asked == []


def test_a_full_disk_and_a_profiler_without_an_end(
    profiler: Profiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracefiles, "FREE", 1 << 60)
    manifest = collected(profiler, tmp_path / "one")
    assert f"{profiler.folder} has less than {1 << 40} MiB free" in manifest["notes"][0]
    monkeypatch.setattr(tracefiles, "FREE", 1)
    variables = profiler.stub.info["internal_states"][0]["env_vars"]
    variables["SGLANG_PROFILE_V2"] = "true"
    manifest = collected(profiler, tmp_path / "two")
    assert "SGLANG_PROFILE_V2 is set, and that profiler cannot be stopped" in manifest["notes"][0]
    assert profiler.asked == []


def test_the_folder_of_the_engines_environment(profiler: Profiler, tmp_path: Path) -> None:
    variables = profiler.stub.info["internal_states"][0]["env_vars"]
    variables["SGLANG_TORCH_PROFILER_DIR"] = str(profiler.folder)
    collected(profiler, tmp_path / "out", trace_dir=None)
    assert profiler.asked[0]["output_dir"] == str(profiler.folder)


def test_a_secret_in_a_trace(profiler: Profiler, tmp_path: Path) -> None:
    profiler.written = gzip.compress(b'{"x": "' + b"." * (1 << 20) + KEY.encode() + b'"}')
    manifest = collected(profiler, tmp_path / "out", api_key=KEY)
    assert manifest["notes"][0].endswith("left out: a secret stands in it")
    assert not (tmp_path / "out/replica-0/trace").exists()
    assert KEY not in everything(tmp_path / "out")


def test_traces_that_are_given(profiler: Profiler, tmp_path: Path) -> None:
    given = tmp_path / "mine-TP-0.trace.json.gz"
    given.write_bytes(TRACE)
    manifest = collected(profiler, tmp_path / "out", traces={0: [given]})
    assert manifest["replicas"][0]["files"][-1] == "trace/mine-TP-0.trace.json.gz"
    assert (tmp_path / "out/replica-0/trace/mine-TP-0.trace.json.gz").read_bytes() == TRACE
    # With one at hand none is recorded.
    assert profiler.asked == []


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        (["none.json"], "is not a file"),
        (["a.txt"], "a name that ends in .json"),
        (["a/x.json", "b/x.json"], "two traces have one name"),
    ],
)
def test_traces_that_cannot_be_used(tmp_path: Path, names: list[str], fact: str) -> None:
    for name in names:
        if "none" not in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(TRACE)
    with pytest.raises(CollectError, match=fact):
        collect({0: closed_url()}, tmp_path / "out", traces={0: [tmp_path / n for n in names]})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whoever_ends_the_collector(
    profiler: Profiler, tmp_path: Path, number: signal.Signals
) -> None:
    profiler.ends_by_itself = False
    slow = profiler.work

    def wait(body: dict[str, Any]) -> Answer:
        found = slow(body)
        if body["sampling_params"].get("ignore_eos"):
            time.sleep(2)
        return found

    profiler.stub.posts["/generate"] = wait
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "configurator.collector", "--url", profiler.stub.url, "--out",
         str(out), "--level", "3", "--trace-dir", str(profiler.folder)],
        cwd=REPOSITORY, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, preexec_fn=as_from_a_terminal,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while profiler.running is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert profiler.running is not None
    process.send_signal(number)
    assert process.wait(30) not in (0, None)
    assert profiler.is_off
    assert read(out / "replica-0/profile.json")["state"] == "off"
    assert "/stop_profile" in profiler.stub.seen
