"""docker compose files: services, interpolation, splitting, and the places of the words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError, Position
from configurator.readers.compose import read_compose
from configurator.readers.interpolation import interpolate
from configurator.readers.processes import Result
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.readers.yamlwords import Documents
from configurator.words import Invocation, Setting, Word


def run(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
    return Invocations((Invocation(split_words(script).words, dict(env)),))


def read(text: str, given: Mapping[str, str] | None = None, folder: Path | None = None) -> Result:
    return read_compose(Documents(text, "f"), run, given or {}, folder)


def service(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return f"services:\n  llm:\n    image: lmsysorg/sglang:v1\n{lines}"


def argv(text: str, given: Mapping[str, str] | None = None) -> list[str]:
    (command,), _ = read(text, given)
    return [word.text for word in command.argv]


def places(text: str) -> list[tuple[str, int, int]]:
    (command,), _ = read(text)
    return [(word.text, word.position.line, word.position.column) for word in command.argv]


def test_words_of_a_list_have_their_places() -> None:
    text = service('command:\n- sglang\n- serve\n- --tp\n- \'8\'\n- "--x=\\"y\\""')
    assert places(text) == [("--tp", 7, 7), ("8", 8, 8), ('--x="y"', 9, 8)]
    (command,), _ = read(text)
    assert command.position == Position("f", 5, 7)
    assert command.argv[2].position_at(5) == Position("f", 9, 14)
    flow = service('command: [sglang, serve, "--tp", 8]')
    assert places(flow) == [("--tp", 4, 31), ("8", 4, 38)]


def test_words_of_a_string_have_their_places() -> None:
    text = service("command: 'sglang serve --j ''{\"a\": 1}'' --tp 8'")
    assert places(text) == [("--j", 4, 28), ('{"a": 1}', 4, 34), ("--tp", 4, 45), ("8", 4, 50)]


def test_words_of_a_folded_scalar_have_their_places() -> None:
    text = service("command: >-\n  python3 -m sglang.launch_server\n  --tp 8\n\n  --host   h")
    assert places(text) == [("--tp", 6, 7), ("8", 6, 12), ("--host", 8, 7), ("h", 8, 16)]


def test_words_of_a_plain_scalar_over_lines_have_their_places() -> None:
    text = service("command: sglang serve\n  --tp 8\n  --host h")
    assert places(text) == [("--tp", 5, 7), ("8", 5, 12), ("--host", 6, 7), ("h", 6, 14)]


def test_a_script_in_a_block_has_its_places() -> None:
    text = service("entrypoint: [bash, -c]\ncommand:\n- |\n  sglang serve\n  --tp 8")
    assert places(text) == [("--tp", 8, 7), ("8", 8, 12)]


def test_environment_as_a_list_and_as_a_map() -> None:
    text = service("environment:\n- A=1\n- B=x=y\n- C\n- D\n- E=${E}\n- F=\ncommand: sglang serve")
    (command,), _ = read(text, {"C": "3"})
    values = {name: one.value for name, one in command.env.items()}
    assert values == {"A": "1", "B": "x=y", "C": "3", "D": None, "E": None, "F": ""}
    assert command.env["B"].position == Position("f", 6, 7)
    text = service(
        "environment:\n  A: 1\n  B: true\n  C:\n  D: null\n  E: ''\n  F: ${X:-z}\n"
        "  G: ${Y}\ncommand: sglang serve"
    )
    (command,), _ = read(text, {"D": "4"})
    values = {name: one.value for name, one in command.env.items()}
    expected = {"A": "1", "B": "true", "C": None, "D": "4", "E": "", "F": "z", "G": None}
    assert values == expected
    assert command.env["B"].position == Position("f", 6, 7)


def test_anchors_merge_keys_and_equal_keys() -> None:
    text = (
        "x-a: &a {A: '1', B: '1'}\nx-b: &b {B: '2', C: '2'}\n"
        "services:\n  llm:\n    image: lmsysorg/sglang\n    command: &c [sglang, serve, --tp, 1]\n"
        "    environment:\n      <<: [*a, *b]\n      C: '3'\n      C: '4'\n"
        "  two:\n    image: lmsysorg/sglang\n    command: *c\n"
    )
    commands, _ = read(text)
    values = {name: one.value for name, one in commands[0].env.items()}
    assert values == {"A": "1", "B": "1", "C": "4"}
    assert [word.text for word in commands[1].argv] == ["--tp", "1"]
    assert commands[1].argv[1].position == Position("f", 6, 39)


def test_extends_of_the_same_file() -> None:
    text = (
        "services:\n  base:\n    image: lmsysorg/sglang:a\n    environment: {A: '1', B: '1'}\n"
        "    command: sglang serve --tp 1\n  llm:\n    extends: {service: base}\n"
        "    environment: [B=2]\n    command: sglang serve --tp 2\n"
    )
    commands, problems = read(text)
    assert [c.argv[1].text for c in commands] == ["1", "2"]
    assert {n: s.value for n, s in commands[1].env.items()} == {"A": "1", "B": "2"}
    assert commands[1].image == "lmsysorg/sglang:a"
    assert problems == ()
    _, problems = read(service("extends: {file: other.yaml, service: x}\ncommand: sglang serve"))
    assert [(p.code, p.position) for p in problems] == [("LNT004", Position("f", 4, 14))]
    loop = service("extends: llm\ncommand: sglang serve")
    assert len(read(loop)[0]) == 1


def test_files_of_variables_and_defaults_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("A='1'\nB=1\n")
    (tmp_path / ".env").write_text("TP=4\nTAG=x\n")
    text = service(
        "env_file:\n- a.env\n- path: b.env\nenvironment: [B=2]\ncommand: sglang serve --tp ${TP}"
    )
    (command,), problems = read(text, {}, tmp_path)
    assert {n: s.value for n, s in command.env.items()} == {"A": "1", "B": "2"}
    assert command.argv[1].text == "4"
    assert [(p.code, p.position) for p in problems] == [("LNT004", Position("f", 6, 13))]
    assert read(text, {"TP": "2"}, tmp_path)[0][0].argv[1].text == "2"
    assert read(text)[0][0].argv[1].text == "${TP}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A", "1"),
        ("${A}", "1"),
        ("x${A}y$A", "x1y1"),
        ("${A:-d}", "1"),
        ("${E:-d}", "d"),
        ("${E-d}", ""),
        ("${N-d}", "d"),
        ("${N:-${A}}", "1"),
        ("${N:-${M:-x}}!", "x!"),
        ("${N:-}", ""),
        ("${A:?e}", "1"),
        ("${A:+x}", "x"),
        ("${E:+x}", ""),
        ("${E+x}", "x"),
        ("${N:+x}", ""),
        ("$$A", "$A"),
        ("$${A}", "${A}"),
    ],
)
def test_interpolation(text: str, expected: str) -> None:
    done = interpolate(Word.at(text, Position("f", 1, 1)), {"A": "1", "E": ""})
    assert (done.word.text, done.unknown, done.invalid) == (expected, {}, None)
    assert not done.word.unknown


@pytest.mark.parametrize("text", ["$N", "${N}", "${N:?say it}", "${N?}", "${E:?empty}"])
def test_what_has_no_value_stays(text: str) -> None:
    done = interpolate(Word.at(f"a-{text}-b", Position("f", 1, 1)), {"E": ""})
    assert done.word.text == f"a-{text}-b"
    assert done.word.unknown
    assert done.unknown == {2: 2 + len(text)}


@pytest.mark.parametrize("text", ["a $ b", "$(x)", "${", "${}", "${A", "${A!x}", "$1"])
def test_a_dollar_that_compose_refuses_is_named(text: str) -> None:
    commands, problems = read(service(f"command: [sglang, serve, '{text}']"))
    assert len(commands) == 1
    assert [p.code for p in problems] == ["LNT003"]
    assert problems[0].position == Position("f", 4, 31 + text.index("$"))


def test_only_the_word_with_the_variable_is_unknown() -> None:
    text = service("command: sglang serve --api-key ${KEY:?set the key} --tp 8")
    (command,), _ = read(text)
    found = [(word.text, word.unknown) for word in command.argv]
    expected = [("--api-key", False), ("${KEY:?set the key}", True), ("--tp", False), ("8", False)]
    assert found == expected
    assert command.argv[3].position == Position("f", 4, 62)
    assert argv(service("command: sglang serve $X"), {"X": "--tp 8 --dp 2"}) == [
        "--tp",
        "8",
        "--dp",
        "2",
    ]


def test_no_shell_runs_a_command_string() -> None:
    commands, problems = read(service("command: sglang serve --tp 8 && echo done"))
    assert [word.text for word in commands[0].argv] == ["--tp", "8"]
    assert [(p.code, p.position) for p in problems] == [("LNT009", Position("f", 4, 34))]
    assert "`&&`" in problems[0].message
    commands, problems = read(service("command: sglang serve --tp 8 2>&1"))
    assert [word.text for word in commands[0].argv] == ["--tp", "8"]
    commands, problems = read(service("command: |\n  sglang serve \\\n    --tp 8"))
    assert [word.text for word in commands[0].argv] == ["\n", "--tp", "8"]
    assert [(p.code, p.position) for p in problems] == [("LNT009", Position("f", 5, 20))]
    commands, problems = read(service("command: sglang serve --x 'a b"))
    assert [word.text for word in commands[0].argv] == ["--x", "a b"]
    assert [(p.code, p.position) for p in problems] == [("LNT003", Position("f", 4, 31))]


def test_services_without_an_engine_give_nothing() -> None:
    text = (
        "services:\n  a: {image: redis, env_file: x.env, command: redis-server}\n  b:\n  c: [1]\n"
        "  d: {image: x, command: null}\n  e: {image: x, command: {a: b}}\n"
        "  f: {image: x, command: [[a], {b: c}]}\n  g: {build: ., command: []}\n"
    )
    assert read(text) == ((), ())
    assert read("services: 3\n") == ((), ())
    assert read("services:\n") == ((), ())
    assert read("") == ((), ())


def test_a_service_that_is_built_has_no_image() -> None:
    (command,), _ = read("services:\n  a:\n    build: .\n    command: sglang serve\n")
    assert command.image is None
    assert command.conditions == ("the image of the container starts the words it gets",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1", (1, 6)),
        ("a: *b", (1, 4)),
        ("a: b: c", (1, 5)),
        ("[" * 3000, (1, 1001)),
        ("a: \x01", (1, 4)),
        ("a: {{ .Values.x }}: b", (1, 4)),
        ("a: 1\n{{- if .Values.x }}\nb: 2", (2, 1)),
        ("a: 1\n{% if x %}\nb: 2", (2, 1)),
        ("a: {{ x }}\n{{- if x }}\nb: 2\n{{- end }}", (2, 1)),
        ("a: '{{ x }}'\nb: [1", (2, 6)),
        ('a: "{{ x }}"\nb: c: d\ne: {{ x }}', (2, 5)),
    ],
)
def test_broken_yaml_is_refused_with_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        Documents(text, "f")
    (problem,) = caught.value.problems
    assert problem.code == "LNT003"
    assert problem.remedy
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == place
    assert ("render" in problem.message) == (text[:4] in ("a: {", "a: 1"))


def test_aliases_that_multiply_are_read_once() -> None:
    lines = ["a0: &a0 {containers: []}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60)]
    documents = Documents("\n".join(lines), "f")
    assert len(list(documents.walk(documents.roots[0]))) == 2
    merges = ["x0: &x0 {A: b}"] + [
        f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}]}}" for n in range(1, 60)
    ]
    documents = Documents("\n".join(merges), "f")
    assert documents.mapping(documents.get(documents.roots[0], "x59")) == {}
    assert Documents("a: &a {<<: *a, b: *a}", "f").roots


@pytest.mark.parametrize("style", ["|", ">", ">-", "|+"])
@pytest.mark.parametrize("sign", ["\r", "\u2028", "\x85"])
def test_odd_line_breaks_do_not_move_the_words_after_them(style: str, sign: str) -> None:
    text = service(f"command: {style}\n  sglang serve --a{sign}      --b\n  --tp 8")
    found = {word: (line, column) for word, line, column in places(text)}
    assert found["--tp"] == (6, 7)
    assert found["8"] == (6, 12)


def test_items_that_are_no_text_are_refused_and_read() -> None:
    text = service('command: [sglang, serve, --tp, 2, --y, true, --z, no, --x, "3", ~]')
    (command,), problems = read(text)
    assert [w.text for w in command.argv[:2]] == ["--tp", "2"]
    found = [(p.code, p.position.column) for p in problems if p.position]
    assert found == [("LNT011", 36), ("LNT011", 44), ("LNT011", 69)]
    assert read(service("command: [redis, 3]")) == ((), ())


@pytest.mark.parametrize(
    ("written", "value", "code"),
    [
        ("1.0", None, "LNT013"),
        ("010", None, "LNT013"),
        ("0x10", None, "LNT013"),
        ("1e3", None, "LNT013"),
        ("1_000", None, "LNT013"),
        ("0.90", None, "LNT013"),
        (".5", None, "LNT013"),
        ("+5", None, "LNT013"),
        ("-0", None, "LNT013"),
        ("True", None, "LNT013"),
        ("2024-01-02", None, "LNT013"),
        (".inf", None, "LNT013"),
        ("123456789012345678901234", None, "LNT013"),
        ("0.00001", None, "LNT013"),
        ("1", "1", ""),
        ("0", "0", ""),
        ("-7", "-7", ""),
        ("0.9", "0.9", ""),
        ("0.0001", "0.0001", ""),
        ("true", "true", ""),
        ("on", "on", ""),
        ("tRUE", "tRUE", ""),
        ("'1.0'", "1.0", ""),
        ("!!str 010", "010", ""),
        ("1.0.0", "1.0.0", ""),
        ("12:30", "12:30", ""),
        ("09", None, "LNT013"),
    ],
)
def test_values_that_go_prints_anew(written: str, value: str | None, code: str) -> None:
    text = service(f"command: sglang serve\nenvironment:\n  A: {written}")
    (command,), problems = read(text)
    assert command.env["A"].value == value
    assert [p.code for p in problems] == ([code] if code else [])
    # In a list they are text.
    text = service(f"command: sglang serve\nenvironment:\n- A={written}")
    assert read(text)[1] == ()


def test_a_shell_that_gets_a_split_line() -> None:
    text = service('entrypoint: ["/bin/sh", "-c"]\ncommand: python3 -m sglang.launch_server --tp 2')
    (command,), (problem,) = read(text)
    assert [w.text for w in command.argv] == ["--tp", "2"]
    assert (problem.code, problem.position) == ("LNT012", Position("f", 5, 14))
    whole = service('entrypoint: ["/bin/sh", "-c"]\ncommand: ["sglang serve --tp 2"]')
    assert read(whole)[1] == ()


def test_a_command_that_is_one_word_cannot_start() -> None:
    (command,), (problem,) = read(service('command: ["sglang serve --tp 2"]'))
    assert [w.text for w in command.argv] == ["--tp", "2"]
    assert (problem.code, problem.position) == ("LNT011", Position("f", 4, 16))


def test_placeholders_of_a_template_are_unknown_words() -> None:
    text = service(
        "command: sglang serve --m {{ model }} --tp={{tp|default(2)}} --port <PORT> --a <b"
    )
    (command,), problems = read(text, {"X": "1"})
    assert [(w.text, w.unknown) for w in command.argv] == [
        ("--m", False),
        ("{{ model }}", True),
        ("--tp={{tp|default(2)}}", True),
        ("--port", False),
        ("<PORT>", True),
        ("--a", False),
    ]
    assert [p.code for p in problems] == ["LNT009"]
    text = service("command: [sglang, serve, --m, '{{ model }}$X', '${Y}{{ z }}']")
    (command,), _ = read(text, {"X": "1", "Y": "2"})
    found = [(w.text, w.unknown) for w in command.argv[1:]]
    assert found == [("{{ model }}1", True), ("2{{ z }}", True)]
