"""Rendered scripts: golden text, ShellCheck, and real bash with a stand-in engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from configurator.content import ROOT, Library
from configurator.render import TARGETS, write
from configurator.resolve import resolve

LIBRARY = Library()
GOLDEN = ROOT / "tests" / "golden" / "render"
CLEAN = [
    "ling-3.0-flash-spark",
    "ling-3.0-flash-spark-baseline",
    "ling-3.0-flash-spark-dspark",
    "muse-spark-open-gb300x8",
    "muse-spark-open-gb300x8-tp8",
]
ENGINE = r"""
import http.server, json, os, signal, sys, threading, time
folder = os.environ["STUB"]
if sys.argv[1:2] == ["-c"]:
    if "importlib.metadata" in sys.argv[2]:
        print("0.5.23"); sys.exit(0)
    os.execv(os.environ["REAL_PYTHON"], [os.environ["REAL_PYTHON"], *sys.argv[1:]])
with open(f"{folder}/seen.json", "w") as file:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}, file)
print("Load weight begin. avail mem=1 GB", flush=True)
print("server_args=ServerArgs(api_key='top-secret')", flush=True)
mode = os.environ.get("STUB_MODE", "serve")
if mode == "die":
    print("RuntimeError: out of memory", flush=True); sys.exit(7)
if mode == "hang":
    print("Capture target decode CUDA graph begin", flush=True); time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *args): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
server = http.server.HTTPServer(("127.0.0.1", port), Handler)
if mode == "end":
    threading.Timer(4, lambda: os._exit(5)).start()
server.serve_forever()
"""
CHECKER = r"""
import json, os, sys
with open(os.environ["STUB"] + "/checked.json", "w") as file: json.dump(sys.argv[1:], file)
sys.exit(int(os.environ.get("STUB_CHECK", "0")))
"""


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def rendered(tmp_path: Path, extra: str, base: str = "") -> Path:
    """The output folder of a small profile on the `cpu` machine with `extra` added."""
    profile = tmp_path / "p.yaml"
    profile.write_text(
        base
        or "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        f"hardware: {{name: cpu, gpus: 1}}\nmodel: {{name: qwen3-8b}}\n{extra}"
    )
    out = tmp_path / "out"
    write(TARGETS["bash"](resolve(*LIBRARY.profile(str(profile)), LIBRARY)), out)
    return out


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """PATH with a stand-in `python3` and `configurator` in front."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, code in (("python3", ENGINE), ("configurator", CHECKER)):
        (tools / name).write_text(f"#!{sys.executable}\n{code}")
        (tools / name).chmod(0o755)
    return {
        "PATH": f"{tools}:/usr/bin:/bin",
        "STUB": str(tmp_path),
        "REAL_PYTHON": sys.executable,
        "HOME": str(tmp_path),
        **more,
    }


