"""Deployments made at random from a seed, with values that break careless writing of files.

They are resolved, not validated: what they ask for makes no sense, and every word of it must
arrive. `started` says what must.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stand_in import LIBRARY

from configurator.deployment import Deployment, HostPlaceholder
from configurator.render.launches import EngineLaunch, address_text
from configurator.resolve import resolve
from configurator.schema.profile import SecretRef

HOSTILE = [
    "",
    " ",
    "two words",
    "$(touch pwned)",
    "`touch pwned`",
    "${HOME}",
    "it's",
    'say "hi"',
    "line\nbreak",
    "tab\there",
    "back\\slash\\n",
    "-leading",
    "--flag=value",
    "*.yaml ?[a]",
    "~/path",
    "a;b|c&d>e<f",
    "!history",
    "#comment",
    "{a,b}",
    "caf\u00e9 \u4f60\u597d \u201cquotes\u201d",
    "\x1b[31mred",
    "=equals",
    "%s %d",
    '{"a": {"b": [1, 2]}}',
    "trailing\n",
]
MORE = [
    "$HOME $$ $$$ ${A:-b} $(NAME) $1",
    "{{ .Values.x }} {% raw %}",
    "%n %i %% %h",
    "yes",
    "0x10",
    "1e3",
    "null",
    "- item",
    "key: value",
    "\\",
    "a\\\nb",
    "'",
    '"',
    "\u2028\u00a0\ufeff",
    "@file",
    "12:34:56",
    "\\x41\\0",
    "\r\n",
]
"""What other languages take for theirs: compose, Go templates, systemd, YAML."""
VALUES = [*HOSTILE, *MORE]
MACHINES = {
    # machine -> sizes as replicas, tensor, pipeline
    "cpu": [(1, 1, 1), (2, 1, 1)],
    "h200": [(1, 2, 1), (2, 4, 1), (3, 8, 1), (1, 16, 1), (1, 8, 2)],
    "gb300-nvl72": [(2, 4, 1), (1, 8, 1), (2, 2, 1), (2, 8, 1)],
    "dgx-spark": [(1, 1, 1), (1, 2, 1), (2, 1, 1)],
}
PATHS = [
    "/models/plain",
    "/models/it's $HOME/$(touch pwned)",
    "/models/{a,b} *",
    '/models/"quoted", with a comma',
    "/models/\u4f60\u597d",
    "/models/key=value%n",
    "organisation/repository",
]
FILES = ["plain", "it's $HOME", '"a", b', "\u4f60 x"]
KEY = 'k-$HOME-`id`-"it\'s"'
"""What every key is."""


@dataclass(frozen=True, slots=True)
class Started:
    """What one process of a deployment receives."""

    argv: list[str]
    env: dict[str, str]


def started(
    launch: EngineLaunch,
    address: Callable[[HostPlaceholder], str],
    key: Callable[[SecretRef], str],
) -> Started:
    """What the process must receive, once addresses and keys are known."""
    argv = []
    for word in launch.argv:
        if isinstance(word, SecretRef):
            argv.append(key(word))
        elif isinstance(word, HostPlaceholder):
            argv.append(address_text(word, address(word)))
        else:
            argv.append(word)
    return Started(argv, dict(launch.env))


def generated(folder: Path, count: int = 100, seed: int = 1) -> Iterator[Deployment]:
    """`count` deployments, the same for the same seed and folder.

    Their profiles and the files of their keys are written to the folder.
    """
    for name in FILES:
        (folder / name).write_text(f"{KEY}\n")
    for number in range(count):
        path = folder / f"generated-{number}.yaml"
        # Another count must not change the deployments before.
        data = profile_data(random.Random(f"{seed}-{number}"), number, folder)
        path.write_text(json.dumps(data, indent=1))
        yield resolve(*LIBRARY.profile(str(path)), LIBRARY)


def profile_data(choose: random.Random, number: int, folder: Path) -> dict[str, Any]:
    """A profile as data; JSON is YAML."""
    machine = choose.choice(list(MACHINES))
    replicas, tensor, pipeline = choose.choice(MACHINES[machine])
    env = {f"V{i}": choose.choice(VALUES) for i in range(choose.randrange(6))}
    for name in ("PYTHONPATH", "SGLANG_PLUGINS"):
        if choose.random() < 0.4:
            env[name] = choose.choice(["", "/mine", "one", *VALUES])
    serving: dict[str, Any] = {"host": choose.choice(["127.0.0.1", "0.0.0.0"])}
    serving["served_model_name"] = choose.choice([value for value in VALUES if value])
    for name in ("api_key", "admin_api_key"):
        if choose.random() < 0.5:
            serving[name] = _secret(choose, name, folder)
    data: dict[str, Any] = {
        "apiVersion": "configurator/v1",
        "kind": "Deployment",
        "name": f"generated-{number}",
        "description": choose.choice(VALUES),
        "status": choose.choice(["verified", "unverified"]),
        "engine": {"build": choose.choice(["sglang-0.5.23", "ling-v3-mxfp4-humming"])},
        "hardware": {"name": machine, "gpus": replicas * tensor * pipeline},
        "model": {"name": "qwen3-8b", "path": choose.choice(PATHS)},
        "topology": {"replicas": replicas, "tensor": tensor, "pipeline": pipeline},
        "serving": serving,
        "evidence": {
            "instrument": choose.choice(["standard", "standard", "none"]),
            "require_report": choose.random() < 0.3,
        },
        "deviations": [{name: choose.choice(VALUES) or "-" for name in _DEVIATION}],
        "extra": {"args": {"words": choose.choices(VALUES, k=choose.randrange(1, 8))}, "env": env},
    }
    if choose.random() < 0.3:
        data["memory"] = {"min_available_gib": 1}
    if choose.random() < 0.5:
        data["container"] = {"cache": f"/var/cache/{choose.choice(FILES)}", "shared_memory_gib": 7}
    if replicas > 1 and choose.random() < 0.7:
        data["router"] = {"host": choose.choice(["127.0.0.1", "0.0.0.0"])}
    return data


_DEVIATION = ("published", "here", "reason")


def _secret(choose: random.Random, name: str, folder: Path) -> dict[str, str]:
    if choose.random() < 0.5:
        return {"env": choose.choice(["THE_KEY", name.upper()])}
    return {"file": f"{folder}/{choose.choice(FILES)}"}
