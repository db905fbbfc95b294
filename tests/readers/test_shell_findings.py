"""What the reader of scripts says: what it cannot follow, what it assumes, and no secret."""

from __future__ import annotations

import pytest

from configurator.errors import Position
from configurator.readers.files import read_text
from configurator.readers.reading import Invocations
from configurator.readers.shell import run_script
from configurator.words import Word

_LAUNCH = "python3 -m sglang.launch_server --model-path m"


def _read(text: str) -> Invocations:
    return run_script(Word.at(text, Position("run.sh", 1, 1)))


def _argv(text: str) -> list[list[str]]:
    return [[word.text for word in command.argv] for command in read_text(text, "run.sh").commands]


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("A=$(cat x)\npython3 -m sglang.launch_server $A", "run.sh:1:3"),
        ('exec python3 -m sglang.launch_server "$@"', "run.sh:1:39"),
        ("sglang serve ${A} $B", "run.sh:1:14"),
        (f"trap '{_LAUNCH}' USR1", "run.sh:1:7"),
        (f"l() {{ {_LAUNCH}; }}\ntrap l HUP", "run.sh:2:6"),
        ('eval "${CMD[@]@Q}"', "run.sh:1:1"),
        ("bash 2>/dev/null <<E\nsglang serve m\nE", "run.sh:1:18"),
    ],
)
def test_what_is_not_followed_is_said(script: str, place: str) -> None:
    (problem,) = _read(script).problems
    assert (problem.code, str(problem.position)) == ("LNT004", place)
    assert problem.remedy


@pytest.mark.parametrize(
    "script",
    [
        f"{_LAUNCH} $EXTRA",
        f'{_LAUNCH} "$@"',
        "sglang serve",
        "trap 'rm -f x' USR1; trap - EXIT; trap '' INT",
        "cat <<E\nsglang serve m\nE",
        "E=$(cat <<X\n--a\nX\n); sglang serve $E",
    ],
)
def test_what_is_known_well_enough_is_not_talked_about(script: str) -> None:
    assert _read(script).problems == ()


@pytest.mark.parametrize(
    ("script", "condition"),
    [
        ('[ "$API_KEY" = "hidden" ] && s', '`[ "$API_KEY" = <redacted> ]` holds'),
        ("[[ hidden == $HF_TOKEN ]] && s", "`[[ <redacted> == $HF_TOKEN ]]` holds"),
        ("[[ ${API_KEY:-} != hidden* ]]; [[ $API_KEY == hidden ]] && s",
         "`[[ $API_KEY == <redacted> ]]` holds"),
        ("[ \"x$API_KEY\" = 'xhidden' ] && s", '`[ "x$API_KEY" = <redacted> ]` holds'),
        ("case $API_KEY in hidden|b) s;; esac", "`$API_KEY` matches `<redacted>`"),
        ("if a --api-key hidden; then :; else s; fi", "`a --api-key <redacted>` fails"),
        ("while test $API_KEY = hidden; do s; done", "`test $API_KEY = <redacted>` holds"),
    ],
)  # fmt: skip
def test_conditions_hide_what_a_secret_is_compared_with(script: str, condition: str) -> None:
    result = _read(script)
    conditions = [c for one in result.found if one.words[0].text == "s" for c in one.conditions]
    assert conditions == [condition]
    assert "hidden" not in str([one.conditions for one in result.found])


def test_conditions_show_what_is_no_secret() -> None:
    (one,) = _read('[[ $MODEL == llama* && "$TOKEN_COUNT" = 12 ]] && s').found
    assert one.conditions == ('`[[ $MODEL == llama* && "$TOKEN_COUNT" = 12 ]]` holds',)
    (one,) = _read("case $MODE in fast|slow) s;; esac").found
    assert one.conditions == ("`$MODE` matches `fast|slow`",)


