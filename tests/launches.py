"""Launches for tests, from the command that a person would type."""

from __future__ import annotations

import re
import shlex

from configurator.checkpoint import Checkpoint
from configurator.content import Library
from configurator.launch import Launch, LaunchEnv, LaunchWord

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENTRIES = ("serve", "sglang.launch_server")


def launch(
    command: str,
    *,
    engine: str = "0.5.23",
    hardware: str | None = None,
    checkpoint: Checkpoint | None = None,
    draft: Checkpoint | None = None,
) -> Launch:
    """The launch of `A=1 sglang serve --tp 2`, `python -m sglang.launch_server --tp 2`, `--tp 2`.

    A word `$NAME` is one that is known only where it runs.

    Args:
        command: assignments, then the program, then its arguments; the first two are optional.
        engine: a released version with an entry.
        hardware: the name of a hardware entry.
        checkpoint: the target's facts; no path of the command is looked at.
        draft: the facts of a draft with a checkpoint of its own.
    """
    words = shlex.split(command)
    env: dict[str, LaunchEnv] = {}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        env[found[1]] = LaunchEnv(found[1], found[2], ("env", found[1]))
        words = words[1:]
    entry = next((i + 1 for i, word in enumerate(words) if word in _ENTRIES), 0)
    library = Library()
    return Launch(
        library.engine(f"sglang-{engine}"),
        tuple(
            LaunchWord(word, ("argv", index), unknown=word.startswith("$"))
            for index, word in enumerate(words[entry:])
        ),
        env,
        library.hardware(hardware) if hardware else None,
        checkpoint,
        draft,
        serve=entry > 0 and words[entry - 1] == "serve",
    )
