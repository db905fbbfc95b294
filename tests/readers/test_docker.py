"""docker run: options, image, entrypoint and the variables of the container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from configurator.errors import Position
from configurator.readers.files import read_text
from configurator.readers.processes import Result, commands_of
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.words import Invocation, Setting, Word

IMAGE = "lmsysorg/sglang:v0.5.20"


def read(
    line: str,
    given: Mapping[str, str] | None = None,
    folder: Path | None = None,
    **env: str | None,
) -> Result:
    def run(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
        shown = Word.at(",".join(f"{k}={v}" for k, v in given.items()), script.position)
        return Invocations((Invocation((*split_words(script).words, shown), dict(env)),))

    settings = {n: Setting(n, v, Position("f", 9, 1)) for n, v in env.items()}
    words = split_words(Word.at(line, Position("f", 1, 1))).words
    return commands_of(Invocation(words, settings), run, given, folder)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "-it --rm",
        "-dit --name llm -p 30000:30000",
        "--gpus '\"device=0,1\"' --network=host --ipc host --shm-size 32g",
        "--gpus all -v /a:/b:ro --ulimit memlock=-1 --privileged --init -u 0:0",
        "-itu root -w /x --cap-add SYS_PTRACE --security-opt seccomp=unconfined",
        "--device /dev/kfd --device=/dev/dri --group-add video --read-only --pull always",
        "-d --restart unless-stopped --log-opt max-size=1g --",
    ],
)
@pytest.mark.parametrize(
    "program", ["docker", "/usr/bin/podman", "nerdctl -n k8s.io", "docker container"]
)
def test_options_are_told_from_the_image(program: str, options: str) -> None:
    (command,), problems = read(f"{program} run {options} {IMAGE} sglang serve --tp 8", A="1")
    assert command.image == IMAGE
    assert [word.text for word in command.argv] == ["--tp", "8"]
    assert command.env == {}
    assert command.conditions == ()
    assert problems == ()


def test_only_what_is_passed_reaches_the_container() -> None:
    line = f"docker run -e A -e B=2 -eC=3 --env D --env=E -e F=x=y -e G {IMAGE} sglang serve"
    (command,), _ = read(line, {"D": "4"}, A="1", Z="9", G=None)
    values = {name: one.value for name, one in command.env.items()}
    expected = {"A": "1", "B": "2", "C": "3", "D": "4", "E": None, "F": "x=y", "G": None}
    assert values == expected
    assert command.env["B"].position == Position("f", 1, line.index("B=2") + 1)
    assert command.env["C"].position == Position("f", 1, line.index("C=3") + 1)


def test_a_value_that_nobody_knows_is_none() -> None:
    words = split_words(Word.at(f"docker run -e {IMAGE} sglang serve", Position("f", 1, 1))).words
    token = Word.at("T=${T}", Position("f", 1, 15), unknown=True)
    invocation = Invocation((*words[:3], token, *words[3:]))
    (command,), _ = commands_of(invocation, lambda script, given, env: Invocations())
    assert command.env["T"].value is None


def test_the_container_has_only_the_given_values_that_are_passed() -> None:
    line = f"docker run -e PORT {IMAGE} bash -c 'sglang serve --port'"
    (command,), _ = read(line, {"PORT": "1", "TP": "8"})
    assert [word.text for word in command.argv] == ["--port", "PORT=1"]


def test_the_entrypoint_comes_before_the_words() -> None:
    (command,), _ = read(f"docker run --entrypoint sglang {IMAGE} serve --tp 8")
    assert (command.entry, [word.text for word in command.argv]) == ("serve", ["--tp", "8"])
    (command,), _ = read("docker run --entrypoint= my/own sglang serve --tp 8")
    assert command.conditions == ()
    (command,), _ = read("docker run --entrypoint python3 my/own -m sglang.launch_server --tp 8")
    assert command.entry == "launch_server"


def test_an_image_with_an_unknown_entrypoint_is_assumed_to_start_the_words() -> None:
    (command,), _ = read("docker run host:5000/my/own:1 sglang serve --tp 8")
    assert command.image == "host:5000/my/own:1"
    assert command.conditions == ("the image host:5000/my/own:1 starts the words it gets",)
    (command,), _ = read("docker run host:5000/lmsysorg/sglang@sha256:ab sglang serve")
    assert command.conditions == ()


def test_options_alone_start_nothing_that_is_known() -> None:
    commands, problems = read(f"docker run {IMAGE} --model-path x")
    assert commands == ()
    assert [p.code for p in problems] == ["LNT007"]
    _, problems = read("docker run own/image --api-key=topsecret --model-path x")
    assert "--api-key" in problems[0].message
    assert "topsecret" not in str(problems[0])
    assert read("docker run redis --save 60 1") == ((), ())


def test_docker_exec_starts_its_words() -> None:
    (command,), _ = read("docker exec -d -e A=1 -w /x llm sglang serve --tp 8", B="2")
    assert {n: s.value for n, s in command.env.items()} == {"A": "1"}
    assert command.image is None


def test_files_of_variables(tmp_path: Path) -> None:
    text = "\ufeff# note\nA=1\r\nB='q'\n\nnonsense\n export C = 3 \n"
    (tmp_path / "x.env").write_text(text)
    line = f"docker run --env-file x.env -e A=2 {IMAGE} sglang serve"
    (command,), problems = read(line, folder=tmp_path)
    values = {name: one.value for name, one in command.env.items()}
    assert values == {"A": "2", "B": "'q'", "C": "3"}
    assert command.env["B"].position == Position(str(tmp_path / "x.env"), 3, 1)
    assert problems == ()


@pytest.mark.parametrize("path", ["none.env", "/etc/passwd", "../x.env", "sub", "$X"])
def test_files_of_variables_that_are_not_beside(tmp_path: Path, path: str) -> None:
    (tmp_path / "sub").mkdir()
    line = f"docker run --env-file {path} {IMAGE} sglang serve"
    (command,), problems = read(line, folder=tmp_path / "sub")
    assert command.env == {}
    assert [(p.code, p.position) for p in problems] == [("LNT004", Position("f", 1, 23))]
    assert path in problems[0].message
    assert read(f"docker run --env-file {path} redis", folder=tmp_path) == ((), ())


@pytest.mark.parametrize(
    ("words", "image"),
    [
        ('--name "$NAME" $(args) --ipc=host "$IMAGE"', "$IMAGE"),
        ("$EXTRA lmsysorg/sglang:v0.5.20", "lmsysorg/sglang:v0.5.20"),
        ('$(args) "$IMG"', "$IMG"),
        ('"${OPTS[@]}" --ipc=host lmsysorg/sglang:v0.5.9', "lmsysorg/sglang:v0.5.9"),
    ],
)
def test_options_that_nobody_can_know_do_not_hide_the_launch(words: str, image: str) -> None:
    text = f"docker run -d {words} python3 -m sglang.launch_server --model-path m --tp 2\n"
    (command,) = read_text(text, "run.sh").commands
    assert [word.text for word in command.argv] == ["--model-path", "m", "--tp", "2"]
    assert command.image == image
