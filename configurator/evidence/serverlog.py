"""The server's log: its lines, how far the start got, and why it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from configurator.collector.logline import FATAL, MOST_CHARACTERS, READY, START
from configurator.evidence.model import LogLine, ServerState
from configurator.evidence.startline import identity_in

_BEGUN = re.compile(r"Init (?:torch distributed|parallel) begin")
_PHASES = tuple(
    (re.compile(shape), phase)
    for shape, phase in (
        (_BEGUN.pattern, "initializing distributed"),
        (r"Load weight begin", "loading weights"),
        (r"Load weight end", "allocating memory"),
        (r"(?:\w[\w -]{0,60} )?KV Cache is allocated", "allocating memory"),
        (r"Capture [\w -]{0,60}?(?i:CUDA) graph begin", "capturing CUDA graphs"),
        (r"(?i:Capture [\w -]{0,60}?CPU graph begin)", "capturing graphs"),
        (r"Running FlashInfer autotune", "FlashInfer autotune"),
        (r"Entering DeepGEMM JIT Pre-Compile", "DeepGEMM pre-compile"),
        (r"(?:PP-parallel )?DeepGEMM warmup", "DeepGEMM pre-compile"),
        (r"Uvicorn running", "warming up"),
        (re.escape(READY), "serving"),
    )
)
_WAITING = {
    "FlashInfer autotune": "alive: a first start tunes for minutes and caches the result; wait "
    "longer (startup.timeout_s), or set extra.args disable-flashinfer-autotune: true",
    "DeepGEMM pre-compile": "alive: a first start compiles for minutes (typically 10 to 20) and "
    "caches the result; wait longer (startup.timeout_s), or skip it with "
    "SGLANG_JIT_DEEPGEMM_PRECOMPILE=0",
    "capturing CUDA graphs": "wait longer (startup.timeout_s), or capture fewer batch sizes",
    "loading weights": "wait longer (startup.timeout_s); slow storage shows here",
}
_CAUSES = (
    (
        re.compile(r"addmm_cuda.*not implemented for 'Float8"),
        "an FP8 LM head was aliased into a draft without its method and scale: share the whole "
        "module, or leave out fp8-lm-head or the draft; the advice in the log to lower "
        "--mem-fraction-static is a false lead",
    ),
    (
        re.compile(r"kv_lora_rank"),
        "this engine version takes the draft for an MLA model; use a version that knows this "
        "architecture's draft, or leave out speculation",
    ),
    (
        re.compile(r"address already in use"),
        "another process listens on that port: stop it, or choose another serving.port",
    ),
    (re.compile(r"out of memory", re.I), "lower memory.mem_fraction_static, or use more GPUs"),
    (
        re.compile(r"unrecognized arguments|invalid choice|ambiguous option"),
        "run `configurator validate`: this engine version does not take that argument",
    ),
    (
        re.compile(r"Could not load any common_ops library"),
        "install a build of sglang-kernel that has this GPU's compute capability and fits the "
        "installed torch; no model needs to be loaded to try it: python -c 'import sgl_kernel'",
    ),
    (
        re.compile(r"no kernel image is available"),
        "a kernel was not built for this GPU: use a build for its compute capability, and GPUs "
        "that are all alike (nvidia-smi --query-gpu=name,compute_cap --format=csv)",
    ),
    (
        re.compile(r"connect \[?127\.0\.0\.1\]?(?::\d+)?:? Connection refused"),
        "a rank of another host was looked for on the loopback: set GLOO_SOCKET_IFNAME and "
        "NCCL_SOCKET_IFNAME on every host to its interface on the network between them",
    ),
    (
        re.compile(r"enable-nvidia-megakernel cannot run this setup"),
        "change what the listed reasons name, or leave out nvidia-megakernel",
    ),
)
_MET = "Init torch distributed ends"
_APART = (
    (
        re.compile(r"(?:\w+: )?connect \[?127\.0\.0\.1\]?(?::\d+)?:? Connection refused"),
        next(text for pattern, text in _CAUSES if "127" in pattern.pattern),
    ),
    (
        re.compile(r"CustomAllreduce is disabled because this process group spans across nodes"),
        "the ranks wait for each other on an address that the other host cannot reach: set "
        "SGLANG_HOST_IP on every host to its own address on the network between them",
    ),
)
"""Lines after which ranks of several hosts that do not find each other say nothing more."""
_FATAL = re.compile(FATAL)
# What the collector says when it saw the death itself.
_GONE = re.compile(r"process \d+ has exited|the log says the server died")
# What the collector says of a server that is alive and of no use.
_ANSWERS_NONE = re.compile(r"answers (\d+) of \1 requests with HTTP 5")
# The HTTP server's own error, after which the engine still logs that it is ready.
_UNBOUND = re.compile(r"\[Errno \d+\] error while attempting to bind on address .*")
_EXCEPTION = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b.*")
_ARGPARSE = re.compile(r"\S+: error: .+")
_CHAINED = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_BAR = re.compile(r"\d+%\|")
_STAMPED = re.compile(r"\[20\d\d-\d\d-\d\d[^\]]{0,80}\]")
# `--log-requests` repeats what people sent, as text or as JSON; so does the list of accesses.
_REQUEST = re.compile(
    r".{0,200}?(?:\b(?:Receive(?: OpenAI)?|Finish): obj="
    r"|\{\"timestamp\": \"[^\"]{0,40}\", \"event\": \"request\."
    r"|\bINFO:\s+\S{1,80} - \"[A-Z]+ )"
)
_ACCESS = re.compile(r".{0,200}?\bINFO:\s+\S{1,80} - \"")
_TRACEBACK = "Traceback (most recent call last)"


def parse_log(text: str) -> tuple[LogLine, ...]:
    """The lines of a log that speak of its last start, by their numbers in the file.

    Of a progress bar, which rewrites its line, only what it ended with; of a long line only its
    beginning; nothing that a person sent to the server and that the log repeats.
    """
    lines = []
    for number, raw in enumerate(text.split("\n"), 1):
        parts = [part for part in raw.split("\r") if part.strip()]
        bars = [part for part in parts if _BAR.search(part[:MOST_CHARACTERS])]
        kept = [part for part in parts if part not in bars] + bars[-1:]
        lines += [_line(number, part) for part in kept]
    return tuple(last_start(list(_without_requests(lines))))


def _line(number: int, text: str) -> LogLine:
    """A line; that of the arguments without them: they are a wish, and hold any text."""
    line = LogLine(number, text[:MOST_CHARACTERS])
    if not line.message.startswith(START):
        return line
    prefix = line.text[: len(line.text) - len(line.message)]
    return LogLine(number, prefix + START, identity_in(text[len(prefix) :]))


def _without_requests(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """The lines without those that repeat a request, and without the rest of its text."""
    inside = closed = False
    for line in lines:
        if _REQUEST.match(line.text):
            if not _ACCESS.match(line.text):
                inside = True
                # The engine writes one line; where its brackets stay open, a text goes on below.
                closed = line.text.rstrip().endswith((")", "}"))
            continue
        traceback = closed and line.text.startswith(_TRACEBACK)
        inside = inside and not traceback and not _STAMPED.match(line.text)
        if not inside:
            yield line


def server_state(
    log: Sequence[LogLine] | None,
    *,
    answered: bool,
    ready: bool | None,
    error: str = "",
    statuses: Sequence[int] = (),
) -> ServerState:
    """Whether the server can be judged, from its log and whether it answered.

    Args:
        log: its lines; None when there is no log.
        answered: an information page of it was read.
        ready: what the collector saw; None when nobody looked.
        error: what went wrong when it was asked.
        statuses: HTTP status of every request that was to generate.
    """
    lines = log or ()
    death = _death(lines, answered=answered)
    phase, where = _phase(lines)
    if death is None and not ready and _GONE.search(error):
        death = _unbound(lines) or (error, lines[-1].number if lines else 0)
    if death is not None:
        reason, number = death
        remedy = next((text for pattern, text in _CAUSES if pattern.search(reason)), "")
        apart = _ranks_apart(lines)
        remedy = remedy or (apart[1] if apart else "")
        return ServerState(
            "failed", phase, reason, remedy or "mend the cause; the end of the log has more",
            f"server.log:{number}" if number else "",
        )  # fmt: skip
    refusal = error if _ANSWERS_NONE.match(error) else _refusal(statuses)
    if refusal:
        return ServerState(
            "failed", "serving", refusal,
            "send one such request by hand and read its error and the log; mend the cause", where,
        )  # fmt: skip
    if ready and log is None and not answered:
        return ServerState(
            "unreachable", "", error or "something answers there, but not with /server_info",
            "check that the address and the port are the engine's",
        )  # fmt: skip
    if ready or (ready is None and (answered or phase == "serving")):
        return ServerState("ready", "serving", locator=where)
    if phase == "serving" or (not lines and not answered):
        return ServerState(
            "unreachable", phase, error or "no page of it could be read",
            "check the address, the port and the key, and that the process runs", where,
        )  # fmt: skip
    apart = None if answered else _ranks_apart(lines)
    if apart is not None:
        line, remedy = apart
        reason = f"the ranks have not met ({_MET!r} is missing) since: {line.text.strip()}"
        phase = phase or "initializing distributed"
        return ServerState("starting", phase, reason, remedy, f"server.log:{line.number}")
    remedy = _WAITING.get(phase, "wait longer (startup.timeout_s), and look at the log")
    reason = f"not ready; the log ends in the phase {phase}" if phase else error or "not ready"
    return ServerState("starting", phase, reason, remedy, where)


def _refusal(statuses: Sequence[int]) -> str:
    """That every request was answered with an error of the server; empty: not so."""
    if not statuses or min(statuses) < 500:
        return ""
    codes = " and ".join(map(str, sorted(set(statuses))))
    return f"answers {len(statuses)} of {len(statuses)} requests with HTTP {codes}"


def _unbound(lines: Sequence[LogLine]) -> tuple[str, int] | None:
    """That the port could not be had, and the line that says so."""
    found = ((_UNBOUND.match(line.message), line.number) for line in lines)
    return next(((match[0].strip(), number) for match, number in found if match), None)


def last_start(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """The lines of the last start: an earlier one may have got further in the same file."""
    starts = list(_starts(lines))
    if not starts:
        return lines
    before = lines[: starts[-1]]
    # The first lines of a start stand before its arguments.
    earlier = len(starts) > 1 or any(_phase_of(line) for line in before)
    return lines[starts[-1] :] if earlier else lines


def _starts(lines: Sequence[LogLine]) -> Iterator[int]:
    """Where a start begins: with its arguments, or anew after the server was ready."""
    served = False
    for index, line in enumerate(lines):
        if line.message.startswith(START) or (served and _BEGUN.match(line.message)):
            served = False
            yield index
        served = served or line.message.startswith(READY)


def of_another_start(lines: Sequence[LogLine], info: Mapping[str, Any] | None) -> str:
    """Why the log is not of the server that answers; empty: nothing says so.

    Args:
        lines: those of the last start.
        info: /server_info; None: it never answered.
    """
    said = next((line.start for line in lines if line.start), {})
    for name, value in said.items():
        live = (info or {}).get(name)
        if live is None:
            continue
        own, other = (_plain(name, str(one)) for one in (value, live))
        if own != other:
            return (
                f"server.log does not count: it is of another start, whose {name} is {own:.60}, "
                f"and {other:.60} answers"
            )
    return ""


def _plain(name: str, value: str) -> str:
    """A value as it may be compared: a checkpoint by the last part of its path."""
    return value.rstrip("/").rpartition("/")[2] if name == "model_path" else value


def _phase(lines: Sequence[LogLine]) -> tuple[str, str]:
    for line in reversed(lines):
        phase = _phase_of(line)
        if phase:
            return phase, f"server.log:{line.number}"
    return "", ""


def _phase_of(line: LogLine) -> str:
    """The phase that begins with this line; empty: none."""
    return next((phase for shape, phase in _PHASES if shape.match(line.message)), "")


def _ranks_apart(lines: Sequence[LogLine]) -> tuple[LogLine, str] | None:
    """The line at which ranks of several hosts wait for each other, and what lets them meet."""
    for line in reversed(lines):
        if line.message.startswith((_MET, "Load weight begin")):
            return None
        for pattern, remedy in _APART:
            if pattern.match(line.message):
                return line, remedy
    return None


def _death(lines: Sequence[LogLine], *, answered: bool) -> tuple[str, int] | None:
    """The root exception that ended the server, and its line; None when nothing did."""
    fatal = next((i for i, line in enumerate(lines) if _FATAL.match(line.message)), None)
    served = any(line.message.startswith(READY) for line in lines)
    if fatal is None and (served or answered):
        return None
    start = fatal if fatal is not None else _last_traceback(lines)
    if start is None:
        return next(
            ((line.text.strip(), line.number) for line in lines if _ARGPARSE.match(line.text)),
            None,
        )
    root = _root_exception(lines, start)
    if root is None and fatal is not None:
        # Some ranks print their traceback before anybody notices that they are gone.
        before = _last_traceback(lines[:fatal])
        root = _root_exception(lines[:fatal], before) if before is not None else None
        return root or (lines[fatal].text.strip(), lines[fatal].number)
    return root


def last_words(lines: Sequence[LogLine] | None) -> tuple[LogLine, ...]:
    """The traceback that ended the server, line by line; (): none did.

    Its lines have no prefix and are no facts by themselves, only after a line that is fatal, or at
    the end of the log of a server that never was ready.
    """
    lines = lines or ()
    fatal = next((i for i, line in enumerate(lines) if _FATAL.match(line.message)), None)
    if fatal is None and any(line.message.startswith(READY) for line in lines):
        return ()
    own = fatal is not None and _TRACEBACK in lines[fatal].text
    start = fatal if own else _last_traceback(lines[:fatal])
    if start is None:
        return ()
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if _STAMPED.match(line.text)), len(rest))
    return tuple(rest[:end])


def _last_traceback(lines: Sequence[LogLine]) -> int | None:
    """The last traceback after which the log says nothing with a time stamp."""
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].text.rstrip(": \t").endswith(_TRACEBACK):
            after = [line for line in lines[index + 1 :] if line.text.startswith("[20")]
            return None if after else index
    return None


def _root_exception(lines: Sequence[LogLine], start: int) -> tuple[str, int] | None:
    """The first exception of the chain that begins at `start`: later ones only wrap it."""
    found: tuple[str, int] | None = None
    for line in lines[start + 1 :]:
        text = line.text
        if found is None and _EXCEPTION.fullmatch(text):
            found = (text.strip(), line.number)
        elif found is not None:
            indented = text.startswith(" ") or any(mark in text for mark in _CHAINED)
            if not indented:
                # An exception's text may go on below it, as the megakernel's list of reasons.
                return found
            if text.startswith("  - "):
                found = (f"{found[0]} {text.strip()}", found[1])
    return found
