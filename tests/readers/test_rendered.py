"""Units and manifests of our own: their launches are read, and judged without a false word."""

from __future__ import annotations

import pytest
from stand_in import LIBRARY

from configurator.readers.files import read_text
from configurator.render import TARGETS
from configurator.render.dynamo import worker_words
from configurator.resolve import resolve

NAME = "muse-spark-open-gb300x8-tp8"


@pytest.mark.parametrize("name", LIBRARY.names("deployment"))
def test_a_worker_of_dynamo_gives_back_its_words(name: str) -> None:
    deployment = resolve(*LIBRARY.profile(name), LIBRARY)
    text = TARGETS["dynamo"](deployment)[0].text
    (command,) = read_text(text, "dynamo.yaml").commands
    expected = [str(word) for word in worker_words(deployment)]
    assert [word.text for word in command.argv] == expected[3:]
    assert not {"CONFIGURATOR_LOG", "CONFIGURATOR_KEYS"} & set(command.env)


def test_the_place_of_a_key_in_a_unit_is_no_key() -> None:
    files = TARGETS["systemd"](resolve(*LIBRARY.profile(NAME), LIBRARY))
    unit = next(file for file in files if file.path.endswith("replica0-host0.service"))
    (command,) = read_text(unit.text, unit.path).commands
    words = [word.text for word in command.argv]
    key = command.argv[words.index("--api-key") + 1]
    assert (key.text, key.unknown) == ("${SECRET_1}", True)
    assert "CONFIGURATOR_KEYS" not in command.env


@pytest.mark.parametrize(
    ("container", "code", "said"),
    [
        (
            "podTemplate: {spec: {containers: [{name: main, "
            "command: [python3, -m, dynamo.sglang], args: [--model-path, m]}]}}",
            "LNT007",
            "a worker of NVIDIA Dynamo",
        ),
        (
            "extraPodSpec: {mainContainer: {args: [python3 -m dynamo.sglang --model-path m]}}",
            "LNT005",
            "workers of NVIDIA Dynamo are not read",
        ),
    ],
)
def test_other_manifests_of_dynamo_are_said_to_be_unread(
    container: str, code: str, said: str
) -> None:
    text = f"kind: DynamoGraphDeployment\nspec:\n  services:\n    W:\n      {container}\n"
    reading = read_text(text, "graph.yaml")
    assert not reading.commands
    (problem,) = reading.problems
    assert problem.code == code
    assert said in f"{problem.message} {problem.remedy}"


def test_a_profile_within_a_manifest_is_not_the_file() -> None:
    inner = "kind: ConfigMap\ndata:\n  profile.yaml: |\n    apiVersion: configurator/v1\n"
    (problem,) = read_text(inner, "map.yaml").problems
    assert "this is a profile" not in problem.remedy
    (problem,) = read_text("apiVersion: configurator/v1\nkind: Deployment\n", "p.yaml").problems
    assert "this is a profile" in problem.remedy
