"""Real launch scripts, with what bash passes to the engine: each word, each variable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configurator.errors import Position
from configurator.readers.shell import run_script
from configurator.words import Invocation, Word

_FIXTURES = Path(__file__).parent.parent / "fixtures" / "shell"
_ROWS = [json.loads(line) for line in (_FIXTURES / "index.jsonl").read_text().splitlines()]
_CASES = [
    pytest.param(row["file"], case, id=f"{row['id']}-{number}")
    for row in _ROWS
    if row["id"] not in ("S03", "S04")  # there the engine is in a container
    for number, case in enumerate(row["cases"])
]


def _read(file: str, given: dict[str, str]) -> list[Invocation]:
    text = (_FIXTURES / file).read_text()
    found = run_script(Word.at(text, Position(file, 1, 1)), given)
    assert found.problems == ()
    return [one for one in found.found if _engine_arguments(one) is not None]


def _engine_arguments(one: Invocation) -> list[str] | None:
    texts = [word.text for word in one.words]
    if "sglang.launch_server" in texts:
        return texts[texts.index("sglang.launch_server") + 1 :]
    for at, text in enumerate(texts[:-1]):
        if text == "sglang" and texts[at + 1] == "serve":
            return texts[at + 2 :]
    return None


def _environment(one: Invocation) -> dict[str, str | None]:
    env = {name: setting.value for name, setting in one.env.items()}
    texts = [word.text for word in one.words]
    if texts[0] == "env":
        env.update(dict(text.split("=", 1) for text in texts[1 : texts.index("numactl")]))
    return env


@pytest.mark.parametrize(("file", "case"), _CASES)
def test_engine_gets_the_words_that_bash_gives_it(file: str, case: dict[str, Any]) -> None:
    found = _read(file, case["given"])
    assert [_engine_arguments(one) for one in found] == [e["argv"] for e in case["expected"]]
    assert [_environment(one) for one in found] == [e["env"] for e in case["expected"]]
    assert all(one.conditions == () for one in found)
    assert not any(word.unknown for one in found for word in one.words)


def test_docker_words_with_a_script_in_quotes() -> None:
    text = (_FIXTURES / "S03.sh").read_text()
    docker = run_script(Word.at(text, Position("S03.sh", 1, 1))).found
    assert len(docker) == 1
    words = docker[0].words
    assert [word.text for word in words[:9]] == [
        "docker", "run", "-d", "--name", "llm", "--gpus", "all", "--ipc=host", "--shm-size",
    ]  # fmt: skip
    assert [word.text for word in words[-3:-1]] == ["bash", "-c"]
    inner = [o for o in run_script(words[-1]).found if _engine_arguments(o)]
    expected = next(row for row in _ROWS if row["id"] == "S03")["cases"][0]["expected"][0]
    assert _engine_arguments(inner[0]) == expected["argv"]
    assert inner[0].words[0].position == Position("S03.sh", 10, 5)
    assert inner[0].words[3].position == Position("S03.sh", 11, 7)


def test_docker_words_with_an_entrypoint() -> None:
    text = (_FIXTURES / "S04.sh").read_text()
    docker = run_script(Word.at(text, Position("S04.sh", 1, 1))).found
    assert len(docker) == 1
    texts = [word.text for word in docker[0].words]
    assert texts[texts.index("--gpus") + 1] == '"device=0,1,2,3"'
    expected = next(row for row in _ROWS if row["id"] == "S04")["cases"][0]["expected"][0]
    assert texts[texts.index("serve") + 1 :] == expected["argv"]