def test_a_blank_after_a_backslash_is_said() -> None:
    reading = read_text(f"{_LAUNCH} --tp-size 2 \\ \n  --dp-size 2\n", "run.sh")
    assert [word.text for word in reading.commands[0].argv][-2:] == ["2", " "]
    (problem,) = reading.problems
    assert problem.message == (
        "--dp-size and what follows never reach the engine: line 1 ends its command, "
        "for a blank follows the backslash at its end"
    )
    assert problem.remedy == "remove the blank after the backslash at the end of line 1"


def test_a_missing_backslash_is_not_called_a_blank() -> None:
    (problem,) = read_text(f"{_LAUNCH} --tp-size 2\n  --dp-size 2\n", "run.sh").problems
    assert "blank" not in problem.message
    assert problem.code == "LNT010"


def test_a_variable_that_the_script_insists_on_is_taken_as_given() -> None:
    for check in (
        "K=${API_KEY:-}; [[ -n $K ]] || exit 1",
        'if [ -z "${API_KEY:-}" ]; then echo missing; exit 1; fi; K=$API_KEY',
        'set -e; [ -n "${API_KEY-}" ]; K=$API_KEY',
        'die() { exit 2; }; K=${API_KEY:-}; [ -n "$K" ] || die',
    ):
        (command,) = read_text(f'{check}\n{_LAUNCH} --api-key "$K"', "run.sh").commands
        assert command.argv[-1].unknown
        assert "API_KEY" in command.argv[-1].text


def test_a_variable_with_an_empty_default_is_empty_where_nothing_insists_on_it() -> None:
    assert _argv(f'E=${{E:-}}; [ -n "$E" ] || echo none; {_LAUNCH} $E') == [["--model-path", "m"]]
    assert _argv(f'exit_on=; [ -n "$exit_on" ] || exit 1; {_LAUNCH}') == []


def test_failing_ends_a_script_that_says_so_in_its_first_line() -> None:
    assert _argv(f"#!/bin/bash -eu\nfalse\n{_LAUNCH}") == []
    assert _argv(f"#!/bin/bash -u\nfalse\n{_LAUNCH}") == [["--model-path", "m"]]
    assert _argv(f"#!/usr/bin/env bash\nset -euo pipefail\nfalse\n{_LAUNCH}") == []


def test_a_condition_and_its_opposite_are_one_question() -> None:
    found = _read("if ! probe; then s 1; fi; if probe; then s 2; fi").found
    assert [(one.words[1].text, one.conditions) for one in found if len(one.words) > 1] == [
        ("2", ("`probe` succeeds",)),
        ("1", ("`probe` fails",)),
    ]


def test_conditions_that_change_nothing_cost_no_launch() -> None:
    idle = "\n".join(f"if [ -f {n} ]; then echo {n}; fi" for n in range(12))
    script = f"{idle}\nif [ -d x ]; then M=1; fi\n{_LAUNCH} --tp-size ${{M:-2}}"
    reading = read_text(script, "run.sh")
    assert [command.argv[-1].text for command in reading.commands] == ["1", "2"]
    assert reading.problems == ()


def test_words_of_documents_have_their_places() -> None:
    (one,) = _read("A=$(cat <<E\n--a 1\n  --b $X\nE\n)\ns $A").found
    places = [(w.text, w.position.line, w.position.column) for w in one.words]
    assert places == [("s", 6, 1), ("--a", 2, 1), ("1", 2, 5), ("--b", 3, 3), ("$X", 3, 7)]


@pytest.mark.parametrize(
    "script",
    [
        "s " + "(" * 300 + ")" * 300,
        "((" * 5000,
        "((" * 5000 + "))" * 5000,
        "s " + "$(cat <<E\n" * 500,
        "[ " * 5000,
        "cat " + "<<A " * 3000,
        "s " + "`" * 5001,
        "s " + "'<' " * 5000 + "'",
    ],
)  # fmt: skip
def test_hostile_texts_end(script: str) -> None:
    assert all(p.code in ("LNT002", "LNT003", "LNT004") for p in _read(script).problems)
