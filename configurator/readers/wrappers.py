"""Programs that only start another one: `env`, `sudo`, `numactl`, `nsys profile` and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from configurator.readers.options import Given, Options, Words, options, split_options
from configurator.readers.pieces import Places
from configurator.readers.splitting import split_words
from configurator.words import Invocation, Setting, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to step over one program."""

    table: Options = Options()  # noqa: RUF009 - frozen
    operands: int = 0
    """Words between its options and the program it starts."""


_SRUN_FLAGS = (
    "--exclusive -l --label -u --unbuffered -K --kill-on-bad-exit --overlap -k --no-kill "
    "-O --overcommit -s --oversubscribe -v --verbose -Q --quiet -H --hold -X --disable-status "
    "--pty --contiguous --container-writable --container-readonly --container-remap-root "
    "--no-container-remap-root --container-mount-home --no-container-mount-home "
    "--container-entrypoint --no-container-entrypoint -E --preserve-env -Z --no-allocate "
    "--spread-job --use-min-nodes --test-only --reboot"
)
_MPIRUN_FLAGS = (
    "--allow-run-as-root -allow-run-as-root --oversubscribe -oversubscribe --nooversubscribe "
    "--report-bindings -report-bindings --tag-output -tag-output --display-map --nolocal "
    "--display-allocation --bynode -bynode --bycore --byslot -q --quiet -v --verbose -V -h -d"
)
_NCU_FLAGS = (
    "-f --force-overwrite --nvtx --csv --quiet --verbose -h --help --version --call-stack "
    "--list-sets --list-sections --print-kernel-base --disable-extra-suffixes"
)
_SYSTEMD_RUN_FLAGS = (
    "--user --system --scope -t --pty -P --pipe -q --quiet -G --collect --wait --no-block -S "
    "--shell -r --remain-after-exit --same-dir -d --send-sighup --no-ask-password"
)
_TMUX = "-c -e -F -n -s -t -x -y -f -l -p"
_SUDO = "-u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -R --chroot -r -t -T"
_UV = (
    "--with --with-editable --with-requirements -p --python --project --directory --env-file "
    "--extra --group --only-group --no-group --package --index --index-url --extra-index-url "
    "--default-index --find-links -f --index-strategy --refresh-package --color --cache-dir "
    "--config-file --python-platform --from -w"
)
_CONDA = "-n --name -p --prefix --cwd -r --root-prefix"

