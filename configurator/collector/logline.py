"""A line of a log taken apart once: who wrote it, and the message that may be matched.

A log repeats what people send (`Hit invalid json_schema: key_string='...'`), so words somewhere in
a line prove nothing. A message begins where the engine's prefix ends, and facts are read from its
beginning only. A line without a prefix (the rest of a message, a traceback) has no message, but
for the few shapes that are printed without one and are listed here.
"""

from __future__ import annotations

import re

READY = "The server is fired up and ready to roll!"
START = "server_args="
"""Beginning of the message in which a start lists its arguments."""

# What runs the container writes before each line.
_OUTER = "|".join(
    (
        r"(?:\x1b\[[\d;]{0,8}m)?[\w.-]{1,80} {1,40}\| (?:\x1b\[[\d;]{0,8}m)?",  # docker compose
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]{0,12}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} \S{1,80}\[\d{1,9}\]: ",  # journalctl
        r"\[pod/[^\]\s]{1,200}\] ",  # kubectl logs --prefix
        r"\(\w{1,60} pid=\d{1,9}[^)\n]{0,60}\) ",  # ray
        r" {0,8}\d{1,5}: ",  # srun --label
    )
)
# `[2026-11-30 09:00:00 DP0 PP1 TP3 EP3] `, as configure_logger of the engine has it.
_STAMP = r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{3})?"
_OWN = rf"{_STAMP}(?P<place>(?: [A-Za-z][\w\[\]]{{0,30}}){{0,8}})\] "
# A progress bar does not end its line: a message may follow on it.
_BAR = (
    r"(?:\s*(?:[\w (=.,)-]{1,80}:)?\s*\d{1,3}%(?:\|| Completed \|)"
    rf"(?:(?!{_STAMP})[^\n]){{0,4000}})?"
)
# uvicorn's logger has its level in the message.
_LEVEL = r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s+)?"
_PREFIX = re.compile(rf"(?:{_OUTER}){{0,3}}{_BAR}{_OWN}{_LEVEL}")
_BARE = re.compile(
    rf"(?:{_OUTER}){{0,3}}(?:"
    # NCCL's own lines: host:process:thread [device].
    r"\S{1,80}:\d{1,9}:\d{1,9} \[\d{1,4}\] (?=NCCL )"
    # uvicorn without the engine's format, before the port is bound.
    r"|(?:INFO|WARNING|ERROR):\s{2,8}(?=Uvicorn running on |\[Errno \d)"
    # vLLM's logger, where the engine borrows its kernels.
    r"|(?:\(\w{1,60} pid=\d{1,9}\) )?(?:INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d "
    r"\[[\w./]{1,80}:\d{1,6}\] "
    # Warnings of torch's C++: [W1130 09:00:00.123 ProcessGroupNCCL.cpp:1] or [rank0]:[W...].
    r"|(?:\[rank\d{1,5}\]:)?\[[IWEF]\d{4} \d\d:\d\d:\d\d[^\]\n]{0,160}\] "
    # Plugins are loaded before logging is set up.
    r"|(?=Failed to apply hooks to )"
    # Bars of which the name alone says what goes on.
    r"|(?=DeepGEMM warmup: {1,3}\d{1,3}%)"
    r")"
)
"""Lines without the engine's prefix that are known all the same."""
_RANK = re.compile(r" ([A-Z][A-Z_]*?)(\d{1,5})(?= |$)")

FATAL = (
    r"[A-Z]\w{2,60} hit an exception: "
    r"|(?:Subprocess|Process) \S{1,80}(?: \([^)]{1,40}\))? crashed with exit code (?!-15\b|0\b)"
    r"|Received sigquit from a child process"
)
"""Messages after which the server is dead. A stop by SIGTERM (-15) is somebody's wish."""

MOST_CHARACTERS = 8192
"""What is looked at of a line: patterns of probes may take quadratic time."""


def taken_apart(text: str) -> tuple[str, dict[str, int]]:
    """The message of a line and the ranks that its prefix names (`dp`, `pp`, `tp`, `ep`, ...).

    The message is empty where the line is none of its own: nothing of it is a fact.
    """
    found = _PREFIX.match(text)
    if found is not None:
        ranks = {name.lower(): int(number) for name, number in _RANK.findall(found["place"])}
        return text[found.end() :], ranks
    bare = _BARE.match(text)
    return (text[bare.end() :] if bare is not None else ""), {}
