"""`docker run` and what else starts a process in a container.

Only what the file says reaches the container: `-e`, `--env` and `--env-file`, not the variables
that the caller of docker has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from configurator.errors import Position, Problem
from configurator.readers.envfiles import read_env_file
from configurator.readers.options import Given, Options, Words, options, split_options
from configurator.readers.wrappers import setting
from configurator.words import Invocation, Setting, Word

_PROGRAM = re.compile(r"python[\d.]*|sglang|bash|sh|env|exec|numactl|tini|nsys|uv")
"""What a container is told to run, where a launch of the engine is one."""
PROGRAMS = frozenset({"docker", "podman", "nerdctl", "nvidia-docker"})

_GLOBAL = options("--config -c --context -H --host -l --log-level --tlscacert --tlscert --tlskey "
                  "-n --namespace -a --address --cgroup-manager --root --url")  # fmt: skip
_RUN = options(
    flags="-d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all "
    "--read-only --no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust -q "
    "--quiet --help --use-api-socket --replace --rmi --tls-verify --no-hosts --no-hostname "
    "--env-host --http-proxy --passwd --read-only-tmpfs --rootfs"
)
_EXEC = options(flags="-d --detach -i --interactive -t --tty --privileged -l")
_COMPOSE = options("-f --file -p --project-name --profile --env-file --project-directory "
                   "--ansi --parallel --progress")  # fmt: skip
_COMPOSE_RUN = options(
    "-e --env --env-from-file --index -u --user -w --workdir --name --entrypoint -l --label "
    "-p --publish -v --volume --cap-add --cap-drop --pull"
)
_OWN_ENTRYPOINT = ("lmsysorg/sglang", "lmsysorg/sglang-rocm", "rocm/sgl-dev")
"""Images whose entrypoint starts the words it gets."""


@dataclass(frozen=True, slots=True)
class Contained:
    """What runs in a container."""

    invocation: Invocation
    given: Mapping[str, str]
    """What the container has of the values the caller was said to have."""
    problems: tuple[Problem, ...] = ()


def contained(
    invocation: Invocation, given: Mapping[str, str], folder: Path | None
) -> Contained | None:
    """What a container command starts; None when it starts nothing that can be read."""
    _, rest = split_options(invocation.words[1:], _GLOBAL)
    if rest and rest[0].text == "container":
        rest = rest[1:]
    elif rest and rest[0].text == "compose":
        return _service(rest[1:], invocation, given, folder)
    if not rest or rest[0].text not in ("run", "create", "exec"):
        return None
    table = _EXEC if rest[0].text == "exec" else _RUN
    found, words, assumed = _past_unknown(*split_options(rest[1:], table), table)
    if not words:
        return None
    invocation = replace(invocation, conditions=(*invocation.conditions, *assumed))
    env, inherited, problems = _environment(found, invocation, given, folder)
    inner = replace(invocation, env=env)
    if rest[0].text == "exec":
        return Contained(replace(inner, words=words[1:]), inherited, problems)
    entrypoint = next((value for name, value in reversed(found) if name == "--entrypoint"), None)
    own = None if entrypoint is None else ((entrypoint,) if entrypoint.text else ())
    started, unclear = started_in(words[0], own, words[1:], inner)
    return Contained(started, inherited, problems + unclear)


def _past_unknown(
    found: Given, words: Words, table: Options
) -> tuple[Given, Words, tuple[str, ...]]:
    """The same past words that nobody can know and that stand where options or the image may.

    A word before a program is the image; any other holds options of docker, as people write them.
    """
    assumed: list[str] = []
    while len(words) > 1 and words[0].unknown and not _is_program(words[1].text):
        assumed.append(f"{words[0].text} holds options of docker")
        more, words = split_options(words[1:], table)
        found = [*found, *more]
    return found, words, tuple(assumed)


def _is_program(text: str) -> bool:
    return bool(_PROGRAM.fullmatch(text.rpartition("/")[2]))


def _service(
    words: Words, invocation: Invocation, given: Mapping[str, str], folder: Path | None
) -> Contained | None:
    """`docker compose exec` and `run`: a service in place of a container, no image in sight."""
    _, rest = split_options(words, _COMPOSE)
    if not rest or rest[0].text not in ("run", "exec"):
        return None
    found, words = split_options(rest[1:], _COMPOSE_RUN)
    env, inherited, problems = _environment(found, invocation, given, folder)
    return Contained(replace(invocation, env=env, words=words[1:]), inherited, problems)


def started_in(
    image: Word | None, entrypoint: Words | None, command: Words, invocation: Invocation
) -> tuple[Invocation, tuple[Problem, ...]]:
    """The process that an image runs with an entrypoint (None: its own) and command words.

    Without an entrypoint in the file only known images are known to start the words; of others
    it is assumed, and said.
    """
    inner = replace(invocation, image=image.text if image else None)
    if entrypoint is not None or not command:
        return replace(inner, words=(entrypoint or ()) + command), ()
    name = _repository(image.text) if image else ""
    bare = command[0].text.startswith("-")
    if name.rsplit("/", 1)[-1].startswith("vllm"):
        place = command[0].position
        program = (Word.at("vllm", place), Word.at("serve", place)) if bare else ()
        return replace(inner, words=program + command), ()
    if bare:
        return replace(inner, words=()), _own_entrypoint(image, command)
    if name.endswith(_OWN_ENTRYPOINT):
        return replace(inner, words=command), ()
    assumed = f"the image {image.text if image else 'of the container'} starts the words it gets"
    return replace(inner, words=command, conditions=(*inner.conditions, assumed)), ()


def _repository(image: str) -> str:
    """The name of an image without digest and tag."""
    path, slash, last = image.partition("@")[0].rpartition("/")
    return path + slash + last.partition(":")[0]


def _own_entrypoint(image: Word | None, command: Words) -> tuple[Problem, ...]:
    marks = ("--model", "--model-path", "--tp", "--tp-size")
    if not any(word.text.partition("=")[0] in marks for word in command):
        return ()
    name = f"the image {image.text}" if image else "the image"
    return (
        Problem(
            "LNT007",
            f"what {name} starts with {command[0].text.partition('=')[0]} is not in this file",
            "name the program: `python3 -m sglang.launch_server` before the options",
            command[0].position,
        ),
    )


def _environment(
    found: Given, invocation: Invocation, given: Mapping[str, str], folder: Path | None
) -> tuple[dict[str, Setting], dict[str, str], tuple[Problem, ...]]:
    """Variables of the container: files first, as docker has it, then -e in order."""
    env: dict[str, Setting] = {}
    inherited: dict[str, str] = {}
    problems: list[Problem] = []
    files = {value.text: value for name, value in found if name == "--env-file" and value}
    for file in files.values():
        settings, missing = read_env_file(file, folder)
        env |= settings
        problems += missing
    for name, value in found:
        if name not in ("-e", "--env") or value is None:
            continue
        one = setting(value)
        if one is None:
            one = _passed(value.text, value.position, invocation, given)
            if value.text in given and value.text not in invocation.env:
                inherited[value.text] = given[value.text]
        env[one.name] = one
    return env, inherited, tuple(problems)


def _passed(
    name: str, position: Position, invocation: Invocation, given: Mapping[str, str]
) -> Setting:
    """A variable that the container gets from whoever starts it."""
    outer = invocation.env.get(name)
    return Setting(name, outer.value if outer else given.get(name), position)
