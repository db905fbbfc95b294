"""Kubernetes manifests: containers of any object, references, and the places of the words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from configurator.errors import Position
from configurator.readers.kubernetes import expand, read_kubernetes
from configurator.readers.processes import Result
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.readers.yamlwords import Documents
from configurator.words import Invocation, Setting, Word


def run(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
    return Invocations((Invocation(split_words(script).words, dict(env)),))


def read(text: str, given: Mapping[str, str] | None = None) -> Result:
    return read_kubernetes(Documents(text, "f"), run, given or {}, None)


def pod(body: str, image: str = "lmsysorg/sglang:v1") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    head = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
    return f"{head}  - image: {image}\n{lines}"


def test_command_and_args_with_their_places() -> None:
    text = pod('command: ["sglang", serve]\nargs:\n- --tp\n- "8"\n- --host=$(IP)')
    (command,), problems = read(text)
    found = [(w.text, w.position.line, w.position.column, w.unknown) for w in command.argv]
    expected = [("--tp", 8, 7, False), ("8", 9, 8, False), ("--host=$(IP)", 10, 7, True)]
    assert found == expected
    assert command.position == Position("f", 6, 16)
    assert command.image == "lmsysorg/sglang:v1"
    assert problems == ()


def test_a_script_in_a_block_has_its_places() -> None:
    text = pod("command: [/bin/bash, -c]\nargs:\n- |\n  sglang serve\n    --tp 8\n\n  --host h")
    (command,), _ = read(text)
    found = [(w.text, w.position.line, w.position.column) for w in command.argv]
    assert found == [("--tp", 10, 9), ("8", 10, 14), ("--host", 12, 7), ("h", 12, 14)]


def test_a_script_with_escapes_has_its_places() -> None:
    text = pod('command: [sh, -c, "sglang serve\\n --tp 8 --j \\"x y\\" --u \\u0041"]')
    (command,), _ = read(text)
    found = [(w.text, w.position.column) for w in command.argv]
    assert found == [("--tp", 39), ("8", 44), ("--j", 46), ("x y", 52), ("--u", 58), ("A", 62)]


def test_variables_in_the_order_of_declaration() -> None:
    text = pod(
        "env:\n- {name: A, value: '1'}\n- {name: B, value: x$(A)$(C)}\n- {name: C, value: 3}\n"
        "- name: D\n  valueFrom: {fieldRef: {fieldPath: status.podIP}}\n"
        "- {name: E, value: y$(A)}\n- {name: F, value: $(D)}\n- {name: G}\n- {value: x}\n- 3\n"
        "command: [sglang, serve, $(A), $(D), $(E), $$(A), $(B, $$]"
    )
    (command,), _ = read(text)
    values = {name: one.value for name, one in command.env.items()}
    assert values == {"A": "1", "B": None, "C": "3", "D": None, "E": "y1", "F": None, "G": ""}
    assert command.env["E"].position == Position("f", 12, 14)
    words = [(word.text, word.unknown) for word in command.argv]
    assert words == [
        ("1", False),
        ("$(D)", True),
        ("y1", False),
        ("$(A)", False),
        ("$(B", False),
        ("$", False),
    ]


def test_given_values_stand_for_what_the_cluster_knows() -> None:
    text = pod(
        "env:\n- {name: IP, valueFrom: {}}\n"
        "command: [sglang, serve, --dist-init-addr, '$(LWS_LEADER_ADDRESS):20000', $(IP)]"
    )
    (command,), _ = read(text, {"LWS_LEADER_ADDRESS": "leader", "IP": "10.0.0.1"})
    assert [word.text for word in command.argv[1:]] == ["leader:20000", "10.0.0.1"]
    assert not any(word.unknown for word in command.argv)
    assert command.env["IP"].value == "10.0.0.1"
    (command,), _ = read(text)
    assert [w.text for w in command.argv[1:]] == ["$(LWS_LEADER_ADDRESS):20000", "$(IP)"]


def test_places_after_a_reference_stay_right() -> None:
    word = Word.at("a $(X) b", Position("f", 1, 1))
    done = expand(word, {"X": Setting("X", "long value", Position("f", 9, 9))}, {})
    assert done.text == "a long value b"
    assert done.position_at(13) == Position("f", 1, 8)


def test_variables_of_a_config_map_are_said_to_be_missing() -> None:
    text = pod("envFrom:\n- configMapRef: {name: x}\ncommand: [sglang, serve]")
    (command,), problems = read(text)
    assert command.env == {}
    assert [(p.code, p.position) for p in problems] == [("LNT004", Position("f", 7, 5))]
    assert read(pod("envFrom:\n- configMapRef: {name: x}\ncommand: [redis]")) == ((), ())


@pytest.mark.parametrize(
    "path",
    [
        "spec",
        "spec.template.spec",
        "spec.jobTemplate.spec.template.spec",
        "spec.leaderWorkerTemplate.workerTemplate.spec",
        "template.spec",
    ],
)
@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_containers_are_found_in_any_object(path: str, key: str) -> None:
    text = "{kind: X, apiVersion: v1, " + "".join(f"{step}: {{" for step in path.split("."))
    text += f"{key}: [{{image: lmsysorg/sglang, command: [sglang, serve, --tp, '8']}}]"
    text += "}" * (len(path.split(".")) + 1)
    (command,), _ = read(text)
    assert [word.text for word in command.argv] == ["--tp", "8"]


def test_several_objects_and_lists_are_read_in_order() -> None:
    one = "{image: lmsysorg/sglang, command: [sglang, serve, --tp, '%d']}"
    items = ", ".join(f"{{kind: Pod, spec: {{containers: [{one % n}]}}}}" for n in (1, 2))
    text = f"kind: List\napiVersion: v1\nitems: [{items}]\n---\n{pod('command: [sglang, serve]')}"
    commands, _ = read(text)
    assert [[word.text for word in c.argv] for c in commands] == [["--tp", "1"], ["--tp", "2"], []]


def test_the_image_starts_args_without_a_command() -> None:
    (command,), _ = read(pod("args: [sglang, serve, --tp, '8']"))
    assert command.conditions == ()
    (command,), _ = read(pod("args: [sglang, serve, --tp, '8']", "own/image"))
    assert command.conditions == ("the image own/image starts the words it gets",)
    commands, problems = read(pod("args: [--model-path, x]", "own/image"))
    assert commands == ()
    assert [p.code for p in problems] == ["LNT007"]


@pytest.mark.parametrize(
    "body",
    ["command: [redis-server]", "command: []", "command: redis -x", "args: {a: b}", "env: 3"],
)
def test_containers_without_an_engine_give_nothing(body: str) -> None:
    assert read(pod(body)) == ((), ())
    assert read("containers: 3\n") == ((), ())
    assert read("containers: [3, [x], null]\n") == ((), ())


def said(text: str) -> list[tuple[str, int, int]]:
    _, problems = read(text)
    return [(p.code, p.position.line, p.position.column) for p in problems if p.position]


def test_items_that_are_no_text_are_refused_and_read() -> None:
    text = pod('command: [sglang, serve, --tp, 2, --x, "2", --y, no, --z, 1.5, [a], ~, !!str 3]')
    (command,), problems = read(text)
    texts = ["--tp", "2", "--x", "2", "--y", "no", "--z", "1.5", "", "3"]
    assert [w.text for w in command.argv] == texts
    assert said(text) == [("LNT011", 6, c) for c in (36, 54, 63, 68)]
    kinds = [p.message.partition(":")[0] for p in problems]
    assert kinds == [
        "an item of `command` is a number",
        "an item of `command` is a boolean",
        "an item of `command` is a number",
        "an item of `command` is a list",
    ]
    assert said(pod("command: [sglang, serve]\nargs: [--tp, 0x8]")) == [("LNT011", 7, 18)]


def test_the_value_of_a_variable_is_text() -> None:
    text = pod(
        "env:\n- {name: A, value: 1}\n- {name: B, value: true}\n- {name: C, value: '1'}\n"
        "- {name: D, value: }\n- {name: E, value: yes!}\ncommand: [sglang, serve]"
    )
    assert said(text) == [("LNT011", 7, 24), ("LNT011", 8, 24)]
    # What a container without the engine does is of no interest.
    assert read(pod("env:\n- {name: A, value: 1}\ncommand: [redis]")) == ((), ())


def test_a_command_that_is_a_line_is_refused_and_read() -> None:
    text = pod("command: python3 -m sglang.launch_server --tp '4'")
    (command,), (problem,) = read(text)
    assert [w.text for w in command.argv] == ["--tp", "4"]
    assert (problem.code, problem.position) == ("LNT011", Position("f", 6, 14))
    assert problem.message.startswith("`command` is a line: Kubernetes takes a list")


def test_a_command_that_is_one_word_cannot_start() -> None:
    text = pod('command: ["python3 -m sglang.launch_server", --tp, "4"]')
    (command,), (problem,) = read(text)
    assert [w.text for w in command.argv] == ["--tp", "4"]
    assert (problem.code, problem.position) == ("LNT011", Position("f", 6, 16))
    # The image may start a shell with it.
    assert read(pod('args: ["sglang serve --tp 4"]', "own/image")) == ((), ())
    assert read(pod('command: ["/opt/my tools/redis"]')) == ((), ())


@pytest.mark.parametrize("shell", ["bash, -c", "/bin/sh, -c", "bash, -lc", "bash, -e, -c"])
def test_a_shell_that_gets_a_launch_word_by_word(shell: str) -> None:
    text = pod(f"command: [{shell}]\nargs: [python3, -m, sglang.launch_server, --tp, '4']")
    (command,), (problem,) = read(text)
    assert [w.text for w in command.argv] == ["--tp", "4"]
    assert (problem.code, problem.position) == ("LNT012", Position("f", 7, 12))
    assert "-c runs `python3` alone" in problem.message


def test_placeholders_of_a_template_are_unknown() -> None:
    text = pod(
        'command: [sglang, serve, --tp, "{{ .Values.tp }}", --port, {{ .Values.port }}, --x=<HOST>]'
        "\nargs: {{ toYaml .Values.args }}\nenv:\n- {name: A, value: '{{ .Values.a }}'}",
    )
    (command,), problems = read(text)
    assert [(w.text, w.unknown, w.position.column) for w in command.argv] == [
        ("--tp", False, 30),
        ("{{ .Values.tp }}", True, 37),
        ("--port", False, 56),
        ("{{ .Values.port }}", True, 64),
        ("--x=<HOST>", True, 84),
        ("{{ toYaml .Values.args }}", True, 11),
    ]
    assert command.env["A"].value is None
    assert problems == ()


def test_the_entry_script_of_rendered_containers_is_stepped_over() -> None:
    """A key has the place of a word, from the Secret, and the engine sees none of the script's."""
    (command,), problems = read(
        pod(
            "command: [bash, /configurator/entry.sh, sglang, serve, --api-key, <key>, --x, $$(A)]\n"
            "env:\n- {name: CONFIGURATOR_LOG, value: /l}\n- {name: A, value: '1'}\n"
            "- {name: CONFIGURATOR_KEYS, value: '3=env:CONFIGURATOR_SECRET_1 9=env:B'}\n"
            "- name: CONFIGURATOR_SECRET_1\n  valueFrom: {secretKeyRef: {name: n, key: k}}\n"
        )
    )
    assert [(word.text, word.unknown) for word in command.argv] == [
        ("--api-key", False), ("${CONFIGURATOR_SECRET_1}", True), ("--x", False), ("$(A)", False),
    ]  # fmt: skip
    assert list(command.env) == ["A"]
    assert problems == ()
