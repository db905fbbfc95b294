"""systemd units: quoting, variables, specifiers, and the places of the words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from configurator.errors import Position
from configurator.readers.processes import Result
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.readers.systemd import read_systemd
from configurator.words import Invocation, Setting, Word


def run(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
    return Invocations((Invocation(split_words(script).words, dict(env)),))


def read(body: str, given: Mapping[str, str] | None = None, folder: Path | None = None) -> Result:
    return read_systemd(f"[Service]\n{body}", "f", run, given or {}, folder)


def argv(body: str, given: Mapping[str, str] | None = None) -> list[str]:
    (command,), _ = read(body, given)
    return [word.text for word in command.argv]


def test_continued_lines_have_their_places() -> None:
    text = (
        "ExecStart=/opt/sglang serve \\\n  --tp 8 \\\n# a comment\n  ; another\n"
        '\t--j "{\\"a\\": 1}" \\\n  --host h\nRestart=no\n'
    )
    (command,), problems = read(text)
    found = [(w.text, w.position.line, w.position.column) for w in command.argv]
    assert found == [
        ("--tp", 3, 3),
        ("8", 3, 8),
        ("--j", 6, 2),
        ('{"a": 1}', 6, 7),
        ("--host", 7, 3),
        ("h", 7, 10),
    ]
    assert command.argv[3].position_at(1) == Position("f", 6, 8)
    assert command.position == Position("f", 2, 11)
    assert problems == ()


@pytest.mark.parametrize("prefix", ["", "-", "+", "!", "!!", "-+", "@"])
def test_prefixes_of_the_program(prefix: str) -> None:
    name = "other " if "@" in prefix else ""
    (command,), _ = read(f"ExecStart={prefix}/opt/sglang {name}serve --tp 8")
    assert [word.text for word in command.argv] == ["--tp", "8"]
    assert command.position == Position("f", 2, 11 + len(prefix))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"a b" \'c d\' e"f"g', ["a b", "c d", "efg"]),
        ('a\\x41\\102\\u0043\\s\\tb "\\\\" \\;', ["aABC \tb", "\\", ";"]),
        ("'it\\'s' \"\" ''", ["it's", "", ""]),
        ("100%% $$X a$X ${N}", ["100%", "$X", "a$X", "5"]),
        ("$L x${L}y", ["a", "b c", 'xa "b c"y']),
        ("${E} $E z", ["", "z"]),
    ],
)
def test_words_as_systemd_reads_them(line: str, words: list[str]) -> None:
    env = "Environment=N=5 'L=a \"b c\"' E=\n"
    assert argv(f"{env}ExecStart=sglang serve {line}") == words


def test_what_only_the_running_system_knows_stays() -> None:
    body = "Environment=A=%i\nExecStart=sglang serve --x=%i --key ${KEY} $MORE ${A} --tp 8"
    (command,), _ = read(body)
    found = [(word.text, word.unknown) for word in command.argv]
    assert found == [
        ("--x=%i", True),
        ("--key", False),
        ("${KEY}", True),
        ("$MORE", True),
        ("${A}", True),
        ("--tp", False),
        ("8", False),
    ]
    assert command.env["A"].value is None
    assert argv(body, {"KEY": "k", "MORE": "--a --b", "A": "1"}) == [
        "--x=%i",
        "--key",
        "k",
        "--a",
        "--b",
        "1",
        "--tp",
        "8",
    ]


def test_a_colon_turns_variables_off() -> None:
    assert argv("Environment=A=1\nExecStart=:sglang serve ${A} $$ %%") == ["${A}", "$$", "%"]


def test_variables_of_the_unit(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("A=9\nD='4'\n")
    body = (
        'Environment="A=1 2" B=2\nEnvironment=C=3 # x\nUnsetEnvironment=B\nPassEnvironment=P Q A\n'
        "EnvironmentFile=x.env\nEnvironmentFile=-/etc/none\nExecStart=sglang serve ${A}\n"
    )
    (command,), problems = read(body, {"P": "p"}, tmp_path)
    values = {name: one.value for name, one in command.env.items()}
    assert values == {"A": "9", "C": "3", "D": "4", "P": "p", "Q": None}
    assert command.env["C"].position == Position("f", 3, 13)
    assert [(p.code, p.position) for p in problems] == [("LNT004", Position("f", 7, 18))]
    assert "/etc/none" in problems[0].message
    (command,), problems = read("Environment=A=1\nEnvironment=\nExecStart=sglang serve")
    assert command.env == {}


def test_the_last_start_is_in_force() -> None:
    body = "ExecStart=sglang serve --tp 1\nExecStart=\nExecStart=sglang serve --tp 2\n"
    commands, _ = read(f"{body}ExecStart=sglang serve --tp 3 ; sglang serve --tp 4")
    assert [c.argv[1].text for c in commands] == ["2", "3", "4"]


def test_other_sections_and_settings_start_nothing() -> None:
    text = (
        "[Unit]\nExecStart=sglang serve\n[Service]\nExecStartPre=sglang serve\nfoo\n=x\n[Install]"
    )
    assert read_systemd(text, "f", run, {}, None) == ((), ())
    assert read("ExecStart=/bin/true\nEnvironmentFile=/etc/none\n") == ((), ())
    assert read("ExecStart=\\") == ((), ())
    assert read("ExecStart=-") == ((), ())


@pytest.mark.parametrize(
    ("line", "column"),
    [("sglang serve 'a", 24), ("sglang serve \\q", 24), ('sglang serve "\\', 25)],
)
def test_lines_that_systemd_ignores_are_named(line: str, column: int) -> None:
    (_,), problems = read(f"ExecStart={line}\n\n")
    assert [p.code for p in problems] == ["LNT003"]
    assert problems[0].position is not None
    assert problems[0].position.line == 2
    assert problems[0].position.column <= column


def test_a_script_and_a_container() -> None:
    (command,), _ = read("Environment=A=1\nExecStart=/bin/bash -c 'sglang serve --tp ${A}'")
    assert [word.text for word in command.argv] == ["--tp", "1"]
    assert command.argv[0].position == Position("f", 3, 38)
    (command,), _ = read(
        "Environment=A=1 B=2\nExecStart=docker run -e A lmsysorg/sglang sglang serve --tp 1"
    )
    assert {n: s.value for n, s in command.env.items()} == {"A": "1"}
