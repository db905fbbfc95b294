"""A stand-in engine and checker, with which rendered scripts run under real bash."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from configurator.content import Library
from configurator.render import TARGETS, write
from configurator.resolve import resolve

LIBRARY = Library()
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
"""What ends a script in order, and its exit code then."""
MEETING_PORT = 20_000
"""Where ranks over hosts meet, unless a profile says otherwise."""
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
if "--api-key" in sys.argv:
    key = sys.argv[sys.argv.index("--api-key") + 1]
    print(f"argv {sys.argv}\nargs {dict(api_key=key, admin_api_key=None)}", flush=True)
    print(json.dumps({"launch_command": "x --api-key " + key, "api_key": key}), flush=True)
    print(json.dumps(json.dumps({"api_key": key})), flush=True)
    print("loading 50%", end="\r", flush=True)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "die":
    print("RuntimeError: out of memory", flush=True); sys.exit(7)
if mode == "hang":
    print("Capture target decode CUDA graph begin", flush=True); time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *args): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
threading.Timer(120, lambda: os._exit(9)).start()  # whatever becomes of the test
if mode == "recorded":
    from configurator.demo.server import RecordedServer, _handler, recording
    recorded = RecordedServer(recording("healthy"))
    print(recorded.log.read_text(), flush=True)
    Handler = _handler(recorded)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
if mode == "end":
    threading.Timer(4, lambda: os._exit(5)).start()
server.serve_forever()
"""
CHECKER = r"""
import json, os, sys
with open(os.environ["STUB"] + "/checked.json", "w") as file: json.dump(sys.argv[1:], file)
sys.exit(int(os.environ.get("STUB_CHECK", "0")))
"""


def rendered(tmp_path: Path, extra: str, base: str = "", gpus: int = 1) -> Path:
    """The output folder of a small profile on the `cpu` machine with `extra` added."""
    profile = tmp_path / "p.yaml"
    profile.write_text(
        base
        or "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        f"hardware: {{name: cpu, gpus: {gpus}}}\n"
        + ("" if "model:" in extra else "model: {name: qwen3-8b}\n")
        + extra
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


def launch(
    out: Path, env: dict[str, str], script: str = "replica0-host0.sh"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(out / script)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=as_from_a_terminal,
    )


def free_port() -> int:
    """A port that nobody has now, below those that the system gives to clients as they come.

    Processes of a run that tests side by side never get the same.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    ports = range(15_001 + int(worker) % 16, 30_000, 16) if worker else range(15_001, 30_000)
    while True:
        port = random.choice(ports)
        if port == MEETING_PORT:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def as_from_a_terminal() -> None:
    """Whoever runs the tests in the background ignores signals, and so would the script."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists()


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def signalled(process: subprocess.Popen[str], folder: Path, sent: signal.Signals) -> int:
    """The exit code of a script that gets a signal once its engine is checked, and ends it."""
    wait_for(folder / "checked.json")
    os.killpg(process.pid, sent)
    process.communicate(timeout=60)
    assert not alive(int(str(seen(folder)["pid"])))
    return process.returncode


def interrupted_twice(process: subprocess.Popen[str], folder: Path) -> None:
    """Interrupt a script whose engine does not end, and once more when it says so."""
    wait_for(folder / "checked.json")
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout is not None
    assert any("interrupt once more" in line for line in process.stdout)
    assert alive(int(str(seen(folder)["pid"])))
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)


def shellcheck(*scripts: Path, dataflow: bool = True) -> None:
    """The ShellCheck of the test extra: an older one knows findings by other names.

    Half of its time goes into following the flow of data, which can be left out.
    """
    command = Path(sys.executable).parent / "shellcheck"
    flow = f"--extended-analysis={str(dataflow).lower()}"
    done = subprocess.run(
        [command, "--severity=style", flow, *scripts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def seen(tmp_path: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads((tmp_path / "seen.json").read_text())
    return data
