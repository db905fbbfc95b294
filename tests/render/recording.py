"""A stand-in for `python3` that writes down what it is started with, and one for `sleep`.

Scripts wait with `sleep 1` for an engine that is there for moments: here their pauses are short.
"""

from __future__ import annotations

import os
from pathlib import Path

from render.generated import Started

OF_BASH = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}
"""Variables that a shell sets or changes by itself."""
_PYTHON = """#!/bin/bash
{before}
printf '%s\\0' python3 "$@" >"{seen}.argv"
env -0 >"{seen}.env.partial"
mv "{seen}.env.partial" "{seen}.env"
{after}
"""
_SLEEP = "#!/bin/bash\nexec /bin/sleep 0.02\n"


def recorder(tools: Path, seen: str, before: str = "", after: str = "") -> None:
    """Put them into a folder of programs; `seen`, `before` and `after` are words of bash.

    `before` runs first, `after` once everything is written.
    """
    tools.mkdir(exist_ok=True)
    python = _PYTHON.format(seen=seen, before=before, after=after)
    for name, text in {"python3": python, "sleep": _SLEEP}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)


def recorded(seen: Path | str) -> Started:
    """What it was started with."""
    argv = os.fsdecode(Path(f"{seen}.argv").read_bytes()).split("\0")[:-1]
    pairs = os.fsdecode(Path(f"{seen}.env").read_bytes()).split("\0")[:-1]
    return Started(argv, dict(pair.split("=", 1) for pair in pairs))
