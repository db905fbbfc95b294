"""A daemon that only writes down what the real docker client asks for: its reading of a command."""

from __future__ import annotations

import http.server
import json
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Created:
    """One container that was asked for."""

    name: str
    config: dict[str, Any]

    @property
    def command(self) -> list[str]:
        """Entrypoint and words."""
        return [*(self.config["Entrypoint"] or []), *(self.config["Cmd"] or [])]

    @property
    def env(self) -> dict[str, str]:
        """Variables; one that the client does not have is left out, as the daemon does."""
        pairs = [entry.partition("=") for entry in self.config["Env"] or []]
        return {name: value for name, equals, value in pairs if equals}

    @property
    def host(self) -> dict[str, Any]:
        """What of the host it is given."""
        found: dict[str, Any] = self.config["HostConfig"]
        return found


@dataclass(slots=True)
class Daemon:
    """Where the client finds it, and what it asked."""

    address: str
    created: list[Created] = field(default_factory=list)


@contextmanager
def recording_daemon() -> Iterator[Daemon]:
    """A daemon on a socket that refuses every container once it has noted it."""
    # The path of a socket must be short.
    folder = tempfile.mkdtemp(prefix="daemon-")
    socket = Path(folder) / "s"
    daemon = Daemon(f"unix://{socket}")

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self, status: int, data: Any) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Api-Version", "1.43")
            self.send_header("Ostype", "linux")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self._answer(200, {})

        def do_GET(self) -> None:
            found = "/containers/" not in self.path
            self._answer(200 if found else 404, {"message": "none"})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "/containers/create" in self.path:
                name = self.path.partition("name=")[2].partition("&")[0]
                daemon.created.append(Created(name, json.loads(body)))
            self._answer(500, {"message": "noted"})

        def address_string(self) -> str:
            return "client"

        def log_message(self, *args: object) -> None:
            pass

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    with Server(str(socket), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield daemon
        finally:
            server.shutdown()
            shutil.rmtree(folder)
