"""A file with launches, whatever its shape: what it is, and what it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.readers.arguments import argv_command, json_commands, words_of
from configurator.readers.compose import read_compose
from configurator.readers.dockerfile import read_dockerfile
from configurator.readers.kubernetes import read_kubernetes
from configurator.readers.placeholders import unrendered
from configurator.readers.processes import Result, commands_of
from configurator.readers.reading import Reading
from configurator.readers.shell import run_script
from configurator.readers.systemd import read_systemd
from configurator.readers.templates import Covered, covered, templated
from configurator.readers.yamlwords import Documents
from configurator.regular import NotRegularError, TooLargeError, read_regular, why_unread
from configurator.words import Command, Setting, Word

MAX_BYTES = 2 << 20
"""More than any launch a person wrote."""
FORMATS = ("shell", "compose", "kubernetes", "systemd", "dockerfile", "argv")
_SOUGHT = "`sglang serve` or `python -m sglang.launch_server`"
_YAML = re.compile(r"---|%YAML|[A-Za-z][\w.-]*[ \t]*:(?:\s|$)")
"""How the first line of a YAML document looks, and that of a script does not."""
_RUN = templated(run_script)
"""For scripts in YAML, whose own words know their placeholders."""
_PROFILE = re.compile(r"""(?m)^apiVersion[ \t]*:[ \t]*["']?configurator/v1\b""")


def read_commands(path: Path, given: Mapping[str, str] | None = None) -> Reading:
    """The engine launches of a file.

    `given` are values of variables that are set only where and when it runs.

    Raises:
        ConfiguratorError: LNT001, no text that can be read; LNT003, broken beyond reading.
    """
    return _read(load(path), str(path), given or {}, None, path.parent)


def read_text(
    text: str, name: str, given: Mapping[str, str] | None = None, format: str | None = None
) -> Reading:
    """The engine launches of a text; `format` is one of FORMATS, or found out.

    Files that the text names are not read. Raises as `read_commands`.
    """
    if format is not None and format not in FORMATS:
        raise _unreadable(f"{format!r} is no format of launches", did_you_mean(format, FORMATS))
    if len(text) > MAX_BYTES:
        raise _too_large(name)
    return _read(_normal(text, name), name, given or {}, format, None)


def read_argv(argv: Sequence[str], env: Mapping[str, str] | None, name: str) -> Command:
    """The launch of an argument vector that begins with the program, or with the options.

    Raises:
        ConfiguratorError: LNT005 or another, when it starts no engine or more than one.
    """
    settings = {
        key: Setting(key, value, Position(name, 1, 1)) for key, value in (env or {}).items()
    }
    place = Position(name, 1, 1)
    commands, problems = argv_command(words_of(argv, name), settings, place, run_script)
    if len(commands) != 1:
        raise ConfiguratorError(problems or [_nothing(name, len(commands))])
    return commands[0]


def read_argv_json(text: str, name: str) -> Reading:
    """The launches of JSON: {"argv": [...], "env": {...}}, a list of such, or one a line.

    Raises:
        ConfiguratorError: LNT003, not JSON, or not of that shape.
    """
    return _read(_normal(text, name), name, {}, "argv", None)


def _read(
    text: str, name: str, given: Mapping[str, str], format: str | None, folder: Path | None
) -> Reading:
    found = format or _format(text, name)
    cover = covered(text) if found in ("shell", "systemd", "dockerfile") else Covered(text, {})
    commands, problems = cover.result(_result(cover.text, name, given, found, folder))
    if not commands and not any(p.code in ("LNT006", "LNT007") for p in problems):
        problems = (*problems, _nothing(name, 0, text))
    problems = (*problems, *unrendered(commands))
    return Reading(name, found, commands, tuple(dict.fromkeys(problems)))


def _result(
    text: str, name: str, given: Mapping[str, str], format: str, folder: Path | None
) -> Result:
    if format == "argv":
        return json_commands(text, name, run_script)
    if format == "systemd":
        return read_systemd(text, name, run_script, given, folder)
    if format == "dockerfile":
        return read_dockerfile(text, name, run_script, given, folder)
    if format == "compose":
        return read_compose(Documents(text, name), _RUN, given, folder)
    if format == "kubernetes":
        return read_kubernetes(Documents(text, name), _RUN, given, folder)
    return _shell(text, name, given, folder)


def _shell(text: str, name: str, given: Mapping[str, str], folder: Path | None) -> Result:
    script = run_script(Word.at(text, Position(name, 1, 1)), given)
    commands: list[Command] = []
    problems = list(script.problems)
    for invocation in script.found:
        found, about = commands_of(invocation, run_script, given, folder)
        if commands and not found and invocation.words:
            about = (*about, *_cut_off(invocation.words[0], commands[-1]))
        commands += found
        problems += about
    return tuple(commands), tuple(problems)


