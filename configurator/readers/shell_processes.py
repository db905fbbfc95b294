"""What the words of a process say: a script in quotes, or the engine and its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from configurator.readers.shell_flow import shortened
from configurator.readers.shell_state import Run
from configurator.words import Word

_REMOTE = frozenset(("ssh", "xargs", "parallel"))
_LAUNCHES = re.compile(r"sglang|launch|serve|\.sh\b")
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))


def is_unknown(text: Word) -> bool:
    """Nothing of the text can be known."""
    whole = re.fullmatch(r"\$[\w@*]+|\$\{[^{}]*\}|\$\(.*\)|`.*`", text.text, re.DOTALL)
    return text.unknown and whole is not None


def engine_arguments(found: Sequence[Word]) -> Sequence[Word]:
    """The words after the engine's name; none for other programs."""
    texts = [word.text for word in found]
    for at, text in enumerate(texts):
        if text == "sglang.launch_server" or texts[at : at + 2] == ["sglang", "serve"]:
            return found[at + 1 + (text == "sglang") :]
    return ()


def script_of(found: Sequence[Word]) -> int | None:
    """The index of TEXT in `bash -c TEXT`; None for other commands."""
    if not found or found[0].unknown or found[0].text.rpartition("/")[2] not in _SHELLS:
        return None
    at, asked = 1, False
    while at < len(found) and found[at].text[:1] in "-+" and len(found[at].text) > 1:
        option = found[at].text
        asked = asked or bool(re.fullmatch(r"-[a-z]*c[a-z]*", option))
        at += 2 if option[-1:] == "o" and not option.startswith("--") else 1
    return at if asked and at < len(found) else None


def shell_options(found: Sequence[Word]) -> frozenset[str]:
    """The options of `set` that `bash -e -c TEXT` turns on."""
    at = script_of(found) or 0
    given = [word.text for word in found[:at]]
    letters = any(re.fullmatch(r"-[A-Za-z]*e[A-Za-z]*", text) for text in given)
    return frozenset(("errexit",)) if letters or "errexit" in given else frozenset()


def report_process(found: Sequence[Word], run: Run) -> None:
    """Say what cannot be told of a process."""
    name = found[0].text.rpartition("/")[2]
    rest = found[1:]
    arguments = engine_arguments(found)
    if arguments and all(word.unknown for word in arguments):
        run.problem(
            "LNT004",
            f"all that the engine gets is `{shortened(arguments[0].text)}`, "
            "which is known only when the script runs",
            "write its arguments out, or give the values of the variables",
            arguments[0].position,
        )
    if name in _REMOTE and any(word.unknown or _LAUNCHES.search(word.text) for word in rest):
        run.problem(
            "LNT004",
            f"what `{name}` starts is not followed",
            "check the launch in a file of its own",
            found[0].position,
        )
