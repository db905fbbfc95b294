"""Debian's `docker-compose config` for many files: its own command line, started once for all.

Releases before 2 are programs of Python, and what such a start costs is mostly imports.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_MANY = """
import contextlib, io, json, os, sys
from compose.cli.main import main
done = []
for path, env in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["docker-compose", "-f", path, "config"]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    done.append((code, out.getvalue(), err.getvalue()))
json.dump(done, sys.stdout)
"""


def configured(program: str, files: Sequence[tuple[Path, dict[str, str]]]) -> list[str]:
    """What `docker-compose -f FILE config` prints for every file with its environment.

    A file that it refuses fails the test with what it says.
    """
    given = [(str(path), {**env, "PATH": os.environ["PATH"]}) for path, env in files]
    python = _python_of(program)
    if python is None:
        done = [_alone(program, path, env) for path, env in given]
    else:
        words = [python, "-c", _MANY]
        text = subprocess.run(
            words, input=json.dumps(given), capture_output=True, text=True, check=True
        )
        done = json.loads(text.stdout)
    for (path, _), (code, _, said) in zip(given, done, strict=True):
        assert not code, f"{path}: {said}"
    return [printed for _, printed, _ in done]


def _python_of(program: str) -> str | None:
    """The interpreter of a program; none, if it is no program of Python."""
    with Path(program).open("rb") as file:
        first = file.readline(200)
    words = first[2:].decode(errors="replace").split()
    return words[-1] if first.startswith(b"#!") and "python" in words[-1] else None


def _alone(program: str, path: str, env: dict[str, str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [program, "-f", path, "config"], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr
