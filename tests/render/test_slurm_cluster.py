"""The job under a real Slurm of two nodes: ranks start, verdicts are gathered, an end ends all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from render import ranks
from render.cluster import Cluster, cluster
from render.deployments import every, shipped
from stand_in import free_port, wait_for, wait_until_gone
from tools import need, need_root

from configurator.render import TARGETS, write


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    for program in ("munged", "slurmctld", "slurmd", "sbatch"):
        need(program)
    need_root("daemons of Slurm")
    with cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def test_sbatch_would_start_every_job_on_the_nodes_that_it_needs(
    slurm: Cluster, tmp_path: Path
) -> None:
    """All that is shipped and all that is generated; `--test-only` plans a job and runs nothing."""
    for number, deployment in enumerate(every(tmp_path)):
        out = tmp_path / f"out-{number}"
        write(TARGETS["slurm"](deployment), out)
        words = ("sbatch", "--test-only", "--partition=large", "job.sbatch")
        done = slurm.run(*words, cwd=out, env=ranks.environment(out))
        assert done.returncode == 0, f"{deployment.name}: {done.stderr}"
        assert f"on nodes {NODES_OF[deployment.hosts]} in partition large" in done.stderr


NODES_OF = {1: "large0", 2: "large[0-1]", 3: "large[0-2]", 4: "large[0-3]"}


def test_a_job_that_cannot_start_anywhere_is_refused(slurm: Cluster, tmp_path: Path) -> None:
    write(TARGETS["slurm"](shipped("muse-spark-open-gb300x8-tp8")), tmp_path)
    env = ranks.environment(tmp_path)
    good = ("sbatch", "--test-only", "--partition=large", "job.sbatch")
    assert slurm.run(*good, cwd=tmp_path, env=env).returncode == 0
    done = slurm.run(*good[:3], "--gpus-per-node=9", "job.sbatch", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert "Requested node configuration is not available" in done.stderr


class Job:
    """The rendered job of two ranks on two nodes."""

    def __init__(self, slurm: Cluster, folder: Path, **more: str) -> None:
        self.slurm, self.folder, self.out = slurm, folder, folder / "out"
        made = ranks.deployed(folder, ranks.profile(free_port()))
        write(TARGETS["slurm"](made), self.out)
        hosts = "n0=127.0.0.1,n1=127.0.0.1"
        self.env = ranks.environment(folder, STUB_HOSTS=hosts, **more)

    def submit(self, *options: str) -> int:
        """The exit code of `sbatch`: with --wait the job's."""
        words = ("sbatch", "--parsable", *options, "job.sbatch")
        done = self.slurm.run(*words, cwd=self.out, env=self.env)
        self.number = done.stdout.strip()
        assert self.number, done.stderr + self.slurm.logs()
        return done.returncode

    @property
    def printed(self) -> str:
        """What the job and its steps said."""
        files = [*self.out.glob("*.out"), *self.out.glob("run-*/*.out")]
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(files))

    def gone(self) -> bool:
        return all(wait_until_gone(one["pid"]) for one in ranks.seen(self.folder).values())


def test_every_rank_starts_and_the_exit_code_is_the_verdict(slurm: Cluster, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, CONFIGURATOR_ONCE="1")
    assert job.submit("--wait") == 0, job.printed + slurm.logs()
    found = ranks.seen(tmp_path)
    nodes = {name.rpartition("-")[2]: one["argv"] for name, one in found.items()}
    assert set(nodes) == {"n0", "n1"}
    for node, rank in (("n0", "0"), ("n1", "1")):
        argv = nodes[node]
        assert argv[argv.index("--node-rank") + 1] == rank
        assert argv[argv.index("--dist-init-addr") + 1] == "n0:20000"
    assert "PROVEN         lm-head-shared" in job.printed
    assert "replica0-host0 is proven" in job.printed
    assert job.gone()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"STUB_BAD": "1"}, ("REFUTED lm-head-shared", "rank 1")),
        ({"STUB_SILENT": "1"}, ("INCONCLUSIVE lm-head-shared", "rank 1 left no in-engine")),
    ],
)
def test_one_rank_that_is_not_as_wished_fails_the_job(
    slurm: Cluster, tmp_path: Path, how: dict[str, str], said: tuple[str, ...]
) -> None:
    job = Job(slurm, tmp_path, **how)
    assert job.submit("--wait") == 1, job.printed + slurm.logs()
    for text in said:
        assert text in " ".join(job.printed.split())
    assert job.gone()


def test_a_rank_that_dies_ends_the_job(slurm: Cluster, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path, STUB_DIES="1")
    assert job.submit("--wait") == 7, job.printed + slurm.logs()
    assert "replica0-host1 ended with exit code 7" in job.printed
    assert job.gone()


def test_scancel_ends_every_rank(slurm: Cluster, tmp_path: Path) -> None:
    job = Job(slurm, tmp_path)
    job.submit()
    wait_for(job.out / f"run-{job.number}" / "proven" / "replica0-host0")
    assert len(ranks.seen(tmp_path)) == 2
    slurm.run("scancel", job.number, cwd=job.out, env=job.env)
    assert job.gone()
    deadline = time.monotonic() + 20
    while "stopping the engine" not in job.printed and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "stopping the engine" in job.printed
