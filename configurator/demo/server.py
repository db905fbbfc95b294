"""Answer on loopback with what a real server was recorded to say.

    with RecordedServer(recording("healthy")) as server:
        collect({0: server.url}, out, logs={0: server.log}, reports={0: server.reports})

A check against it takes the very path of a check against a live engine: HTTP, collector, reader,
probes. Every response names the recording in `X-Configurator-Recording`, so that nobody takes it
for a live engine.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from configurator.errors import ConfiguratorError

RECORDINGS = Path(__file__).parent / "recordings"
HEADER = "X-Configurator-Recording"
JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"

PAGES = {
    "/server_info": ("server_info_startup.json", "server_info.json"),
    "/get_server_info": ("server_info_startup.json", "server_info.json"),
    "/metrics": ("metrics_startup.txt", "metrics.txt"),
    "/model_info": ("model_info.json", "model_info.json"),
    "/get_model_info": ("model_info.json", "model_info.json"),
    "/v1/loads": ("loads.json", "loads.json"),
}
"""Path -> file that answers before the first /generate, and after it."""


def recording(name: str) -> Path:
    """The directory of a recording that ships with the package: `healthy` or `sabotaged`."""
    found = RECORDINGS / name
    if not (found / "manifest.json").is_file():
        known = sorted(path.parent.name for path in RECORDINGS.glob("*/manifest.json"))
        raise ConfiguratorError.single(
            "REF001", f"no recording is named {name!r}", f"known: {', '.join(known)}"
        )
    return found


class RecordedServer:
    """A server on 127.0.0.1 that replays one replica of an evidence directory."""

    def __init__(self, directory: Path, replica: int = 0) -> None:
        self.name = directory.name
        self.folder = directory / f"replica-{replica}"
        self._responses = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((self.folder / "requests").glob("*.json"))
        ]
        if not (self.folder / "server_info.json").is_file() or not self._responses:
            raise ConfiguratorError.single(
                "REF001",
                f"{directory} has no server_info.json or no requests of replica {replica}",
                "give an evidence directory that was collected without --passive",
            )
        self._lock = threading.Lock()
        self._generated = 0
        # Port 0: the system picks a free one, so that two demos never meet.
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def log(self) -> Path:
        """The recorded log."""
        return self.folder / "server.log"

    @property
    def reports(self) -> Path:
        """The directory of the recorded in-engine reports."""
        return self.folder / "reports"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def page(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a GET."""
        if path in ("/health", "/ready"):
            return 200, TEXT_TYPE, b""
        if path == "/v1/models":
            return 200, JSON_TYPE, json.dumps(self._models()).encode()
        files = PAGES.get(path)
        found = self.folder / files[self._generated > 0] if files else None
        if found is None or not found.is_file():
            return 404, JSON_TYPE, b'{"detail":"Not Found"}'
        kind = JSON_TYPE if found.suffix == ".json" else TEXT_TYPE
        return 200, kind, found.read_bytes()

    def generate(self) -> tuple[int, str, bytes]:
        """The next recorded response; after the last one the first again."""
        with self._lock:
            recorded = self._responses[self._generated % len(self._responses)]
            self._generated += 1
        return int(recorded["status"]), JSON_TYPE, json.dumps(recorded["response"]).encode()

    def _models(self) -> dict[str, Any]:
        info = json.loads((self.folder / "model_info.json").read_text(encoding="utf-8"))
        name = info["served_model_name"]
        return {"object": "list", "data": [{"id": name, "object": "model", "root": name}]}


def _handler(recorded: RecordedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Turns HTTP into calls of the recorded server."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """A recorded page."""
            self._send(*recorded.page(urlsplit(self.path).path))

        def do_POST(self) -> None:
            """A recorded response, whatever was asked."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if urlsplit(self.path).path == "/generate":
                self._send(*recorded.generate())
            else:
                self._send(404, JSON_TYPE, b'{"detail":"Not Found"}')

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header(HEADER, recorded.name)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the terminal for the demo."""

    return Handler
