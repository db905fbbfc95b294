"""Files of any shape: what they are taken for, what they start, and what cannot be read."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from configurator.errors import ConfiguratorError, Position
from configurator.readers.files import read_argv, read_argv_json, read_commands, read_text

LAUNCHES = Path(__file__).parents[1] / "fixtures" / "launch"
CASES = [
    (row["file"], case["given"], case["expected"])
    for row in map(json.loads, (LAUNCHES / "index.jsonl").read_text().splitlines())
    for case in row["cases"]
]


@pytest.mark.parametrize(("file", "given", "expected"), CASES, ids=[case[0] for case in CASES])
def test_files_that_people_have(
    file: str, given: dict[str, str], expected: list[dict[str, Any]]
) -> None:
    reading = read_commands(LAUNCHES / file, given)
    found = [
        {
            "env": {name: one.value for name, one in command.env.items()},
            "argv": [word.text for word in command.argv],
        }
        for command in reading.commands
    ]
    assert found == expected
    assert reading.problems == ()
    lines = (LAUNCHES / file).read_text().split("\n")
    for command in reading.commands:
        for word in command.argv:
            # Words that come of a variable have no text of their own here.
            if word.text.startswith("--"):
                place = word.position
                assert lines[place.line - 1][place.column - 1 :].startswith(word.text)


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("x", "sglang serve --tp 8\n", "shell"),
        ("x.sh", "services:\nsglang serve --tp 8\n", "shell"),
        ("x", "cat <<EOF\nkind: x\nservices:\nEOF\nsglang serve --tp 8\n", "shell"),
        ("x.sh", "cat >x <<EOF\n[Service]\nEOF\nsglang serve --tp 8\n", "shell"),
        ("x", "#!/bin/sh\nkind: x\nexec sglang serve --tp 8\n", "shell"),
        ("x", "[Service]\nExecStart=sglang serve --tp 8\n", "systemd"),
        ("x.service", "\n[Service]\nExecStart=sglang serve --tp 8\n", "systemd"),
        ("x", "services:\n  a: {image: lmsysorg/sglang, command: sglang serve --tp 8}", "compose"),
        (
            "x",
            "apiVersion: v1\nkind: Pod\ncontainers:\n  - command: [sglang, serve, --tp, '8']",
            "kubernetes",
        ),
        ("p.json", '{"containers":[{"command":["sglang","serve","--tp","8"]}]}', "kubernetes"),
        ("Dockerfile", 'FROM lmsysorg/sglang\nCMD ["sglang", "serve", "--tp", "8"]', "dockerfile"),
        ("x", "FROM lmsysorg/sglang\nCMD sglang serve --tp 8", "dockerfile"),
        ("x", '{"argv": ["sglang", "serve", "--tp", "8"]}', "argv"),
        ("x.jsonl", '{"id": 1, "argv": ["--tp", "8"]}\n', "argv"),
        ("x", '[{"argv": ["python", "-m", "sglang.launch_server", "--tp", "8"]}]', "argv"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_formats_are_told_apart(name: str, text: str, format: str, ends: str) -> None:
    reading = read_text("\ufeff" + text.replace("\n", ends), name)
    assert reading.format == format
    assert [[word.text for word in c.argv] for c in reading.commands] == [["--tp", "8"]]
    assert reading.problems == ()
    assert reading.commands[0].position.file == name


def test_a_format_can_be_said() -> None:
    assert read_text("services: 1\n", "x", format="shell").format == "shell"
    with pytest.raises(ConfiguratorError):
        read_text("sglang serve", "x", format="argv")
    with pytest.raises(ConfiguratorError, match="kubernetes"):
        read_text("sglang serve", "x", format="kubernets")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"sglang serve\xff", "0xff"),
        (b"\x7fELF\0\0", "binary"),
        (b"sglang serve\0", "binary"),
        (b"#" * (2 << 20) + b"#", "2 MiB"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "launch.sh"
    path.write_bytes(content)
    with pytest.raises(ConfiguratorError) as caught:
        read_commands(path)
    (problem,) = caught.value.problems
    assert problem.code == "LNT001"
    assert words in problem.message
    assert problem.remedy


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("a\0b"), Path("/dev/null")):
        with pytest.raises(ConfiguratorError) as caught:
            read_commands(path)
        assert [p.code for p in caught.value.problems] == ["LNT001"]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "give a file"),
        ("echo hello\n", "give a file"),
        ("pkill -f sglang.launch_server\n", "nothing there starts it"),
        ("services: {a: {image: redis}}", "give a file"),
        ("apiVersion: configurator/v1\nkind: Deployment\nname: x\n", "configurator validate"),
    ],
)
def test_a_file_without_a_launch_says_what_was_looked_for(text: str, remedy: str) -> None:
    reading = read_text(text, "f")
    assert reading.commands == ()
    assert [p.code for p in reading.problems] == ["LNT005"]
    assert "`sglang serve`" in reading.problems[0].message
    assert remedy in reading.problems[0].remedy


def test_a_launch_of_another_engine_is_named_alone() -> None:
    reading = read_text("vllm serve org/model --tp 8\n", "f")
    assert [(p.code, p.position) for p in reading.problems] == [("LNT006", Position("f", 1, 1))]


def test_files_that_a_text_names_are_read_only_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("A=1\n")
    line = "docker run --env-file x.env lmsysorg/sglang sglang serve\n"
    (tmp_path / "run.sh").write_text(line)
    assert read_commands(tmp_path / "run.sh").commands[0].env["A"].value == "1"
    assert [p.code for p in read_text(line, str(tmp_path / "run.sh")).problems] == ["LNT004"]


def test_variables_of_docker_in_a_script_have_their_places() -> None:
    reading = read_text(
        "docker run \\\n  -e A=1 \\\n  --env=B=2 lmsysorg/sglang \\\n  sglang serve --tp 8\n", "f"
    )
    (command,) = reading.commands
    assert command.env["A"].position == Position("f", 2, 6)
    assert command.env["B"].position == Position("f", 3, 9)
    assert command.argv[1].position == Position("f", 4, 21)


def test_an_argument_vector() -> None:
    command = read_argv(["--tp", "8"], {"A": "1"}, "argv")
    assert ([w.text for w in command.argv], command.entry) == (["--tp", "8"], "argv")
    assert command.env["A"].value == "1"
    assert command.argv[1].position == Position("argv", 1, 6)
    assert read_argv([], None, "argv").argv == ()
    command = read_argv(["python3", "-m", "sglang.launch_server", "--tp", "8"], None, "argv")
    assert ([w.text for w in command.argv], command.entry) == (["--tp", "8"], "launch_server")
    command = read_argv(["env", "A=1", "sglang", "serve"], {"B": "2"}, "argv")
    assert {n: s.value for n, s in command.env.items()} == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["ls"], "LNT005"), (["vllm", "serve"], "LNT006"), (["", "x"], "LNT005")],
)
def test_an_argument_vector_without_the_engine_is_refused(argv: list[str], code: str) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read_argv(argv, None, "argv")
    assert [p.code for p in caught.value.problems] == [code]


def test_json_has_the_places_of_its_words() -> None:
    text = (
        '[\n {"argv": ["--tp", "8",\n   "--j", "{\\"a\\": \\u00e9}"],\n'
        '  "env": {"A": "1", "B": null}},\n'
        ' {"id": "x", "more": [1, 2.5, true, {}], "argv": []}\n]'
    )
    reading = read_argv_json(text, "f")
    first, second = reading.commands
    found = [(w.text, w.position.line, w.position.column) for w in first.argv]
    assert found == [("--tp", 2, 13), ("8", 2, 21), ("--j", 3, 5), ('{"a": é}', 3, 12)]
    assert first.argv[3].position_at(6) == Position("f", 3, 20)
    assert {n: s.value for n, s in first.env.items()} == {"A": "1", "B": None}
    assert first.env["A"].position == Position("f", 4, 17)
    assert second.argv == ()
    assert reading.problems == ()


def test_json_lines_are_read_in_order() -> None:
    reading = read_argv_json('{"argv": ["--tp", "1"]}\n\n{"argv": ["--tp", "2"]}\n', "f")
    assert [c.argv[1].text for c in reading.commands] == ["1", "2"]
    assert reading.commands[1].position == Position("f", 3, 12)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"argv": ["a" "b"]}', 1, 15),
        ('{"argv": ["a\n"]}', 1, 11),
        ('{"argv": ["a"]', 1, 15),
        ('{"argv": "a"}', 1, 11),
        ('{"argv": {}}', 1, 10),
        ('{"argv": [1]}', 1, 11),
        ('{"argv": ["a",\n  null]}', 2, 3),
        ('{"argv": ["a", [ ]]}', 1, 16),
        ('{"argv": [], "env": []}', 1, 21),
        ('{"argv": [], "env": "a"}', 1, 22),
        ('{"argv": [], "env": {"A": 1}}', 1, 27),
        ('{"argv": [], "env": {"A": {}}}', 1, 27),
        ('{"argv": [], "env": {"": "1"}}', 1, 23),
        ('{"argv": [], "env": {"A=B": "1"}}', 1, 23),
        ('{"argv": [], "env": {"A\\u0000": "1"}}', 1, 23),
        ('{"argv": ["a\\u0000"]}', 1, 13),
        ('{"argv": [], "env": {"A": "\\u0000"}}', 1, 28),
        ('{"argv": [], "argv": ["--tp", "8"]}', 1, 14),
        ('[{"argv": []}, 3]', 1, 16),
        ("{}", 1, 1),
        ("\n3", 2, 1),
        ("{argv: []}", 1, 2),
        ('{"argv": ["\\ud800"]}', 1, 11),
        ('{"argv": ["\\x"]}', 1, 11),
        ('{"argv": [1.2.3]}', 1, 11),
        ("[" * 100_000, 1, 52),
        ("nope", 1, 1),
    ],
)
def test_json_of_another_shape_is_refused(text: str, line: int, column: int) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read_argv_json(text, "f")
    (problem,) = caught.value.problems
    assert (problem.code, problem.position) == ("LNT003", Position("f", line, column))


def dockerfile(body: str, given: dict[str, str] | None = None) -> Any:
    reading = read_text(f"FROM lmsysorg/sglang:v1\n{body}", "Dockerfile", given)
    assert len(reading.commands) == 1
    return reading.commands[0]


def test_a_dockerfile_starts_its_entrypoint_with_its_command() -> None:
    command = dockerfile(
        'ENV A=1 B="x y"\nENTRYPOINT ["sglang", "serve"]\nCMD ["--tp", \\\n  "8"]\n'
    )
    assert [(w.text, w.position.line, w.position.column) for w in command.argv] == [
        ("--tp", 4, 7),
        ("8", 5, 4),
    ]
    assert {n: s.value for n, s in command.env.items()} == {"A": "1", "B": "x y"}
    assert command.env["B"].position == Position("Dockerfile", 2, 9)
    assert command.image == "lmsysorg/sglang:v1"


def test_a_dockerfile_with_a_line_for_the_shell() -> None:
    command = dockerfile(
        "ENV TP 8\nRUN <<EOF\nCMD x\nEOF\nCMD exec sglang serve \\\n  --tp $TP --x 1\n"
    )
    assert [word.text for word in command.argv] == ["--tp", "8", "--x", "1"]
    assert command.argv[2].position == Position("Dockerfile", 7, 12)


def test_the_last_stage_of_a_dockerfile_counts() -> None:
    text = (
        "ARG TAG=v1\nFROM --platform=x lmsysorg/sglang:${TAG} AS base\nARG A=1\nENV X=$A Y=${Z}\n"
        'CMD ["redis"]\nFROM base\nENV W=2\nCMD sglang serve --tp 1\nCMD sglang serve --tp 2\n'
    )
    (command,) = read_text(text, "Dockerfile", {"TAG": "v2"}).commands
    assert [word.text for word in command.argv] == ["--tp", "2"]
    assert {n: s.value for n, s in command.env.items()} == {"X": "1", "Y": None, "W": "2"}
    assert command.image == "lmsysorg/sglang:v2"


@pytest.mark.parametrize("between", ["# faster", ""])
def test_options_that_a_comment_cuts_off(between: str) -> None:
    text = f"sglang serve --model-path m \\\n{between}\n  --tp-size 2\n"
    reading = read_text(text, "run.sh")
    assert [[w.text for w in c.argv] for c in reading.commands] == [["--model-path", "m"]]
    (problem,) = reading.problems
    assert (problem.code, str(problem.position)) == ("LNT010", "run.sh:3:3")
    assert "line 1 ends its command" in problem.message


def test_options_of_another_program_are_not_cut_off() -> None:
    text = "sglang serve --model-path m &\ncurl --fail http://127.0.0.1/health\n"
    assert read_text(text, "run.sh").problems == ()


SERVICE = "services:\n  a:\n    image: lmsysorg/sglang\n    command: sglang serve "
BIG = "{" + ", ".join(f"k{n}: v" for n in range(1000)) + "}"
GROWING = {
    "aliases.yaml": f"x: &b {BIG}\nservices:\n"
    + "".join(
        f"  a{n}: {{image: i, environment: *b, command: sglang serve}}\n" for n in range(9000)
    ),
    "merges.yaml": f"x: &b {BIG}\nkind: x\nl:\n" + "- {<<: *b}\n" * 50_000,
    "references.yaml": "kind: P\ncontainers:\n- command: [sglang, serve]\n  env:\n"
    "  - {name: A0, value: xxxxxxxxxx}\n"
    + "".join(f"  - {{name: A{n}, value: {f'$(A{n - 1})' * 10}}}\n" for n in range(1, 40)),
    "x.service": "[Service]\nEnvironment='A="
    + "b " * 1000
    + "'\nExecStart=sglang serve "
    + "$A " * 99_999,
    "Dockerfile": "FROM x\nENV A=xx\n" + 'ENV A="$A$A"\n' * 60 + "CMD sglang serve $A\n",
}


@pytest.mark.parametrize("name", GROWING)
def test_files_that_grow_without_end_are_refused(name: str) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read_text(GROWING[name], name)
    (problem,) = caught.value.problems
    assert problem.code == "LNT003"
    assert "larger than can be read" in problem.message
    assert problem.position is not None


@pytest.mark.parametrize(
    ("name", "text", "launches"),
    [
        ("x.yaml", SERVICE + "${A:-" * 5000 + "}" * 5000, 1),
        ("x.yaml", SERVICE + "${A" * 50_000, 1),
        ("x.yaml", "kind: x\ncontainers: [{command: [sglang, serve, " + "$(" * 99_999 + "]}]", 1),
        ("x.service", "[Service]\nExecStart=sglang serve " + "${" * 99_999, 1),
        ("x.service", "[Service]\nExecStart=sglang serve \\" + "\n# c\n\\" * 9999, 1),
        ("x.sh", "docker run x " * 5000 + "sglang serve", 0),
        ("x.sh", "nohup " * 5000 + "sglang serve", 0),
        ("x.yaml", "kind: x\ns: &a\n  containers: [*a, {containers: *a, command: *a, env: *a}]", 0),
    ],
)
def test_odd_files_are_read_to_their_end(name: str, text: str, launches: int) -> None:
    assert len(read_text(text, name).commands) == launches


@pytest.mark.parametrize(
    ("target", "fact"),
    [
        ("/proc/kmsg", "belongs to /proc and is not a file"),
        ("/dev/zero", "is a device, not a file"),
        ("pipe", "is a pipe, not a file"),
        (".", "is a directory, not a file"),
    ],
)
def test_what_would_be_read_for_ever_is_not_read(tmp_path: Path, target: str, fact: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "run.sh").symlink_to(target)
    with pytest.raises(ConfiguratorError, match=rf"LNT001 .*/run\.sh {fact}"):
        read_commands(tmp_path / "run.sh")


@pytest.mark.parametrize("target", ["/proc/kmsg", "/dev/zero", "pipe"])
def test_variables_beside_a_file_are_not_read_for_ever(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".env").symlink_to(target)
    (tmp_path / "vars").symlink_to(target)
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services:\n  a:\n    image: i\n    env_file: vars\n    command: sglang serve --tp $N\n"
    )
    reading = read_commands(compose)
    assert [w.text for w in reading.commands[0].argv] == ["--tp", "$N"]
    assert [p.message for p in reading.problems] == ["the variables in `vars` are not read"]


def test_a_script_with_placeholders_is_no_script_of_a_shell_yet() -> None:
    text = (
        "kind: Pod\ncontainers:\n- image: 'lmsysorg/sglang:{{ .Values.tag }}'\n"
        "  command: [bash, -c]\n  args:\n  - |\n"
        "    export X={{ .Values.x }} Y=1\n    {{- if .Values.more }}\n"
        "    exec sglang serve --tp {{ .Values.tp | default 8 }} '{{ .Values.a }}' \\\n"
        '      "--x={{ .Values.x }}-$Y" --port 3\n'
    )
    reading = read_text(text, "f.yaml")
    (command,) = reading.commands
    assert [(w.text, w.unknown, w.position.line, w.position.column) for w in command.argv] == [
        ("--tp", False, 9, 23),
        ("{{ .Values.tp | default 8 }}", True, 9, 28),
        ("{{ .Values.a }}", True, 9, 58),
        ("--x={{ .Values.x }}-1", True, 10, 8),
        ("--port", False, 10, 32),
        ("3", False, 10, 39),
    ]
    assert (command.env["X"].value, command.env["Y"].value) == (None, "1")
    (problem,) = reading.problems
    assert (problem.code, problem.position) == ("LNT014", Position("f.yaml", 9, 28))
    assert problem.message.startswith("{{ .Values.tp | default 8 }} is a placeholder")


def test_a_placeholder_is_said_once() -> None:
    text = "services:\n" + "".join(
        f"  a{n}: {{image: i, command: 'sglang serve --tp <TP> --port <PORT>'}}\n" for n in range(3)
    )
    reading = read_text(text, "f.yaml")
    assert len(reading.commands) == 3
    (problem,) = reading.problems
    assert (problem.code, problem.remedy) == ("LNT014", "write the value in place of <TP>")


def test_json_that_starts_no_engine_is_said() -> None:
    reading = read_argv_json('{"argv": ["--tp", "8"]} {"argv": ["b"]}', "f")
    assert [[w.text for w in c.argv] for c in reading.commands] == [["--tp", "8"]]
    (problem,) = reading.problems
    assert (problem.code, problem.position) == ("LNT005", Position("f", 1, 36))
    assert problem.message == "this argv starts no engine: its program is 'b'"


def test_a_name_of_json_shows_no_value() -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read_argv_json('{"argv": [], "env": {"KEY=hidden": "1"}}', "f")
    assert caught.value.problems[0].message == "'KEY=...' is no name of a variable"


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("x.sh", ""),
        ("x.sh", "{% if x %}\n"),
        ("x.service", "[Service]\nExecStart="),
        ("Dockerfile", "FROM lmsysorg/sglang\nCMD "),
    ],
)
def test_placeholders_outside_of_yaml(name: str, head: str) -> None:
    text = f'{head}sglang serve --tp {{{{ tp }}}} --m "{{{{ a }}}}/{{{{ b }}}}" --port 3\n'
    reading = read_text(text, name)
    (command,) = reading.commands
    column = len(head.rpartition("\n")[2])
    assert [(w.text, w.unknown, w.position.column - column) for w in command.argv] == [
        ("--tp", False, 14),
        ("{{ tp }}", True, 19),
        ("--m", False, 28),
        ("{{ a }}/{{ b }}", True, 33),
        ("--port", False, 50),
        ("3", False, 57),
    ]
    assert [p.code for p in reading.problems] == ["LNT014"]


def test_templates_of_other_programs_say_nothing() -> None:
    text = (
        "id=$(docker ps --format '{{.ID}}')\nif [ \"{{ x }}\" = a ]; then echo; fi\n"
        "export A={{ a }} B=1\nsglang serve --tp 8\n"
    )
    reading = read_text(text, "x.sh")
    assert {tuple(w.text for w in c.argv) for c in reading.commands} == {("--tp", "8")}
    assert {(c.env["A"].value, c.env["B"].value) for c in reading.commands} == {(None, "1")}
    assert reading.problems == ()


def test_a_file_may_begin_with_a_template() -> None:
    text = "{{- if .Values.x }}\napiVersion: v1\nkind: Pod\n{{- end }}\n"
    with pytest.raises(ConfiguratorError, match="LNT003 a template and no YAML before"):
        read_text(text, "<stdin>")


def test_placeholders_in_json_are_unknown() -> None:
    text = '{"argv": ["--tp", "{{ tp }}", "--port", "<PORT>"], "env": {"A": "{{ a }}", "B": "<b"}}'
    reading = read_argv_json(text, "f")
    (command,) = reading.commands
    assert [w.unknown for w in command.argv] == [False, True, False, True]
    assert (command.env["A"].value, command.env["B"].value) == (None, "<b")
    assert [p.code for p in reading.problems] == ["LNT014"]


def test_characters_for_private_use_are_left_alone() -> None:
    text = "sglang serve --a '\ue000\ue001' --tp {{ tp }}\n"
    (command,) = read_text(text, "x.sh").commands
    assert [(w.text, w.unknown) for w in command.argv] == [
        ("--a", False),
        ("\ue000\ue001", False),
        ("--tp", False),
        ("{{ tp }}", True),
    ]
    full = "".join(map(chr, range(0xE000, 0xF900)))
    (command,) = read_text(f"# {full}\nsglang serve --tp {{{{x}}}}\n", "x.sh").commands
    assert [w.text for w in command.argv] == ["--tp", "{{x}}"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "sglang serve " + "{{ a }} " * 60_000 + "\ue000"),
        ("x.sh", "sglang serve " + "{{" * 30_000),
        ("x.yaml", "services: {a: {image: i, command: sglang serve " + "{{ a }} " * 60_000),
        ("x.yaml", "a: " + "{{" * 300_000),
        ("x.yaml", "services:\n  a:\n    command: 'sglang serve " + "<A" * 200_000 + "'"),
    ],
    ids=["many", "open", "yaml", "open yaml", "angles"],
)
def test_many_placeholders_take_no_time(name: str, text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ConfiguratorError):
        read_text(text, name)
    assert time.process_time() - began < 10


def test_a_file_that_names_the_engine_and_shows_no_launch_is_not_clean() -> None:
    text = 'echo "sglang serve --model-path m" > start.txt\n'
    reading = read_text(text, "run.sh")
    assert reading.commands == ()
    assert [p.code for p in reading.problems] == ["LNT015"]
    quiet = read_text("# python3 -m sglang.launch_server --model-path m\necho done\n", "run.sh")
    assert [p.code for p in quiet.problems] == ["LNT005"]
