"""A Slurm on this machine: its own munge, controller and node daemons.

Jobs run on two small nodes, in the partition `all`. Those of the partition `large` are as large as
any deployment asks for, with GPUs that are empty files: nothing is run there, it is asked whether
it could be.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stand_in import free_port

NODES = ("n0", "n1")
LARGE = ("large0", "large1", "large2", "large3")
GPUS = 8
# A job that finds its nodes still busy with the end of another is looked at again soon, not only
# after the 30 s and 60 s of the defaults.
_CONF = """
ClusterName=stub
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=2,bf_interval=2
GresTypes=gpu
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
{nodes}
PartitionName=large Nodes={large} MaxTime=INFINITE State=UP
PartitionName=all Nodes={small} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running Slurm."""

    folder: Path

    def run(
        self, *words: str, cwd: Path, env: dict[str, str], limit_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """A command of Slurm."""
        return subprocess.run(
            words, cwd=cwd, env=env | self.environment, capture_output=True, text=True,
            timeout=limit_s, check=False,
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """What tells commands which cluster is meant."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def logs(self) -> str:
        """What the daemons say, for a test that fails."""
        ends = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")]
        return "\n--\n".join(ends)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster for as long as the context lasts; needs root."""
    folder.chmod(0o755)
    (folder / "state").mkdir()
    nodes = [_node(name, "CPUs=2") for name in NODES]
    nodes += [_node(name, f"CPUs=64 RealMemory=1000000 Gres=gpu:{GPUS}") for name in LARGE]
    text = _CONF.format(
        folder=folder, host=socket.gethostname(), controller=free_port(), nodes="\n".join(nodes),
        small=",".join(NODES), large=",".join(LARGE),
    )  # fmt: skip
    (folder / "slurm.conf").write_text(text)
    for number in range(GPUS):
        (folder / f"gpu{number}").write_text("")
    (folder / "gres.conf").write_text(
        f"NodeName={','.join(LARGE)} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n"
    )
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    with contextlib.ExitStack() as running:
        for command in _daemons(folder):
            running.enter_context(_daemon(command, folder))
        found = Cluster(folder)
        _wait(found)
        yield found


def _node(name: str, size: str) -> str:
    return (
        f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
        f"Port={free_port()} {size} State=UNKNOWN"
    )


def _daemons(folder: Path) -> Iterator[list[str]]:
    yield [
        "munged", "-F", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
        f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munged.log",
        f"--seed-file={folder}/munge.seed", "--force",
    ]  # fmt: skip
    conf = str(folder / "slurm.conf")
    yield ["slurmctld", "-D", "-c", "-f", conf]
    for name in (*NODES, *LARGE):
        yield ["slurmd", "-D", "-N", name, "-f", conf]


@contextlib.contextmanager
def _daemon(command: list[str], folder: Path) -> Iterator[None]:
    with (folder / f"{command[0]}-output.log").open("a") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder,
            start_new_session=True, env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
        )  # fmt: skip
        if command[0] == "munged":
            deadline = time.monotonic() + 20
            while not (folder / "munge.socket").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def _wait(found: Cluster) -> None:
    """Until every node is idle."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        done = found.run("sinfo", "-h", "-N", "-o", "%T", cwd=found.folder, env=env)
        if done.stdout.split() == ["idle"] * len((*NODES, *LARGE)):
            return
        time.sleep(0.3)
    raise AssertionError(f"the nodes do not become idle: {found.logs()}")
