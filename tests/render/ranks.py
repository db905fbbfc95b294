"""A stand-in engine of several ranks, for launches over hosts: it meets, reports and answers.

Rank 0 waits at --dist-init-addr for the others, which must connect there as real ranks do; then it
answers as a recorded server that was started with its own arguments. Every rank leaves a report, of
a draft that shares the target's LM head, or on the rank STUB_BAD of one that lacks it; the rank
STUB_SILENT leaves none.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from stand_in import LIBRARY

from configurator.demo.server import RECORDINGS
from configurator.deployment import Deployment
from configurator.resolve import resolve

ENGINE = r"""
import json, os, pathlib, shlex, socket, sys, threading, time
if sys.argv[1:2] == ["-c"]:
    if "m.version" in sys.argv[2]:
        print("0.5.23"); sys.exit(0)
    if "entry_points" in sys.argv[2]:
        sys.exit(0)
    os.execv(os.environ["REAL_PYTHON"], [os.environ["REAL_PYTHON"], *sys.argv[1:]])
limit = threading.Timer(150, lambda: os._exit(9))  # whatever becomes of the test
limit.daemon = True
limit.start()
words = sys.argv[1:]
def said(name, default=None):
    return words[words.index(name) + 1] if name in words else default
router = "sglang_router.launch_router" in words
rank, ranks = int(said("--node-rank", 0)), int(said("--nnodes", 1))
port = int(said("--port"))
env = dict(os.environ)
name = "router" if router else f"{port}-rank{rank}"
seen = pathlib.Path(env["STUB"]) / f"seen-{name}-{env.get('SLURMD_NODENAME', '')}.json"
partial = seen.with_suffix(".partial")
partial.write_text(json.dumps({"argv": words, "env": env, "pid": os.getpid()}))
partial.rename(seen)
if router:
    time.sleep(600)
print("Load weight begin. avail mem=1 GB", flush=True)
if env.get("STUB_DIES") == str(rank):
    print("RuntimeError: rank died", flush=True); sys.exit(7)
if ranks > 1:
    host, _, number = said("--dist-init-addr").rpartition(":")
    # Nodes of a test's cluster have names that nobody resolves.
    names = dict(one.split("=") for one in env.get("STUB_HOSTS", "").split(",") if one)
    address = (names.get(host, host), int(number))
    if rank == 0:
        listening = socket.create_server(address, backlog=ranks)
        kept = []
        for _ in range(ranks - 1):
            one, peer = listening.accept()
            kept.append(one)
            print("rank", one.recv(8).decode(), "came from", peer[0], flush=True)
    else:
        while True:
            try:
                kept = socket.create_connection(address, timeout=2); break
            except OSError:
                time.sleep(0.2)
        kept.sendall(str(rank).encode())
reports = env.get("CONFIGURATOR_PROBE_DIR")
if reports and env.get("STUB_SILENT") != str(rank):
    source = env["STUB_REPORTS"].split(":")[env.get("STUB_BAD") == str(rank)]
    report = json.loads(pathlib.Path(source).read_text())
    report["rank"] = {"tp_rank": rank, "pp_rank": 0, "dp_rank": None, "tp_size": ranks}
    file = pathlib.Path(reports) / f"report-tp{rank}-pp0-dp0.json"
    file.write_text(json.dumps(report))
if rank:
    time.sleep(600)
time.sleep(1)  # the other ranks report meanwhile
from configurator.demo.server import RecordedServer, _handler, recording
recorded = RecordedServer(recording("healthy"))
print(recorded.log.read_text(), flush=True)
def typed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text
given = {"launch_command": shlex.join(["python3", *words]), "api_key": None}
for at, word in enumerate(words):
    if word.startswith("--"):
        after = words[at + 1:at + 2]
        value = typed(after[0]) if after and not after[0].startswith("--") else True
        given[word[2:].replace("-", "_")] = value
given.pop("api_key")
if given.get("speculative_algorithm") == "NEXTN":
    given["speculative_algorithm"] = "EAGLE"
page = recorded.page
def patched(path):
    status, kind, body = page(path)
    if path.endswith("server_info") and status == 200:
        body = json.dumps({**json.loads(body), **given}).encode()
    return status, kind, body
recorded.page = patched
import http.server
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
Server((said("--host"), port), _handler(recorded)).serve_forever()
"""
REPORTS = [
    RECORDINGS / name / "replica-0" / "reports" / "probe-tp0-pp0-dp0.json"
    for name in ("healthy", "sabotaged")
]


def profile(port: int, extra: str = "", ranks: int = 2) -> str:
    """A deployment of ranks on hosts of their own, that must share the LM head with the draft."""
    return (
        "apiVersion: configurator/v1\nkind: Deployment\nname: ranks\nengine: {version: 0.5.23}\n"
        f"hardware: {{name: cpu, gpus: {ranks}}}\n"
        "model: {name: qwen3-8b, path: models/glm4moe-mtp-good}\n"
        f"topology: {{tensor: {ranks}}}\nserving: {{port: {port}}}\n"
        "optimizations:\n  lm-head-shared: {on_unproven: fail}\n"
        "  nextn-mtp: {draft: {same_checkpoint: true}}\n"
        "evidence: {require_report: true}\nstartup: {timeout_s: 60}\n" + extra
    )


def deployed(folder: Path, text: str) -> Deployment:
    """The deployment of a profile."""
    path = folder / "profile-ranks.yaml"
    path.write_text(text)
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """PATH with the stand-in as `python3`, and the real checker."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "python3").write_text(f"#!{sys.executable}\n{ENGINE}")
    (tools / "python3").chmod(0o755)
    return {
        "PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin",
        "STUB": str(folder),
        "STUB_REPORTS": ":".join(map(str, REPORTS)),
        "REAL_PYTHON": sys.executable,
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "CONFIGURATOR": f"{sys.executable} -m configurator",
        **more,
    }


def seen(folder: Path) -> dict[str, dict[str, Any]]:
    """What every process of the stand-in was given, by its name."""
    return {
        path.stem.removeprefix("seen-"): json.loads(path.read_text())
        for path in sorted(folder.glob("seen-*.json"))
    }


def is_root() -> bool:
    """Whether namespaces and daemons may be made."""
    return os.geteuid() == 0
