"""Ports for servers that run side by side."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from configurator.selftest.matrix import Start

_RANGE = range(10_000, 21_500)
"""Below what the engine draws at random (from 22000) and what the system gives to clients."""
_APART = 500
"""More than the engine goes from a server's own port: 233, and some for the ranks."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of the servers of one run."""

    _used: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def for_server(self, start: Start) -> Iterator[int]:
        """A port that is free; or one on which a stranger listens who hangs up on everybody.

        It is far from those of all servers that run meanwhile.
        """
        with self._held() as held:
            port: int = held.getsockname()[1]
            if start.port == "free":
                held.close()
            else:
                held.listen()
                threading.Thread(target=_hang_up, args=(held,), daemon=True).start()
            try:
                yield port
            finally:
                with contextlib.suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)
                with self._lock:
                    self._used.remove(port)

    def _held(self) -> socket.socket:
        """A socket that is bound to a free port."""
        while True:
            # At random, so that another run on this machine takes others.
            port = random.choice(_RANGE)
            with self._lock:
                if any(abs(port - other) < _APART for other in self._used):
                    continue
                held = socket.socket()
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    held.bind(("127.0.0.1", port))
                except OSError:
                    held.close()
                else:
                    self._used.add(port)
                    return held


def nodes_of(start: Start, port: int) -> list[tuple[str, int, list[str]]]:
    """Log, port and further words of every node; the first is the one that answers."""
    if start.nodes == 1:
        return [("server.log", port, [])]
    with contextlib.ExitStack() as held:
        # Held together, so that they differ: where the nodes meet, and where each listens.
        meeting, *own = [held.enter_context(_free()) for _ in range(start.nodes)]
    words = ["--nnodes", str(start.nodes), "--dist-init-addr", f"127.0.0.1:{meeting}"]
    nodes = [("server.log", port), *((f"server-{n}.log", p) for n, p in enumerate(own, 1))]
    return [(log, at, [*words, "--node-rank", str(n)]) for n, (log, at) in enumerate(nodes)]


@contextlib.contextmanager
def _free() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def _hang_up(listening: socket.socket) -> None:
    """Take every connection and end it, until the socket is shut down."""
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()
