"""Other servers on a port, of this very process: no engine that anybody has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Healthy(BaseHTTPRequestHandler):
    """Answers that all is well."""

    def do_GET(self) -> None:
        """200."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def bound(port: int, handler: type[BaseHTTPRequestHandler] = Healthy) -> ThreadingHTTPServer:
    """A server on a port, as soon as the last thread of one that was killed has let go of it."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def another_server(port: int, handler: type[BaseHTTPRequestHandler] = Healthy) -> Iterator[None]:
    """A server that answers for as long as the context lasts."""
    server = bound(port, handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
