"""Units as systemd reads them: by its own code, and by the rules that it documents.

`by_systemd` loads units with `systemd --test`, which starts nothing, and takes what it says apart.
`by_rules` follows systemd.syntax(7), systemd.service(5) and systemd.exec(5).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SYSTEMD = "/lib/systemd/systemd"
_ALL = "everything-here.target"
_NOBODY = 65534
_LETTERS = {"a": 7, "b": 8, "e": 27, "f": 12, "n": 10, "r": 13, "s": 32, "t": 9, "v": 11}


@dataclass
class Unit:
    """What a unit starts, before variables of the running system are put in."""

    commands: dict[str, list[list[str]]] = field(default_factory=dict)
    """By ExecStartPre, ExecStart and ExecStartPost."""
    env: dict[str, str] = field(default_factory=dict)


def by_systemd(units: Mapping[str, str]) -> dict[str, Unit]:
    """Units, as texts by their names, as systemd itself has loaded them; it must not be root.

    The folder is none of pytest's, which are closed to others whenever some pytest starts.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        target = {_ALL: "[Unit]\n" + "".join(f"Wants={name}\n" for name in units)}
        for name, text in {**units, **target}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)
        text = _loaded(folder)
    found = {}
    for part in re.split(r"^\t-> Unit ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition(":\n")
        if name in units:
            found[name] = _dumped(body)
    return found


def _loaded(folder: Path) -> str:
    """What systemd says of the units of a folder."""
    words = [SYSTEMD, "--test", "--system", f"--unit={_ALL}"]
    runtime = folder / "runtime"
    runtime.mkdir()
    runtime.chmod(0o777)
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv") or "setpriv"
        words = [setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *words]
    env = {
        "SYSTEMD_UNIT_PATH": f"{folder}:",
        "XDG_RUNTIME_DIR": str(runtime),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(words, env=env, capture_output=True, timeout=120, check=False)
    return done.stdout.decode()


def _dumped(body: str) -> Unit:
    """One unit of the dump; values with line breaks go on until the next key."""
    unit = Unit()
    kind = ""
    lines = body.split("\n")
    for at, line in enumerate(lines):
        if found := re.match(r"\t\t-> (ExecStart(?:Pre|Post)?):$", line):
            kind = found[1]
        elif found := re.match(r"\t\t\tCommand Line: (.*)$", line):
            unit.commands.setdefault(kind, []).append(_shell_words(found[1]))
        elif line.startswith("\t\tEnvironment: "):
            value = [line.removeprefix("\t\tEnvironment: ")]
            for more in lines[at + 1 :]:
                if re.match(r"\t\t(?:Environment|RuntimeDirectoryPreserve|EnvironmentFile)", more):
                    break
                value.append(more)
            name, _, text = "\n".join(value).partition("=")
            unit.env[name] = text
    return unit


def _shell_words(line: str) -> list[str]:
    """Words as systemd prints a command: quoted where needed, control characters as in C."""
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] == " ":
            at += 1
            continue
        quoted = line[at] == '"'
        at += quoted
        word = bytearray()
        while at < len(line) and line[at] != ('"' if quoted else " "):
            if line[at] == "\\":
                at += 1
                if octal := re.match(r"[0-7]{3}", line[at:]):
                    word.append(int(octal[0], 8))
                    at += 3
                    continue
                named = _LETTERS.get(line[at]) if quoted else None
                word += bytes([named]) if named else line[at].encode()
            else:
                word += line[at].encode()
            at += 1
        at += quoted
        words.append(word.decode())
    return words


def by_rules(text: str) -> Unit:
    """A unit by the documented rules."""
    unit = Unit()
    for key, value in settings(text):
        if key == "Environment":
            for word in _unquoted(value):
                name, _, held = _without_specifiers(word).partition("=")
                unit.env[name] = held
        elif key in ("ExecStart", "ExecStartPre", "ExecStartPost"):
            words = [_without_specifiers(word) for word in _unquoted(value.lstrip("-+"))]
            unit.commands.setdefault(key, []).append(words)
    return unit


def settings(text: str) -> list[tuple[str, str]]:
    """Keys and values, continued lines joined; comments among them are left out."""
    found: list[tuple[str, str]] = []
    held = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        whole, held = held + line, ""
        key, equals, value = whole.strip().partition("=")
        if equals and not whole.startswith("["):
            found.append((key.strip(), value.strip()))
    return found


def _unquoted(value: str) -> list[str]:
    words: list[str] = []
    at = 0
    while at < len(value):
        if value[at] in " \t":
            at += 1
            continue
        word = bytearray()
        quote = ""
        while at < len(value) and (quote or value[at] not in " \t"):
            sign = value[at]
            if sign == "\\":
                size = 3 if value[at + 1] == "x" else 1
                code = value[at + 1 : at + 1 + size]
                if size == 3:
                    word.append(int(code[1:], 16))
                else:
                    named = _LETTERS.get(code)
                    word += bytes([named]) if named else code.encode()
                at += 1 + size
                continue
            if sign == quote:
                quote = ""
            elif not quote and sign in "\"'":
                quote = sign
            else:
                word += sign.encode()
            at += 1
        assert not quote, value
        words.append(word.decode())
    return words


def _without_specifiers(word: str) -> str:
    assert not re.search(r"%(?:%%)*[^%]", re.sub("%%", "", word)), word
    return word.replace("%%", "%")


def started_words(words: list[str], env: Mapping[str, str]) -> list[str]:
    """A command once its variables are put in: `$$` is a dollar, `${NAME}` a value."""
    replaced = []
    for word in words:
        assert not re.match(r"\$[A-Za-z_]", word), word  # would become several words

        def value(found: re.Match[str]) -> str:
            return "$" if found[0] == "$$" else env[found[1]]

        replaced.append(re.sub(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, word))
    return replaced