ENTRY = "entry.sh"
"""The script of ours that containers and units start the engine with."""
ENTER = "enter.py"
"""The same for Dynamo's workers, whose operator appends words to a command of Python alone."""
_WRAPPERS: Mapping[str, Wrapper] = {
    ENTRY: Wrapper(),
    ENTER: Wrapper(),
    "exec": Wrapper(options("-a")),
    "command": Wrapper(),
    "nohup": Wrapper(),
    "catchsegv": Wrapper(),
    "env": Wrapper(options("-u --unset -C --chdir -S --split-string")),
    "sudo": Wrapper(options(_SUDO)),
    "doas": Wrapper(options("-u -C")),
    "time": Wrapper(options("-f --format -o --output")),
    "numactl": Wrapper(
        options(
            "-C --physcpubind -N --cpunodebind -m --membind -i --interleave -p --preferred "
            "-P --preferred-many -w --weighted-interleave"
        )
    ),
    "taskset": Wrapper(operands=1),
    "nice": Wrapper(options("-n --adjustment")),
    "ionice": Wrapper(options("-c --class -n --classdata")),
    "chrt": Wrapper(options("-T -P -D"), 1),
    "stdbuf": Wrapper(options("-i --input -o --output -e --error")),
    "timeout": Wrapper(options("-k --kill-after -s --signal"), 1),
    "setsid": Wrapper(),
    "tini": Wrapper(options("-p -e")),
    "dumb-init": Wrapper(options("-r --rewrite")),
    "strace": Wrapper(options("-e -o -s -p -P -u -E -a -O -S -I -b -X")),
    "gdb": Wrapper(options("-ex --ex -x --command -iex -cd -d", whole=True)),
    "srun": Wrapper(options(flags=_SRUN_FLAGS)),
    "ncu": Wrapper(options(flags=_NCU_FLAGS)),
    "uvx": Wrapper(options(_UV)),
    "flock": Wrapper(options("-w --timeout --wait -E --conflict-exit-code"), 1),
    "unbuffer": Wrapper(),
    "screen": Wrapper(options("-S -c -e -h -p -s -t -T")),
    "systemd-run": Wrapper(options(flags=_SYSTEMD_RUN_FLAGS)),
}
_ALIASES = {
    "docker-init": "tini",
    "tini-static": "tini",
    "time": "time",
    "nv-nsight-cu-cli": "ncu",
}
_MPIRUN = Wrapper(
    Options(
        flags=frozenset(_MPIRUN_FLAGS.split()),
        pairs=frozenset({"-mca", "--mca", "-gmca", "--gmca"}),
        whole=True,
    )
)
_SUBCOMMANDS: Mapping[tuple[str, str], Wrapper] = {
    ("nsys", "profile"): Wrapper(options(flags="-h --help")),
    ("nsys", "launch"): Wrapper(options(flags="-h --help")),
    ("tmux", "new-session"): Wrapper(options(_TMUX)),
    ("tmux", "new"): Wrapper(options(_TMUX)),
    ("tmux", "new-window"): Wrapper(options(_TMUX)),
    ("tmux", "split-window"): Wrapper(options(_TMUX)),
    ("uv", "run"): Wrapper(options(_UV)),
    ("poetry", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(options("-p --project")),
    ("pipenv", "run"): Wrapper(),
    ("pixi", "run"): Wrapper(options("-e --environment --manifest-path")),
    ("conda", "run"): Wrapper(options(_CONDA)),
    ("mamba", "run"): Wrapper(options(_CONDA)),
    ("micromamba", "run"): Wrapper(options(_CONDA)),
}


_ENTRY_KEYS = "CONFIGURATOR_KEYS"
_ENTRY_OWN = (_ENTRY_KEYS, "CONFIGURATOR_LOG", "CONFIGURATOR_STATE")


def program_name(word: Word) -> str:
    """The last part of the path that a word names."""
    return word.text.rsplit("/", 1)[-1]


def unwrap(invocation: Invocation) -> Invocation | None:
    """What a wrapper starts; None when the program is not a wrapper.

    An invocation without words comes of a wrapper that starts nothing.
    """
    words = invocation.words
    name = _ALIASES.get(program_name(words[0]), program_name(words[0]))
    if name in ("mpirun", "mpiexec", "orterun"):
        wrapper, rest = _MPIRUN, words[1:]
    elif name in _WRAPPERS:
        wrapper, rest = _WRAPPERS[name], words[1:]
    elif len(words) > 1 and (name, words[1].text) in _SUBCOMMANDS:
        wrapper, rest = _SUBCOMMANDS[name, words[1].text], words[2:]
    else:
        return None
    if name in (ENTRY, ENTER):
        return _entered(invocation)
    found, rest = split_options(rest, wrapper.table)
    rest = rest[wrapper.operands :]
    env = dict(invocation.env)
    image = invocation.image
    if name == "env":
        rest = _environment(found, rest, env)
    elif name == "sudo":
        rest = _privileged(found, rest, env)
    elif name in ("srun", "mpirun", "mpiexec", "orterun"):
        image = _spread(found, env) or image
    elif name == "tmux" and len(rest) == 1:
        rest = (Word.at("sh", rest[0].position), Word.at("-c", rest[0].position), *rest)
    elif name in ("uv", "uvx"):
        rest = _module(found, rest)
    if name in ("command", "gdb"):
        rest = _only_if_run(name, found, rest)
    return replace(invocation, words=rest, env=env, image=image)


def _entered(invocation: Invocation) -> Invocation:
    """What the entry script starts: a key stands in the place of a word, and nobody knows it."""
    words = list(invocation.words[1:])
    keys = invocation.env.get(_ENTRY_KEYS)
    named: dict[str, Setting] = {}
    taken = {*_ENTRY_OWN}
    for key in (keys.value or "").split() if keys else ():
        place, _, source = key.partition("=")
        name = _key_variable(source)
        if place.isdecimal() and int(place) < len(words):
            at = words[int(place)].position
            words[int(place)] = Word.at(f"${{{name}}}", at, unknown=True)
            taken.add(name)
        elif keys is not None and not place.isdecimal():
            named[place] = Setting(place, None, keys.position)
            taken.add(name)
    env = {name: value for name, value in invocation.env.items() if name not in taken} | named
    return replace(invocation, words=tuple(words), env=env)


def _key_variable(source: str) -> str:
    """The variable of `env:NAME`; of `file:PATH` one named as the file."""
    kind, _, place = source.partition(":")
    if kind == "file":
        return re.sub(r"[^A-Z0-9_]", "_", place.rpartition("/")[2].upper()) or "KEY"
    return place


def setting(word: Word, start: int = 0) -> Setting | None:
    """The assignment `NAME=value` that a word is from `start` on; None if it is none."""
    match = _ASSIGNMENT.match(word.text, start)
    if match is None:
        return None
    # Of our own keys only the places count; where systemd puts the files nobody need know.
    known = not word.unknown or match[1] == _ENTRY_KEYS
    value = word.text[match.end() :] if known else None
    return Setting(match[1], value, word.position_at(start))


def _odd_setting(word: Word) -> Setting | None:
    """`A-B=1`, which a shell would take for a program, and env(1) and sudo for a variable."""
    name, equals, value = word.text.partition("=")
    if not name or not equals:
        return None
    return Setting(name, None if word.unknown else value, word.position)


def _assignments(words: Words, env: dict[str, Setting]) -> Words:
    """Take the assignments off the front."""
    for index, word in enumerate(words):
        found = setting(word) or _odd_setting(word)
        if found is None:
            return words[index:]
        env[found.name] = found
    return ()


def _environment(found: Given, rest: Words, env: dict[str, Setting]) -> Words:
    """The options of env(1), applied to `env`; what it starts."""
    if rest and rest[0].text == "-":
        env.clear()
        rest = rest[1:]
    for name, value in found:
        if name in ("-i", "--ignore-environment"):
            env.clear()
        elif name in ("-u", "--unset") and value:
            env.pop(value.text, None)
        elif name in ("-S", "--split-string") and value:
            rest = (*split_words(value).words, *rest)
    return _assignments(rest, env)


def _privileged(found: Given, rest: Words, env: dict[str, Setting]) -> Words:
    """Without -E, sudo starts from an environment of its own."""
    kept: set[str] = set()
    everything = False
    for name, value in found:
        if name == "--preserve-env" and value:
            kept |= set(value.text.split(","))
        elif name in ("-E", "--preserve-env"):
            everything = True
    for name in list(env):
        if not everything and name not in kept:
            del env[name]
    return _assignments(rest, env)


def _spread(found: Given, env: dict[str, Setting]) -> str | None:
    """Variables and the container image that a launcher of many processes sets."""
    image = None
    for name, value in found:
        if value is None:
            continue
        if name == "--container-image":
            image = value.text
        elif name == "-x":
            _assignments((value,), env)
        elif name == "--export":
            start, places = 0, Places(value)
            for item in value.text.split(","):
                one = setting(
                    replace(places.piece(start, start + len(item)), unknown=value.unknown)
                )
                if one:
                    env[one.name] = one
                start += len(item) + 1
    return image


def _module(found: Given, rest: Words) -> Words:
    """`uv run -m MODULE` is `python -m MODULE`."""
    if rest and any(name in ("-m", "--module") for name, _ in found):
        place = rest[0].position
        return (Word.at("python", place), Word.at("-m", place), *rest)
    return rest


def _only_if_run(name: str, found: Given, rest: Words) -> Words:
    given = {option for option, _ in found}
    if name == "gdb":
        return rest if given & {"--args", "-args"} else ()
    return () if given & {"-v", "-V"} else rest
