"""Programs that start a process in a pod or in an image file: kubectl, apptainer.

What kubectl starts has none of the caller's variables; apptainer hands them all on unless told
otherwise. Sources: `kubectl exec --help`, `kubectl run --help`, `apptainer exec --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from configurator.errors import Problem
from configurator.readers.docker import Contained, started_in
from configurator.readers.envfiles import read_env_file
from configurator.readers.options import Given, Words, options, split_options
from configurator.readers.pieces import Places
from configurator.readers.wrappers import program_name, setting
from configurator.words import Invocation, Setting, Word

_KUBECTL = frozenset({"kubectl", "oc"})
_APPTAINER = frozenset({"apptainer", "singularity"})
PROGRAMS = _KUBECTL | _APPTAINER

_KUBECTL_FLAGS = options(
    flags="-i --stdin -t --tty -q --quiet --command --rm --attach --expose --privileged "
    "--insecure-skip-tls-verify --match-server-version --warnings-as-errors --leave-stdin-open"
)
_APPTAINER_GLOBAL = options("-c --config")
_APPTAINER_VALUES = options(
    "-B --bind --mount --env --env-file -H --home -W --workdir --pwd --cwd -S --scratch "
    "-o --overlay --security --network --network-args --hostname --dns --add-caps --drop-caps "
    "--apply-cgroups --app --fusemount --pem-path --blkio-weight --cpus --cpuset-cpus "
    "--cpuset-mems --cpu-shares --memory --memory-reservation --memory-swap --pids-limit"
)


def contained(
    invocation: Invocation, given: Mapping[str, str], folder: Path | None
) -> Contained | None:
    """What such a program starts; None when it starts nothing that can be read."""
    if program_name(invocation.words[0]) in _KUBECTL:
        return _in_pod(invocation)
    return _in_image(invocation, given, folder)


def _in_pod(invocation: Invocation) -> Contained | None:
    _, rest = split_options(invocation.words[1:], _KUBECTL_FLAGS)
    if not rest or rest[0].text not in ("exec", "run"):
        return None
    verb, rest = rest[0].text, rest[1:]
    cut = next((index for index, word in enumerate(rest) if word.text == "--"), len(rest))
    found, old = _around_operand(rest[:cut])
    # Old releases of kubectl took the words after the pod without `--`.
    words = rest[cut + 1 :] or old
    if not words:
        return None
    env: dict[str, Setting] = {}
    image: Word | None = None
    for name, value in found:
        one = setting(value) if name == "--env" and value else None
        if one:
            env[one.name] = one
        image = value if name == "--image" else image
    inner = replace(invocation, env=env)
    if verb == "exec":
        return Contained(replace(inner, words=words), {})
    own = words if any(name == "--command" for name, _ in found) else None
    started, unclear = started_in(image, own, () if own else words, inner)
    return Contained(started, {}, unclear)


def _around_operand(words: Words) -> tuple[Given, Words]:
    """Options before and after the name of the pod, and what comes after them."""
    before, words = split_options(words, _KUBECTL_FLAGS)
    after, words = split_options(words[1:], _KUBECTL_FLAGS)
    return before + after, words


def _in_image(
    invocation: Invocation, given: Mapping[str, str], folder: Path | None
) -> Contained | None:
    _, rest = split_options(invocation.words[1:], _APPTAINER_GLOBAL)
    if not rest or rest[0].text not in ("exec", "run"):
        return None
    found, words = split_options(rest[1:], _APPTAINER_VALUES)
    if len(words) < 2:
        return None
    clean = any(name in ("-e", "--cleanenv", "-C", "--containall") for name, _ in found)
    env = {} if clean else dict(invocation.env)
    problems = _variables(found, env, folder)
    inherited = {} if clean else given
    inner = replace(invocation, env=env, image=words[0].text)
    if rest[0].text == "exec":
        return Contained(replace(inner, words=words[1:]), inherited, problems)
    started, unclear = started_in(words[0], None, words[1:], inner)
    return Contained(started, inherited, problems + unclear)


def _variables(found: Given, env: dict[str, Setting], folder: Path | None) -> tuple[Problem, ...]:
    """Set what `--env-file`, then `--env A=1,B=2` say."""
    problems: list[Problem] = []
    for name, value in found:
        if name == "--env-file" and value:
            settings, missing = read_env_file(value, folder, quotes=True)
            env |= settings
            problems += missing
    for name, value in found:
        if name == "--env" and value:
            start, places = 0, Places(value)
            for item in value.text.split(","):
                piece = places.piece(start, start + len(item))
                one = setting(replace(piece, unknown=value.unknown))
                if one:
                    env[one.name] = one
                start += len(item) + 1
    return tuple(problems)
