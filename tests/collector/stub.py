"""A server that a collector meets in tests, and readers of what it wrote."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "k9-very-secret-key"
ADMIN = "adm-7777-secret"
Answer = tuple[int, bytes]


class Stub:
    """A server whose pages can be changed while it runs; it remembers what was asked."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.steps = 16
        self.pages: dict[str, Callable[[], Answer]] = {}
        self.posts: dict[str, Callable[[dict[str, Any]], Answer]] = {}
        """What is posted elsewhere than where text is made."""
        self.seen: list[str] = []
        self.generated: list[dict[str, Any]] = []
        self.extra_headers: dict[str, str] = {}
        self.info: dict[str, Any] = {
            "version": "0.5.23",
            "api_key": KEY,
            "admin_api_key": ADMIN,
            "skip_tokenizer_init": False,
            "max_total_num_tokens": 4096,
            "launch_command": f"--port 1 --api-key {KEY} --admin-api-key={ADMIN} --tp-size 1",
            "internal_states": [
                {"env_vars": {"SGLANG_X": "1", "HF_TOKEN": "hf_abcdefghijklmnopq"}}
            ],
        }
        self.answer("/health", 200, b"")
        self.answer("/model_info", 200, b'{"served_model_name": "m"}')
        self.answer("/metrics", 200, b'sglang:num_requests_total{model_name="m"} 1.0\n')
        self.answer("/v1/loads", 200, b'{"loads": []}')
        self.pages["/server_info"] = lambda: (200, json.dumps(self.info).encode())
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str, status: int, body: bytes) -> None:
        self.pages[path] = lambda: (status, body)

    def generate(self, body: dict[str, Any]) -> Answer:
        self.generated.append(body)
        meta: dict[str, Any] = {"completion_tokens": 64}
        if self.steps:
            meta |= {"spec_verify_ct": self.steps, "spec_accept_length": 64 / self.steps}
        return 200, json.dumps({"text": "t", "meta_info": meta}).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                stub.seen.append(self.path)
                allowed = stub.key is None or path in ("/health", "/ready", "/metrics")
                if not allowed and self.headers.get("Authorization") != f"Bearer {stub.key}":
                    return self.send(401, b'{"error":"Unauthorized"}')
                missing: Callable[[], Answer] = lambda: (404, b"{}")  # noqa: E731
                return self.send(*stub.pages.get(path, missing)())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.seen.append(self.path)
                answer = stub.posts.get(self.path, stub.generate)
                self.send(*answer(body))

            def send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                for name, value in stub.extra_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                # The collector hangs up on a body that is too large.
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def everything(directory: Path) -> str:
    return "\n".join(path.read_text() for path in directory.rglob("*") if path.is_file())


def late(seconds: float) -> Answer:
    time.sleep(seconds)
    return 200, b"x"


def closed_url() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = server.server_address[1]
    server.server_close()
    return f"http://127.0.0.1:{port}"
