"""Collect evidence of running SGLang servers into an evidence directory, format 1.

One file and the standard library only, so that it can be copied into any engine container:

    python collect.py --url http://127.0.0.1:30000 --out evidence --log server.log

It observes and never judges. Secrets are redacted before anything is written.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
VERSION = "1.0"
REDACTED = "<redacted>"
LEVEL1_REQUESTS, LEVEL1_TOKENS = 3, 64
LEVEL2_REQUESTS, LEVEL2_TOKENS = 24, 128
ENOUGH_VERIFY_STEPS = 400
"""Level 2 stops here: the interval of the acceptance length is narrow enough."""
ENOUGH_ALONE = 200
"""Where requests follow together, those that are sent alone stop here."""
MOST_ALONE, MOST_TOGETHER, MOST_REFERENCES = 8, 256, 8
KNOWN_ANSWER = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
"""A text that every language model continues in the same way."""
LOG_HEAD, LOG_TAIL = 2 << 20, 4 << 20
MAX_BODY = 32 << 20
MAX_REPORTS, MAX_REPORT = 512, 8 << 20
MOST_NESTED = 32
"""Levels of JSON; a page of an engine has less than ten."""
SPEECH = ("Explain to a new colleague", "Write a short letter about", "Tell the story of",
          "List the arguments for and against")  # fmt: skip
SUBJECTS = ("moving a small library to another town", "repairing an old bicycle in winter",
            "planting trees along a busy street", "learning to bake bread at sixty",
            "a ferry that was late on a foggy morning", "sharing one kitchen among nine people",
            )  # fmt: skip
ENGINE_VARIABLES = re.compile(
    r"(?:SGLANG|SGL|CUDA|NCCL|NVSHMEM|NVIDIA|GLOO|TORCH\w*|PYTORCH|TRITON|FLASHINFER|HUMMING|DG"
    r"|DEEP\w*|VLLM|HF|HUGGING\w*|TRANSFORMERS|SAFETENSORS|OMP|MKL|UCX|MC|MOONCAKE)_\w+"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH"
)
"""What an engine reads; the rest of a process's environment is nobody's business here."""
LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version",
              "--format=csv,noheader")  # fmt: skip

_STRONG = (
    r"api[-_ ]?keys?|(?:access|private|admin|secret|signing|watermark)[-_]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization"
    r"|(?:hf|hub|auth|access|api|bearer|refresh)[-_]?token"
)
_NAME = rf"[\w.-]*?(?:{_STRONG}|(?<![A-Za-z])token|[a-z]Token)"
# Each character has one way to match, or a run of backslashes takes exponential time.
_QUOTED = r"(?P<q>\\*[\"'])(?:(?!(?P=q))(?:\\.|[^\\\n])){0,4096}?(?P=q)"
_SECRET_NAME = re.compile(rf"(?:{_NAME})", re.I)
_ALWAYS_SECRET = re.compile(rf"[\w.-]*?(?:(?i:{_STRONG})|[A-Z]_TOKEN)")
_SPECIAL_TOKEN = re.compile(
    r"(?:\w+_)?(?:bos|eos|pad|unk|cls|sep|mask|image|audio|video|stop)_token"
)
_FLAG = re.compile(
    rf"(?<![\w-])(?P<name>--(?:{_NAME}|(?:admin|api)[\w-]*))"
    rf"(?P<sep>\\*[\"']?(?:=|[\s\\,]+))(?!--)(?P<value>{_QUOTED}|\S+)",
    re.I,
)
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<name>{_NAME})(?P<sep>\\*[\"']?\s*[:=]\s*(?:b(?=[\"']))?)"
    rf"(?P<value>{_QUOTED}|(?:(?:Bearer|Basic)\s+)?[^\s,;&)}}\]]+)",
    re.I,
)
_BEARER = re.compile(r"(?i)(\bBearer\s+)[\w.~+/=-]+")
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_KNOWN_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})"
)
_EMPTY = ("", "None", "null", "True", "False", "true", "false", REDACTED)
# With --log-requests the log repeats what people sent, which may hold any words.
_DEATH = re.compile(
    r"^(?!.{0,200}?(?:(?:Receive(?: OpenAI)?|Finish): obj=|\"event\": \"request\.))"
    r".*(?:crashed with exit code|SIGQUIT received|Received sigquit from a child"
    r"|Scheduler hit an exception|exited with code -?[1-9]).*",
    re.M,
)

_START = re.compile(r"^(?:[^\s'\"({][^'\"({\n]{0,160}?\s)?server_args=", re.M)
"""The engine's line with its arguments; the code of a traceback, indented, has the words too."""