def launch(out: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(out / "replica0-host0.sh")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def seen(tmp_path: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads((tmp_path / "seen.json").read_text())
    return data


@pytest.mark.parametrize("name", CLEAN)
def test_golden_scripts(name: str, update_golden: bool) -> None:
    files = TARGETS["bash"](resolve(*LIBRARY.profile(name), LIBRARY))
    folder = GOLDEN / name
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        write(files, folder)
    assert {file.path for file in files} == {path.name for path in folder.iterdir()}
    for file in files:
        assert file.text == (folder / file.path).read_text(), "run: pytest --update-golden"


@pytest.mark.parametrize("name", CLEAN)
def test_shellcheck_has_nothing_to_say(name: str) -> None:
    scripts = sorted((GOLDEN / name).glob("*.sh"))
    assert scripts
    shellcheck = shutil.which("shellcheck") or str(Path(sys.executable).parent / "shellcheck")
    done = subprocess.run(
        [shellcheck, "--severity=style", *scripts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_hostile_values_arrive_unchanged_and_shellcheck_is_silent(
    tmp_path: Path, free_port: int, hostile: list[str]
) -> None:
    values = json.dumps(hostile)  # JSON strings are YAML flow strings
    out = rendered(
        tmp_path,
        f"serving: {{port: {free_port}, served_model_name: {json.dumps(hostile[3])}}}\n"
        f"description: {json.dumps(' '.join(hostile))}\n"
        f"extra: {{args: {{words: {values}}}, env: {{"
        + ", ".join(f"V{i}: {json.dumps(value)}" for i, value in enumerate(hostile))
        + "}}\n",
    )
    script = out / "replica0-host0.sh"
    shellcheck = str(Path(sys.executable).parent / "shellcheck")
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    process.communicate(timeout=60)
    data = seen(tmp_path)
    argv, env = data["argv"], data["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    place = argv.index("--words") + 1
    assert argv[place : place + len(hostile)] == hostile
    assert argv[argv.index("--served-model-name") + 1] == hostile[3]
    assert [env[f"V{i}"] for i in range(len(hostile))] == hostile
    assert not (tmp_path / "pwned").exists()
    assert not (out / "pwned").exists()


def test_a_good_launch_checks_serves_and_passes_the_exit_code_on(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="end"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 5, printed
    assert "self-check: good" in printed
    checked = json.loads((tmp_path / "checked.json").read_text())
    assert checked[:4] == ["check", str(out / "profile.yaml"), "--url",
                           f"0=http://127.0.0.1:{free_port}"]  # fmt: skip
    assert checked[checked.index("--log") + 1] == f"0={out}/log/replica0-host0.log"


def test_a_refutation_stops_the_engine(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_CHECK="1"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not in effect" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))


@pytest.mark.parametrize(("mode", "code"), [("warn", 5), ("skip", 5)])
def test_check_modes_that_keep_it_running(
    tmp_path: Path, free_port: int, mode: str, code: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_CHECK="1", STUB_MODE="end", CONFIGURATOR_CHECK=mode)
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == code, printed
    assert ("NOTHING is proven" in printed) is (mode == "skip")


def test_without_the_checker_nothing_is_proven(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, CONFIGURATOR="no-such-command"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "NOTHING is proven" in printed


def test_an_engine_that_dies_shows_its_last_lines_and_no_key(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "RuntimeError: out of memory" in printed
    assert "top-secret" not in printed


def test_an_engine_that_hangs_is_stopped_at_its_phase(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\nstartup: {{timeout_s: 3}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="hang"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not ready after" in printed
    assert "Capture target decode CUDA graph begin" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_ctrl_c_stops_the_engine(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path))
    deadline = time.monotonic() + 60
    while not (tmp_path / "checked.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_secrets_are_read_at_run_time_and_nowhere_written(tmp_path: Path, free_port: int) -> None:
    key = tmp_path / "key"
    key.write_text("swordfish-123\n")
    out = rendered(tmp_path, f"serving: {{port: {free_port}, api_key: {{file: '{key}'}}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    printed, _ = process.communicate(timeout=60)
    argv = seen(tmp_path)["argv"]
    assert isinstance(argv, list)
    assert argv[argv.index("--api-key") + 1] == "swordfish-123"
    assert "swordfish" not in printed + "".join(p.read_text() for p in out.iterdir() if p.is_file())
    assert (out / "log" / "replica0-host0.log").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("extra", "fact"),
    [
        ("memory: {min_available_gib: 100000}\n", "GiB of memory available, the profile needs"),
        ("model: {name: qwen3-8b, path: /no/such/model}\n", "there is no checkpoint at /no/such"),
        ("serving: {api_key: {file: /no/such/key}}\n", "key file /no/such/key cannot be read"),
        ("serving: {api_key: {env: NO_SUCH_KEY}}\n", "variable NO_SUCH_KEY is empty"),
        ("engine: {version: 0.5.17}\n", "sglang is 0.5.23, the profile is for 0.5.17"),
    ],
)
def test_preflight_refuses_before_anything_starts(tmp_path: Path, extra: str, fact: str) -> None:
    key = extra.split(":")[0]
    base = {
        "engine": "engine: {version: 0.5.23}\n",
        "model": "model: {name: qwen3-8b}\n",
        "hardware": "hardware: {name: cpu, gpus: 1}\n",
        key: extra,
    }
    head = "apiVersion: configurator/v1\nkind: Deployment\nname: stub\n"
    out = rendered(tmp_path, "", head + "".join(base.values()))
    process = launch(out, environment(tmp_path, CONFIGURATOR_SKIP="port"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert fact in printed
    assert not (tmp_path / "seen.json").exists()


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        out = rendered(tmp_path, f"serving: {{port: {port}}}\n")
        process = launch(out, environment(tmp_path))
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"port {port} is taken" in printed


def test_the_profile_beside_the_scripts_launches_the_same(tmp_path: Path) -> None:
    for name in CLEAN:
        deployment = resolve(*LIBRARY.profile(name), LIBRARY)
        out = tmp_path / name
        write(TARGETS["bash"](deployment), out)
        again = resolve(*LIBRARY.profile(str(out / "profile.yaml")), LIBRARY)
        assert again.processes == deployment.processes
        assert again.expectations == deployment.expectations
