"""A stand-in for docker: it starts the words of a container as processes of this machine.

What lies in the container at a place of a bind mount is looked for where the mount comes from, and
the environment is the one that the command gives, with what stands for the image's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stand_in import environment

DOCKER = r"""
import json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(os.environ["STUB"])
boxes = folder / "boxes"
boxes.mkdir(exist_ok=True)
words = sys.argv[1:]
with open(folder / "asked.jsonl", "a") as file:
    file.write(json.dumps(words) + "\n")
def pid_of(name):
    path = boxes / name
    if not path.exists():
        sys.exit(f"Error: No such container: {name}")
    return int(path.read_text())
if words[0] == "version":
    sys.exit(int(os.environ.get("STUB_DAEMON", "0")))
if words[:2] == ["image", "inspect"]:
    sys.exit(0 if (folder / "pulled").exists() or "STUB_NO_IMAGE" not in os.environ else 1)
if words[0] == "pull":
    (folder / "pulled").write_text(words[-1]); sys.exit(0)
if words[:2] == ["container", "inspect"]:
    pid_of(words[-1]); sys.exit(0)
if words[:2] == ["inspect", "--format"]:
    print(pid_of(words[-1])); sys.exit(0)
if words[0] == "kill":
    sent = getattr(signal, "SIG" + words[words.index("--signal") + 1])
    os.kill(pid_of(words[-1]), sent); sys.exit(0)
if words[:2] == ["rm", "--force"]:
    os.kill(pid_of(words[-1]), signal.SIGKILL); sys.exit(0)
assert words[0] == "run", words
flags = {"--rm", "--init"}
options, rest = [], words[1:]
while rest[0].startswith("--"):
    name = rest.pop(0)
    options.append((name, None if name in flags else rest.pop(0)))
of = dict(options)
image, inner = rest[0], rest[1:]
import csv
mounts = []
for name, value in options:
    if name == "--mount":
        fields = dict(part.partition("=")[::2] for part in next(csv.reader([value])))
        if not os.path.isdir(fields["source"]):
            sys.exit(f"docker: bind source path does not exist: {fields['source']}")
        mounts.append((fields["target"], fields["source"]))
mounts.sort(key=lambda pair: -len(pair[0]))
def moved(text):
    for target, source in mounts:
        text = text.replace(target, source)
    return text
kept = ("PATH", "HOME", "STUB", "STUB_MODE", "STUB_REPORT", "REAL_PYTHON")
env = {name: os.environ[name] for name in kept if name in os.environ}
env.update(json.loads(os.environ.get("STUB_IMAGE_ENV", "{}")))
for name, value in options:
    if name == "--env":
        key, equals, text = value.partition("=")
        if not equals and key in os.environ:
            env[key] = os.environ[key]
        elif equals:
            env[key] = moved(text) if key.startswith("CONFIGURATOR_") else text
if os.environ.get("STUB_SLOW"):
    time.sleep(float(os.environ["STUB_SLOW"]))
if (boxes / of.get("--name", "none")).exists():
    sys.exit("docker: Conflict. The container name is in use")
script = next(n for n, word in enumerate(inner) if not word.startswith("-"))
started = [of["--entrypoint"], *inner[:script], moved(inner[script]), *inner[script + 1 :]]
box = subprocess.Popen(started, env=env, start_new_session=True)
if "--name" in of:
    (boxes / of["--name"]).write_text(str(box.pid))
    (boxes / "id-1").write_text(str(box.pid))
    pathlib.Path(of["--cidfile"]).write_text("id-1")
code = box.wait()
if "--name" in of:
    (boxes / of["--name"]).unlink(); (boxes / "id-1").unlink()
sys.exit(code if code >= 0 else 128 - code)
"""


def with_docker(tmp_path: Path, **more: str) -> dict[str, str]:
    """`environment`, with a docker in front; the engine's stand-in is what the image has."""
    env = environment(tmp_path, **more)
    path = tmp_path / "tools" / "docker"
    path.write_text(f"#!{sys.executable}\n{DOCKER}")
    path.chmod(0o755)
    return env


def boxes(tmp_path: Path) -> list[str]:
    """The containers that are there."""
    folder = tmp_path / "boxes"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