class CollectError(Exception):
    """Input that cannot be used: one clear line, exit code 2."""


def is_secret(name: str, value: object) -> bool:
    """Whether `value`, kept under `name`, must not be shown."""
    if value is None or isinstance(value, bool) or value in _EMPTY:
        return False
    if not _SECRET_NAME.fullmatch(name):
        return False
    if _ALWAYS_SECRET.fullmatch(name):
        return True
    # `#new-token: 4` counts and `eos_token: '</s>'` is part of a tokenizer.
    numeric = re.fullmatch(r"[-+]?[\d.]+(?:e[-+]?\d+)?%?", str(value))
    return not numeric and not _SPECIAL_TOKEN.fullmatch(name)


def _mask(match: re.Match[str]) -> str:
    quote = match["q"] or ""
    value = match["value"]
    bare = value[len(quote) : len(value) - len(quote)] if quote else value
    name = match["name"].lstrip("-")
    secret = is_secret(name, bare) or (match["name"].startswith("--a") and bare not in _EMPTY)
    return f"{match['name']}{match['sep']}{quote}{REDACTED}{quote}" if secret else match[0]


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without keys, tokens and passwords, and without the given `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        # A shorter one ("sglang", "test") is also an ordinary word; its places are known below.
        if len(secret) >= 8:
            text = text.replace(secret, REDACTED)
    text = _ASSIGNED.sub(_mask, _FLAG.sub(_mask, text))
    text = _BEARER.sub(rf"\g<1>{REDACTED}", text)
    return _KNOWN_SHAPE.sub(REDACTED, _USERINFO.sub(REDACTED, text))


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """The same JSON value without secrets: by the name of a key, and inside every string.

    What is nested deeper than `MOST_NESTED` becomes its JSON as text.
    """
    return _redacted(value, tuple(secrets), 0)


def _redacted(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if depth == MOST_NESTED and isinstance(value, (Mapping, list, tuple)):
        return redact_text(_as_text(value), secrets)
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if is_secret(str(key), item) else _redacted(item, secrets, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        done = [_redacted(item, secrets, depth + 1) for item in value]
        for index, item in enumerate(value[:-1]):
            # An argument vector: the value stands after its flag.
            flag = isinstance(item, str) and item.startswith("--") and "=" not in item
            if flag and redact_text(f"{item} {value[index + 1]}") != f"{item} {value[index + 1]}":
                done[index + 1] = REDACTED
        return done
    return redact_text(value, secrets) if isinstance(value, str) else value


def _as_text(value: Any) -> str:
    """JSON of a value that is nested too deep for functions that call themselves."""
    parts: list[str] = []
    # What is to be written, the next at the end: text as it is, or a value in a tuple of one.
    left: list[str | tuple[Any]] = [(value,)]
    while left:
        entry = left.pop()
        if isinstance(entry, str):
            parts.append(entry)
            continue
        item = entry[0]
        if isinstance(item, Mapping):
            pieces = [[f"{json.dumps(str(key))}: ", (held,)] for key, held in item.items()]
            ends = "{}"
        elif isinstance(item, (list, tuple)):
            pieces, ends = [[(held,)] for held in item], "[]"
        else:
            parts.append(json.dumps(item, default=str))
            continue
        inner = [part for piece in pieces for part in [", ", *piece]][1:]
        left += [ends[1], *reversed(inner), ends[0]]
    return "".join(parts)


def _is_nested_deep(value: Any) -> bool:
    """Whether some of it becomes text."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        level = [item for item in level if isinstance(item, (Mapping, list, tuple))]
        level = [
            held for item in level
            for held in (item.values() if isinstance(item, Mapping) else item)
        ]  # fmt: skip
    return bool(level)


def find_secrets(value: Any) -> set[str]:
    """Every string kept under the name of a secret, to be found again elsewhere."""
    found: set[str] = set()
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            found |= {
                str(v) for k, v in item.items() if isinstance(v, str) and is_secret(str(k), v)
            }
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
    return found


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
        except TimeoutError:
            return Reply(0, b"", f"no answer within {self.timeout_s:g} s")
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
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


Sent = tuple[str, dict[str, Any]]
"""Kind of the text, and body, of a request."""


@dataclass(frozen=True)
class Plan:
    """What to ask of every replica."""

    level: int = 1
    passive: bool = False
    concurrency: int = 1
    prompts: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    wait_s: float = 0.0
    progress: Callable[[str], None] = lambda text: None
    references: tuple[Mapping[str, Any], ...] = ()
    """Greedy requests of another run, to be sent again and compared."""

    @property
    def tokens(self) -> int:
        """Tokens that a request asks for."""
        return LEVEL1_TOKENS if self.level == 1 else LEVEL2_TOKENS

    @property
    def width(self) -> int:
        """Requests at a time, where they are sent together."""
        return min(self.concurrency, MOST_TOGETHER) if self.level > 1 else 1

    def alone(self, tokenizer: bool) -> list[Sent]:
        """The requests that are sent one at a time. No prompt is sent twice: an n-gram draft would
        know the answer."""
        limit = LEVEL1_REQUESTS if self.level == 1 else LEVEL2_REQUESTS
        if not tokenizer:
            return [self.of_ids(i) for i in range(MOST_ALONE if self.width > 1 else limit)]
        own = list(dict.fromkeys(self.prompts))
        if self.width > 1:
            own = own[: min(MOST_ALONE, (len(own) + 1) // 2)]
            limit = MOST_ALONE
        first = [self.greedy({"text": KNOWN_ANSWER}, "known-answer")]
        if self.level > 1 and own:
            first += map(self.easy, range(2))
        rest = [self.ask(prompt, "profile") for prompt in own] or [*map(self.easy, range(limit))]
        return [*first, *rest][:limit]

    def together(self, tokenizer: bool, again: bool) -> list[list[Sent]]:
        """The requests that are sent `width` at a time: the profile's texts, filled up.

        Args:
            tokenizer: whether the server takes text.
            again: whether texts may be sent that were sent alone.
        """
        width = self.width
        if width == 1:
            return []
        number = width * max(1, 16 // width)
        own = list(dict.fromkeys(self.prompts)) if tokenizer else []
        own = own if again else own[min(MOST_ALONE, (len(own) + 1) // 2) :]
        asked = [self.ask(prompt, "profile") for prompt in own][:number]
        fill = self.easy if tokenizer else self.of_ids
        asked += [fill(LEVEL2_REQUESTS + i) for i in range(number - len(asked))]
        return [asked[i : i + width] for i in range(0, number, width)]

    def compared(self, tokenizer: bool) -> list[Sent]:
        """Greedy requests, so that this run and another can be held against each other."""
        kept = [("reference", dict(body)) for body in self.references[:MOST_REFERENCES]]
        if self.level == 1 or not tokenizer or not self.sampling.get("temperature", 0):
            return kept
        prompts = list(dict.fromkeys(self.prompts)) or [_easy(i) for i in range(2)]
        known = [body.get("text") for _, body in kept]
        return kept + [
            self.greedy({"text": prompt}, "reference") for prompt in prompts[:2]
            if prompt not in known
        ]  # fmt: skip

    def ask(self, prompt: str, kind: str) -> Sent:
        """A request with the sampling of the profile."""
        return kind, {"text": prompt, "sampling_params": self._sampling()}

    def easy(self, index: int) -> Sent:
        """A request for plain prose; every index is another text."""
        return self.ask(_easy(index), "easy")

    def of_ids(self, index: int) -> Sent:
        """A request for a server without tokenizer."""
        ids = [7 + (index * 37 + k * k * 11) % 400 for k in range(24)]
        return "unknown", {"input_ids": ids, "sampling_params": self._sampling()}

    def greedy(self, body: Mapping[str, Any], kind: str) -> Sent:
        """A request whose answer the engine has no choice in."""
        params = {"temperature": 0, "max_new_tokens": self.tokens}
        return kind, {**body, "sampling_params": params}

    def _sampling(self) -> dict[str, Any]:
        return {"temperature": 0, **self.sampling, "max_new_tokens": self.tokens}


def _easy(index: int) -> str:
    round_, place = divmod(index, len(SUBJECTS) * len(SPEECH))
    subject, speech = divmod(place, len(SPEECH))
    part = f", part {round_ + 1}" if round_ else ""
    return f"{SPEECH[speech]} {SUBJECTS[subject]}{part}.\n\n"


@dataclass
class _Replica:
    """One server and the folder its evidence goes to."""

    index: int
    client: Client
    folder: Path
    plan: Plan
    log: Path | None
    reports: Path | None
    pid: int | None
    secrets: set[str]
    ready: bool = False
    reachable: bool = False
    errors: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    own: dict[str, str] | None = None
    """Environment of the process, where it could be read."""
    began: float = field(default_factory=time.monotonic)
    alone: list[Any] = field(default_factory=list)
    """Bodies of the requests that were sent alone."""

    def collect(self) -> None:
        """Everything, in order; what fails is written down and does not stop the rest."""
        self.own = self.process_environment()
        self.wait()
        if self.reachable:
            self.page("server_info_startup.json", "/server_info", "/get_server_info")
            self.page("model_info.json", "/model_info", "/get_model_info")
            self.page("metrics_startup.txt", "/metrics")
        if self.ready and not self.plan.passive:
            self.send()
        if self.ready:
            self.page("server_info.json", "/server_info", "/get_server_info")
            self.page("loads.json", "/v1/loads?include=all")
            self.page("metrics.txt", "/metrics")
            self.judge_answers()
        self.copy_reports()
        self.copy_log()

    def check(self) -> str:
        """Ask once whether the server is ready; why not, when it is not."""
        probe = Client(self.client.url, self.client.api_key, min(self.client.timeout_s, 20.0))
        # /health generates a token, which --passive forbids; old servers have no /ready.
        for path in ("/ready" if self.plan.passive else "/health", "/model_info"):
            reply = probe.call(path)
            if reply.status != 404:
                break
        self.reachable, self.ready = reply.status != 0, reply.status == 200
        return "" if self.ready else f"{path}: {reply.error or f'HTTP {reply.status}'}"

    def wait(self) -> None:
        """Until the server is ready, is dead, or the time is over."""
        start, told = time.monotonic(), ""
        while True:
            why = self.check()
            waited = time.monotonic() - start
            death = "" if self.ready else self.death()
            # A missing key does not come with time.
            refused = "HTTP 401" in why or "HTTP 403" in why
            if self.ready or death or refused or waited >= self.plan.wait_s:
                break
            if why != told:
                told = why
                self.plan.progress(f"replica {self.index}: not ready after {waited:.0f} s: {why}")
            time.sleep(min(0.5, max(self.plan.wait_s - waited, 0.0)))
        if not self.ready:
            self.errors.append(death or why)
        elif waited > 1:
            self.plan.progress(f"replica {self.index}: ready after {waited:.0f} s")

    def death(self) -> str:
        """Why the server will never be ready: its process is gone, or its log says so."""
        if self.pid is not None:
            try:
                state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                state = "X"
            return f"process {self.pid} has exited" if state in "XZ" else ""
        if self.reachable or self.log is None:
            return ""
        try:
            tail = _bounded(self.log, 0, 1 << 18)[0]
        except OSError:
            return ""
        # An earlier start may have died in the same file: only what follows the last one counts.
        starts = [match.end() for match in _START.finditer(tail)]
        found = _DEATH.search(tail[starts[-1] :] if starts else tail)
        return f"the log says the server died: {found[0].strip()}" if found else ""

    def page(self, name: str, *paths: str) -> None:
        """Write what the first of `paths` that exists answers."""
        for path in paths:
            reply = self.client.call(path)
            if reply.status != 404:
                break
        if reply.status != 200:
            hint = "; give the server's key" if reply.status in (401, 403) else ""
            self.errors.append(f"{paths[0]}: {reply.error}{hint}")
        elif name.endswith(".txt"):
            self.write(name, reply.text)
        elif isinstance(value := reply.json(), dict):
            self.secrets |= find_secrets(value)
            if name.startswith("server_info"):
                self.info = value
            self.write(name, value)
        else:
            self.errors.append(f"{path}: HTTP 200 but the body is not a JSON object")

    def send(self) -> None:
        """Bounded requests: alone, then as many at a time as the plan says, then to compare."""
        tokenizer = not self.info.get("skip_tokenizer_init")
        plan = self.plan
        again = str(self.info.get("speculative_algorithm")).upper() != "NGRAM"
        together = plan.together(tokenizer, again)
        enough = ENOUGH_ALONE if together else ENOUGH_VERIFY_STEPS
        alone = self.send_waves([[sent] for sent in plan.alone(tokenizer)], enough)
        steps = None if alone is None else self.send_waves(together, ENOUGH_VERIFY_STEPS)
        if alone is None or steps is None:
            return
        last = steps if together else alone
        if plan.level > 1 and last < ENOUGH_VERIFY_STEPS:
            done = f"{last} verify steps after {len(self.requests)} requests"
            self.notes.append(f"replica {self.index}: {done}, {ENOUGH_VERIFY_STEPS} were wanted")
        compared = [sent for sent in plan.compared(tokenizer) if sent[1] not in self.alone]
        self.send_waves([[sent] for sent in compared], None)

    def send_waves(self, waves: list[list[Sent]], enough: int | None) -> int | None:
        """Verify steps of the waves that were sent; None: the server answers no more.

        Without verify steps there is nothing to count, and a few requests tell the rest.
        """
        steps = sent = 0
        for wave in waves:
            self.plan.progress(f"replica {self.index}: {len(wave)} request(s), "
                               f"{steps} verify steps so far")  # fmt: skip
            with ThreadPoolExecutor(max_workers=len(wave)) as pool:
                replies = list(pool.map(self.timed, [body for _, body in wave]))
            for (kind, body), (reply, timing) in zip(wave, replies):  # noqa: B905  (Python 3.9)
                steps += self.exchange(kind, body, reply, {"together": len(wave), **timing})
                if len(wave) == 1:
                    self.alone.append(body)
            sent += len(wave)
            if not any(reply.status == 200 for reply, _ in replies):
                why = self.check()
                refused = replies[0][0].status >= 500 and not why
                if refused and len(self.requests) < LEVEL1_REQUESTS:
                    continue  # one text alone may be at fault
                self.errors += [f"/generate: {replies[0][0].error}", *([why] if why else [])]
                return None
            if enough is not None and (steps >= enough or (not steps and sent >= LEVEL1_REQUESTS)):
                break
        return steps

    def judge_answers(self) -> None:
        """A server that says it is ready and answers every request with an error is not."""
        statuses = [request["status"] for request in self.requests]
        if statuses and all(status >= 500 for status in statuses):
            self.ready = False
            codes = " and ".join(str(status) for status in sorted(set(statuses)))
            number = len(statuses)
            self.errors.insert(0, f"answers {number} of {number} requests with HTTP {codes}")

    def timed(self, body: dict[str, Any]) -> tuple[Reply, dict[str, float]]:
        """The reply, when it was asked for since collecting began, and how long it took."""
        start = time.monotonic()
        reply = self.client.call("/generate", body)
        took = time.monotonic() - start
        return reply, {"started_s": round(start - self.began, 3), "took_s": round(took, 3)}

    def exchange(self, kind: str, body: Any, reply: Reply, how: Mapping[str, Any]) -> int:
        """Write one request with its response; the verify steps it took."""
        name = f"requests/{len(self.requests) + 1:03d}.json"
        found = reply.json() if reply.status else None
        response = found if found is not None else (reply.text[:65536] or reply.error)
        about = {"path": "/generate", "kind": kind, "status": reply.status, **how}
        self.write(name, {**about, "request": body, "response": response})
        self.requests.append({"replica": self.index, "file": f"{self.folder.name}/{name}", **about})
        meta = found.get("meta_info") if isinstance(found, dict) else None
        steps = meta.get("spec_verify_ct") if isinstance(meta, dict) else None
        return steps if isinstance(steps, int) else 0

    def copy_reports(self) -> None:
        """The in-engine reports, with the time they were written."""
        if self.reports is None:
            return
        found = sorted(self.reports.glob("*.json"))
        for path in found[:MAX_REPORTS]:
            try:
                body, stamp = _read_report(path)
                value = json.loads(body)
            except (OSError, ValueError) as error:
                self.notes.append(f"report {path.name} left out: {error}")
            except RecursionError:
                self.notes.append(f"report {path.name} left out: nested too deep to be read")
            else:
                self.write(f"reports/{path.name}", value)
                os.utime(self.folder / "reports" / path.name, (stamp, stamp))
        if len(found) > MAX_REPORTS:
            self.notes.append(f"replica {self.index}: {len(found) - MAX_REPORTS} reports left out")
        if not found:
            self.notes.append(f"replica {self.index}: no report in {self.reports}")

    def copy_log(self) -> None:
        """The log; of a long one the beginning and the end."""
        if self.log is None:
            return
        try:
            text, note = _bounded(self.log, LOG_HEAD, LOG_TAIL)
        except OSError as error:
            self.errors.append(f"log {self.log}: {error}")
            return
        self.notes += [f"replica {self.index}: server.log: {note}"] if note else []
        self.write("server.log", text)

    def process_environment(self) -> dict[str, str] | None:
        """What the engine reads of its process's environment; None: not known."""
        if self.pid is None:
            return None
        try:
            raw = Path(f"/proc/{self.pid}/environ").read_bytes().decode("utf-8", "replace")
        except OSError as error:
            self.notes.append(f"replica {self.index}: environment of {self.pid}: {error.strerror}")
            return None
        whole = {n: v for n, _, v in (entry.partition("=") for entry in raw.split("\0"))}
        self.secrets |= find_secrets(whole)
        return {name: value for name, value in whole.items() if ENGINE_VARIABLES.fullmatch(name)}

    def environment(self) -> dict[str, str] | None:
        """What the process and the engine itself say of the environment; None: nothing."""
        states = self.info.get("internal_states")
        first = states[0] if isinstance(states, list) and states else None
        exposed = first.get("env_vars") if isinstance(first, dict) else None
        if not isinstance(exposed, dict):
            return self.own
        return {**(self.own or {}), **{str(k): str(v) for k, v in exposed.items()}}

    def write(self, name: str, value: Any) -> None:
        """Redact, then write."""
        if _is_nested_deep(value):
            self.notes.append(f"replica {self.index}: {name} is nested deeper than {MOST_NESTED} "
                              "levels; what is below is kept as text")  # fmt: skip
        _write(self.folder / name, value, self.secrets)
        self.files.append(name)

    def summary(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        return {
            "index": self.index, "url": self.client.url, "reachable": self.reachable,
            "ready": self.ready, "error": self.errors[0] if self.errors else "",
            "errors": self.errors, "environment": self.environment(), "files": self.files,
        }  # fmt: skip


def _read_report(path: Path) -> tuple[bytes, float]:
    """A regular file of the folder, with the time it was written; `ValueError` for all else.

    The folder is written from inside a container: a link may lead anywhere on this host.
    """
    target = Path(os.path.realpath(path))
    if Path(os.path.realpath(path.parent)) not in target.parents:
        raise ValueError("it is a link to a place outside of the folder")
    # Opening a pipe would wait for somebody who writes.
    with open(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("it is no regular file")
        body = file.read(MAX_REPORT + 1)
    if len(body) > MAX_REPORT:
        raise ValueError(f"over {MAX_REPORT >> 20} MiB")
    return body, state.st_mtime


def _bounded(path: Path, head: int, tail: int) -> tuple[str, str]:
    """Text of a file, cut in the middle at line ends when it is long; a note of what was cut."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= head + tail:
            return file.read(head + tail).decode("utf-8", "replace"), ""
        first = file.read(head).rpartition(b"\n")[0]
        file.seek(size - tail)
        last = file.read(tail).partition(b"\n")[2]
    note = f"{size - len(first) - len(last)} of {size} bytes left out after byte {len(first)}"
    parts = (first, f"[collector: {note}]".encode(), last)
    return b"\n".join(part for part in parts if part).decode("utf-8", "replace"), note


def _write(path: Path, value: Any, secrets: Iterable[str]) -> None:
    """Write redacted text or JSON in one step: no reader sees half a file."""
    if isinstance(value, str):
        text = redact_text(value, secrets)
    else:
        text = json.dumps(redact_json(value, secrets), indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    partial.write_text(text, encoding="utf-8", errors="replace")
    os.replace(partial, path)


def usable_url(url: str) -> str:
    """The base of a server's URL; `CollectError` when it is not one."""
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", url):
        raise CollectError(f"{redact_text(url)!r} is not a server's URL; "
                           "write it like http://127.0.0.1:30000")  # fmt: skip
    if "@" in parts.netloc:
        raise CollectError("the URL holds a user or password; give the key by --api-key-env")
    return url.rstrip("/")


def host_facts(targets: Iterable[str], pids: Iterable[int]) -> dict[str, Any]:
    """What this host is, as it says so, where an engine of `targets` runs on it; else empty."""
    local = any(urllib.parse.urlsplit(url).hostname in LOOPBACK for url in targets)
    process = any(Path(f"/proc/{pid}").is_dir() for pid in pids)
    if not local and not process:
        return {}
    # A port of the loopback may be forwarded to another host; a process may not.
    facts: dict[str, Any] = {"engine_seen": process}
    try:
        done = subprocess.run(NVIDIA_SMI, capture_output=True, timeout=20, check=False,
                              stdin=subprocess.DEVNULL)  # fmt: skip
        if done.returncode == 0:
            facts["gpus"] = done.stdout[:65536].decode("utf-8", "replace").strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        memory = Path("/proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return facts
    for key, name in (("MemTotal", "memory_kib"), ("MemAvailable", "memory_available_kib")):
        found = re.search(rf"^{key}:\s*(\d+) kB$", memory, re.M)
        if found:
            facts[name] = int(found[1])
    return facts


def _existing(path: Any, kind: str) -> Path | None:
    if path is None:
        return None
    found = Path(path)
    if not (found.is_dir() if kind == "reports" else found.is_file()):
        wanted = "a directory" if kind == "reports" else "a file"
        raise CollectError(f"{kind} {found} is not {wanted}; give an existing one or leave it out")
    return found


def _empty_directory(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CollectError(f"{out} is not empty; give a new directory, evidence is not mixed")
    except OSError as error:
        raise CollectError(f"{out} cannot be used: {error.strerror or error}") from error
    return out


def collect(
    targets: Mapping[int, str], out: str | os.PathLike[str], *, level: int = 1,
    passive: bool = False, logs: Mapping[int, Any] | None = None,
    reports: Mapping[int, Any] | None = None, pids: Mapping[int, int] | None = None,
    api_key: str | None = None, concurrency: int = 1, prompts: Sequence[str] | None = None,
    sampling: Mapping[str, Any] | None = None, timeout_s: float = 60.0, wait_s: float = 0.0,
    on_progress: Callable[[str], None] | None = None,
    references: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """Write the evidence of every server of `targets` into `out` and return the manifest.

    Args:
        targets: replica index -> base URL.
        out: a directory that is empty or does not exist.
        level: 1 sends at most 3 short requests a replica; 2 as many as the interval of the
            acceptance length needs, at most 24, or where `concurrency` is above 1 at most 8 alone
            and then 16, or `concurrency`, together; 3 is 2 (a bounded trace is not there yet).
        passive: send no request that generates.
        logs: replica index -> its log file.
        reports: replica index -> directory of its in-engine reports.
        pids: replica index -> process id of the engine, for its environment and its death.
        api_key: sent as a bearer token and redacted everywhere.
        concurrency: requests at a time on level 2, at most 256.
        prompts: texts of the profile's workload, instead of the built-in ones.
        sampling: sampling parameters of the profile; temperature 0 without.
        timeout_s: of every HTTP call.
        wait_s: how long to wait until a server is ready.
        on_progress: called with a line of text while waiting and sending.
        references: greedy requests of another run; at most 8 that were not sent anyhow are sent.

    Raises:
        CollectError: something given cannot be used. A dead server is evidence, not an error.
    """
    if level not in (1, 2, 3) or concurrency < 1 or timeout_s <= 0:
        raise CollectError(f"level {level}, concurrency {concurrency}, time-out {timeout_s:g} s: "
                           "level is 1 to 3, the others are positive")  # fmt: skip
    if api_key and not re.fullmatch(r"[\x21-\x7e]+", api_key):
        raise CollectError("the API key has spaces or characters that no HTTP header can hold")
    if not targets:
        raise CollectError("no server to collect from; give --url http://HOST:PORT")
    plan = Plan(level, passive, concurrency, tuple(prompts or ()), sampling or {}, wait_s,
                on_progress or (lambda text: None), tuple(references))  # fmt: skip
    secrets: set[str] = {api_key} if api_key else set()
    root = Path(out)
    replicas = [
        _Replica(
            index, Client(usable_url(url), api_key, timeout_s), root / f"replica-{index}", plan,
            _existing((logs or {}).get(index), "log"),
            _existing((reports or {}).get(index), "reports"), (pids or {}).get(index), secrets,
        )
        for index, url in sorted(targets.items())
    ]  # fmt: skip
    _empty_directory(root)
    notes = ["level 3: no bounded trace yet, collected as level 2"] if level == 3 else []
    if plan.level > 1 and concurrency > MOST_TOGETHER:
        notes.append(f"{concurrency} requests at a time were wanted, {MOST_TOGETHER} were sent")
    host = host_facts(targets.values(), (pids or {}).values())
    for replica in replicas:
        replica.collect()
    manifest = redact_json(_manifest(plan, replicas, notes, host), secrets)
    _write(root / "manifest.json", manifest, secrets)
    return dict(manifest)


def _manifest(
    plan: Plan, replicas: list[_Replica], notes: list[str], host: dict[str, Any]
) -> dict[str, Any]:
    summaries = [replica.summary() for replica in replicas]
    versions = {str(r.info["version"]): None for r in replicas if r.info.get("version")}
    return {
        "format": FORMAT,
        "collector": VERSION,
        "collected_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "engine": {"name": "sglang", "version": next(iter(versions), None)},
        "level": plan.level,
        "passive": plan.passive,
        "concurrency": plan.concurrency,
        "host": host,
        "replicas": summaries,
        "environment": next((s["environment"] for s in summaries if s["environment"]), {}),
        "requests": [request for replica in replicas for request in replica.requests],
        "notes": [*notes, *(note for replica in replicas for note in replica.notes)],
    }


def _parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("collect.py", description=__doc__, formatter_class=style)
    add = parser.add_argument
    add("--url", action="append", required=True, help="a server; again for every replica")
    add("--out", required=True, help="new directory for the evidence")
    add("--level", type=int, default=1, choices=(1, 2, 3), help="how much to ask (default 1)")
    add("--passive", action="store_true", help="send no request that generates")
    add("--log", action="append", default=[], help="log file, in the order of --url")
    add("--reports", action="append", default=[], help="directory of reports, in that order")
    add("--pid", action="append", default=[], type=int, help="engine's process, in that order")
    add("--api-key-env", metavar="NAME", help="variable that holds the API key")
    add("--api-key-file", metavar="FILE", help="file that holds the API key")
    add("--concurrency", type=int, default=1, help="requests at a time on level 2")
    add("--prompts", metavar="FILE", help="JSON list of texts, or one text a line")
    add("--sampling", metavar="JSON", default="{}", help='for instance {"temperature": 0.6}')
    add("--timeout", type=float, default=60.0, help="seconds, of every HTTP call")
    add("--wait", type=float, default=0.0, help="seconds to wait until the server is ready")
    return parser


def _api_key(args: argparse.Namespace) -> str | None:
    if args.api_key_env:
        key = os.environ.get(args.api_key_env)
        if not key:
            raise CollectError(f"--api-key-env: {args.api_key_env} is not set; export it first")
        return key
    if args.api_key_file:
        return Path(args.api_key_file).read_text(encoding="utf-8").strip()
    return None


def _plain(text: str) -> str:
    """A space for every control character: what a server says must not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _prompts(path: str | None) -> list[str]:
    if path is None:
        return []
    text = Path(path).read_text(encoding="utf-8")
    found = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    if not all(isinstance(prompt, str) for prompt in found):
        raise CollectError(f"--prompts: {path} must be a JSON list of texts, or one text a line")
    return [prompt for prompt in found if prompt.strip()]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. 0: every server was ready; 1: one was not; 2: unusable input."""
    args = _parser().parse_args(argv)
    try:
        sampling = json.loads(args.sampling)
        if not isinstance(sampling, dict):
            raise CollectError("--sampling must be a JSON object")
        manifest = collect(
            dict(enumerate(args.url)), args.out, level=args.level, passive=args.passive,
            logs=dict(enumerate(args.log)), reports=dict(enumerate(args.reports)),
            pids=dict(enumerate(args.pid)), api_key=_api_key(args), concurrency=args.concurrency,
            prompts=_prompts(args.prompts), sampling=sampling, timeout_s=args.timeout,
            wait_s=args.wait, on_progress=lambda text: print(_plain(text), file=sys.stderr),
        )  # fmt: skip
    except (CollectError, OSError, ValueError) as error:
        print(_plain(f"collect.py: {error}"), file=sys.stderr)
        return 2
    for replica in manifest["replicas"]:
        state = "ready" if replica["ready"] else "not ready"
        print(f"replica {replica['index']}: {state}, {len(replica['files'])} files"
              + "".join(f"\n  {_plain(error)}" for error in replica["errors"]))  # fmt: skip
    return 0 if all(replica["ready"] for replica in manifest["replicas"]) else 1


if __name__ == "__main__":
    sys.exit(main())
