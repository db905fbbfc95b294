"""An interpreter that passes for one with the engine: it replays recordings as servers."""

from __future__ import annotations

import sys
from pathlib import Path

from configurator.content import ROOT
from configurator.selftest.engine import ENGINE_VERSION

_SOURCE = r"""#!{python} -B
import json, os, pathlib, shutil, signal, subprocess, sys, time
words = sys.argv[1:]
if words[:2] == ["-I", "-c"]:
    if "{version}" == "none":
        sys.exit("importlib.metadata.PackageNotFoundError: sglang")
    print(json.dumps(["{version}", "2.13.0", "5.19.0"]))
    sys.exit(0)
if words[0].endswith("make_models.py"):
    folder = pathlib.Path(words[1])
    if "{version}" == "no-models":
        sys.exit("ImportError: transformers")
    for name in ("good", "wrong"):
        (folder / name).mkdir()
    sys.exit(0)
sys.path.insert(0, "{root}")
from configurator.demo.server import RecordedServer, recording, _handler
from http.server import ThreadingHTTPServer
stamp = "[2026-11-30 05:22:50]"
print(f"{{stamp}} server_args=ServerArgs()", flush=True)
print(f"{{stamp}} Load weight begin. avail mem=1 GB", flush=True)
mode = os.environ["CONFIGURATOR_SABOTAGE"]
if mode == "dies":
    print("Traceback (most recent call last):\nRuntimeError: the weights are broken", flush=True)
    sys.exit(1)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleep, start_new_session=True)
    pathlib.Path("child").write_text(str(child.pid))
if mode in ("hangs", "stubborn"):
    time.sleep(60)
name = "healthy" if words[words.index("--model-path") + 1].endswith("good") else "sabotaged"
recorded = RecordedServer(recording(name))
for report in recorded.reports.glob("*.json"):
    shutil.copy(report, os.environ["CONFIGURATOR_PROBE_DIR"])
print(recorded.log.read_text(), flush=True)
port = int(words[words.index("--port") + 1])
try:
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(recorded))
except OSError:
    print(f"{{stamp}} ERROR:    [Errno 98] error while attempting to bind on address "
          f"('127.0.0.1', {{port}}): address already in use", flush=True)
    sys.exit(1)
server.serve_forever()
"""


def fake_engine(folder: Path, version: str = ENGINE_VERSION) -> Path:
    """Write the interpreter; `none` has no engine, `no-models` cannot make models."""
    path = folder / "python"
    path.write_text(_SOURCE.format(python=sys.executable, version=version, root=ROOT))
    path.chmod(0o755)
    return path
