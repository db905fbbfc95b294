"""A stand-in for the engine's Python: `-c CODE`, and `-m sglang.launch_server` from a recording.

FAKE_MODE says how it behaves; several words with commas between. FAKE_MARK marks its processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(os.environ["FAKE_MARK"])
MODES = os.environ.get("FAKE_MODE", "healthy").split(",")
LOSES = {
    "loses-log": (HERE / "report/log/replica0-host0.log",),
    "loses-logs": (HERE / "report/log",),
    "loses-report": (HERE / "report",),
    "loses-reports": (HERE / "report/evidence-reports",),
}
SLEEP = [sys.executable, "-c", "import time; time.sleep(120)"]


def main() -> None:
    """What the interpreter was asked for."""
    if sys.argv[1] == "-c":
        if "slow-preflight" in MODES:
            (HERE / "preflight").touch()
            time.sleep(120)
        if "no-sglang" not in MODES:
            sys.path.append(str(HERE / "site"))
        if "no-plugins" in MODES:
            sys.path[:] = [part for part in sys.path if "probe-bundle" not in part]
        code, sys.argv = sys.argv[2], sys.argv[2:]
        exec(code, {})
        return
    serve()


def serve() -> None:
    """Load in phases, then answer what was recorded."""
    from configurator.demo.server import RecordedServer, _handler, recording

    attempt = note()
    signal.alarm(100)  # whatever becomes of the test
    if "ignores-term" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "family" in MODES:
        subprocess.Popen(SLEEP)
        subprocess.Popen(["/bin/sh", "-c", 'setsid "$@" &', "sh", *SLEEP])
        time.sleep(0.3)
    leak_key()
    print("[2026-11-30 05:23:23] Load weight begin. avail mem=21.94 GB", flush=True)
    print("Loading safetensors checkpoint shards:  50% Completed | 1/2", end="\r", flush=True)
    if "evil" in MODES:
        print("\x1b]0;title\x07\x1b[2J\x9b31m boom", flush=True)
    if "dies" in MODES:
        print("Traceback (most recent call last):\n  File 'x'", file=sys.stderr)
        print("torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB", file=sys.stderr)
        sys.exit(7)
    print("[2026-11-30 05:23:24] Capture target decode CUDA graph begin. bs=[1, 2]", flush=True)
    if "hangs" in MODES:
        time.sleep(120)
    while "waits" in MODES and not (HERE / "go").exists():
        time.sleep(0.05)
    name = "sabotaged" if "sabotaged" in MODES and attempt == 0 else "healthy"
    recorded = RecordedServer(recording(name))
    print(recorded.log.read_text(), flush=True)
    folder = os.environ.get("CONFIGURATOR_PROBE_DIR")
    if folder and "no-report" not in MODES:
        shutil.copytree(recorded.reports, folder)
    handler = _handler(recorded)
    if "deep" in MODES:
        nested = b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"
        answer = handler.do_GET  # type: ignore[attr-defined]
        handler.do_GET = lambda self: (  # type: ignore[attr-defined]
            self._send(200, "application/json", nested) if "info" in self.path else answer(self)
        )
    if "reports" in MODES or "other-reports" in MODES:
        show_report(recorded, os.getppid() if "other-reports" in MODES else os.getpid())
    if "slow-check" in MODES:
        handler.do_POST = lambda self: time.sleep(120)  # type: ignore[attr-defined]
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    if "loses-port" in MODES:

        def lose(self: Any) -> None:
            """Answer this request once somebody else has the port."""
            server.shutdown()
            server.server_close()
            (HERE / "lost").touch()
            while not (HERE / "go").exists():
                time.sleep(0.05)
            self._send(*recorded.generate())

        handler.do_POST = lose  # type: ignore[attr-defined]
    for lost in LOSES.get(next((mode for mode in MODES if mode in LOSES), ""), ()):
        lost.rename(HERE / "lost-away")  # at once, whatever is being written there
    if "talks" in MODES:
        threading.Thread(target=talk, daemon=True).start()
    if "ends" in MODES:
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(5))
    server.serve_forever()
    time.sleep(120)  # without its port it lives on


def show_report(recorded: Any, pid: int) -> None:
    """What a server says of itself holds a report that process `pid` made."""
    page = recorded.page

    def with_report(path: str) -> tuple[int, str, bytes]:
        status, kind, body = page(path)
        if path == "/server_info":
            info = json.loads(body)
            info["internal_states"][0]["configurator_probe"] = {
                **json.loads(next(recorded.reports.glob("*.json")).read_text()),
                "process": {"pid": pid, "time": time.time()},
            }
            body = json.dumps(info).encode()
        return status, kind, body

    recorded.page = with_report


def talk() -> None:
    """More than a pipe holds, once the test lets it."""
    while not (HERE / "go").exists():
        time.sleep(0.05)
    print("Load weight begin\n" + "x\n" * 200_000, flush=True)
    (HERE / "said").touch()


def note() -> int:
    """Write down arguments and environment; which of the starts in this folder it is."""
    seen = {"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}
    for attempt in range(10):
        try:
            with (HERE / f"seen-{attempt}.json").open("x") as file:
                json.dump(seen, file)
        except FileExistsError:
            continue
        return attempt
    raise RuntimeError("started too often")


def leak_key() -> None:
    """What the engine does with its key: it writes it into its log."""
    if "--api-key" in sys.argv:
        key = sys.argv[sys.argv.index("--api-key") + 1]
        print(f"server_args=ServerArgs(api_key='{key}')\nargv {sys.argv}", flush=True)
        print(json.dumps({"launch": f"x --api-key {key}", "odd": key}), flush=True)


if __name__ == "__main__":
    main()
