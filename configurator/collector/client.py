"""HTTP calls that end: in time, in size, and where they were sent."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from .redaction import redact_text

MAX_BODY = 32 << 20
# Two classes before Python 3.10.
_LATE = (TimeoutError, socket.timeout)


@dataclass(frozen=True)
class Reply:
    """What a server answered; status 0: nothing, and `error` says why."""

    status: int
    body: bytes = b""
    error: str = ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; None when it is not."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """A redirect is an answer: the key must not follow it to another host."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


@dataclass(frozen=True)
class Client:
    """HTTP without proxies and redirects, where every call has a time-out and a size limit."""

    url: str
    api_key: str | None
    timeout_s: float

    def call(self, path: str, payload: Any = None) -> Reply:
        """GET `path`, or POST `payload` as JSON."""
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        data = None if payload is None else json.dumps(payload).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        deadline = time.monotonic() + self.timeout_s
        try:
            with _OPENER.open(request, timeout=self.timeout_s) as response:
                body = _read(response, deadline)
                return Reply(response.status, body)
        except urllib.error.HTTPError as error:
            with error:
                try:
                    body = _read(error, deadline)
                except (OSError, http.client.HTTPException):
                    body = b""
            excerpt = redact_text(body[:200].decode("utf-8", "replace"), [self.api_key or ""])
            return Reply(error.code, body, f"HTTP {error.code} {excerpt}".strip())
        except _LATE:
            return Reply(0, b"", f"no answer within {self.timeout_s:g} s")
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, _LATE):
                return Reply(0, b"", f"no connection within {self.timeout_s:g} s")
            text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            return Reply(0, b"", text)


def _read(response: Any, deadline: float) -> bytes:
    """The body, within its size limit and before the deadline (a server may trickle)."""
    body = bytearray()
    while True:
        chunk = response.read1(1 << 16)
        if not chunk:
            return bytes(body)
        body += chunk
        if len(body) > MAX_BODY:
            raise OSError(f"the body is larger than {MAX_BODY >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