def _cut_off(word: Word, command: Command) -> tuple[Problem, ...]:
    """Options on a line of their own after a launch: bash takes them for a program."""
    if not word.text.startswith("--"):
        return ()
    last = command.argv[-1].position.line if command.argv else command.position.line
    message = f"{word.text} and what follows never reach the engine: line {last} ends its command"
    remedy = "end every line but the last with a backslash, and keep comments out of between"
    if command.argv and re.search(r"[ \t]$", command.argv[-1].text):
        # Backslash and blank are a word of their own: the newline after them is none of it.
        message += ", for a blank follows the backslash at its end"
        remedy = f"remove the blank after the backslash at the end of line {last}"
    return (Problem("LNT010", message, remedy, word.position),)


def _format(text: str, name: str) -> str:
    file = name.rsplit("/", 1)[-1].lower()
    if file.endswith((".sh", ".bash")) or text.startswith("#!"):
        return "shell"
    if file.endswith((".service", ".conf")) or re.search(r"(?m)^\[Service\]", text):
        return "systemd"
    if file == "dockerfile" or file.startswith("dockerfile.") or file.endswith(".dockerfile"):
        return "dockerfile"
    if text.lstrip()[:1] in ("{", "[") and '"argv"' in text:
        return "argv"
    named = file.endswith((".yaml", ".yml", ".json"))
    if named or _YAML.match(next(filter(_speaks, text.split("\n")), "")):
        if re.search(r"(?m)^services[ \t]*:", text):
            return "compose"
        if named or re.search(r"(?m)^(kind|apiVersion)[ \t]*:", text):
            return "kubernetes"
    if re.search(r"(?m)^FROM\s+\S+", text) and re.search(r"(?m)^(CMD|ENTRYPOINT)\s", text):
        return "dockerfile"
    return "shell"


def _speaks(line: str) -> bool:
    """Neither empty nor a comment, nor a line that a template leaves out."""
    return bool(line.strip()) and not line.lstrip().startswith(("#", "{{", "{%"))


def _nothing(name: str, count: int, text: str = "") -> Problem:
    message = f"no launch of sglang found: {_SOUGHT} was looked for"
    remedy = "give a file that starts the engine, or its arguments as they are"
    if count:
        message, remedy = f"{count} launches where one is expected", "give one launch"
    if _PROFILE.search(text):
        remedy = "this is a profile: `configurator validate` reads it"
    elif "dynamo.sglang" in text:
        remedy = "workers of NVIDIA Dynamo are not read, but for those of `render --target dynamo`"
    elif re.search(r"sglang\.launch_server|sglang serve", _without_comments(text)):
        message = "the engine is named here, but no launch of it could be read"
        remedy = "give the launch itself, or its words as --argv-json"
        return Problem("LNT015", message, remedy, Position(name, 1, 1))
    elif "sglang.launch_server" in text or "sglang serve" in text:
        remedy = "the name of the engine stands in the text, but nothing there starts it"
    return Problem("LNT005", message, remedy, Position(name, 1, 1))


def _without_comments(text: str) -> str:
    """The text without comments, and without lines that look for a process or end one."""
    return re.sub(r"(?m)(^|\s)#.*$|^.*\b(pkill|pgrep|grep|killall)\b.*$", "", text)


def load(path: Path) -> str:
    """The text of a file. Raises as `read_commands`."""
    name = str(path)
    try:
        raw = read_regular(path, MAX_BYTES)
    except TooLargeError:
        raise _too_large(name) from None
    except NotRegularError as error:
        raise _unreadable(why_unread(name, error), "give a file that starts the engine") from None
    except OSError as error:
        raise _unreadable(why_unread(name, error), "check the path") from None
    except ValueError as error:
        raise _unreadable(f"cannot read {name!r}: {error}", "check the path") from None
    try:
        return _normal(raw.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise _unreadable(
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            "save the file as UTF-8 text",
            Position(name, line, column),
        ) from None


def _normal(text: str, name: str) -> str:
    """Without a byte order mark and with plain line ends; positions stay the same."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if "\0" in text:
        raise _unreadable(f"{name} is binary, not text", "give a file that starts the engine")
    return text


def _too_large(name: str) -> ConfiguratorError:
    return _unreadable(
        f"{name} is larger than {MAX_BYTES >> 20} MiB", "give the file that starts the engine"
    )


def _unreadable(message: str, remedy: str, position: Position | None = None) -> ConfiguratorError:
    return ConfiguratorError.single("LNT001", message, remedy, position)
