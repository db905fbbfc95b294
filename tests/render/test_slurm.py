"""The job with a stand-in for Slurm's commands: every step gets what every target starts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from render import ranks
from render.deployments import SHIPPED, shipped, surroundings
from render.generated import KEY, generated, started
from render.recording import OF_BASH, recorded, recorder

from configurator.deployment import Deployment, HostPlaceholder
from configurator.render import TARGETS, write
from configurator.render.launches import Folders, launches

# Steps run here, with the name of their node.
SRUN = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$STUB/srun"
for word in "$@"; do
  shift
  case $word in
    --nodelist=*) export SLURMD_NODENAME=${word#*=} ;;
    --output=*) output=${word#*=} ;;
    bash) exec bash "$@" >"$output" 2>&1 ;;
  esac
done
"""
SCONTROL = """#!/usr/bin/env bash
[[ $1 == show && $2 == hostnames ]] || exit 1
tr , '\\n' <<<"$3"
"""
# An engine answers once all engines have written down what they were given, and ends once the
# router has too.
BEFORE = """
written() { found=("$STUB"/seen-*.env); [[ -e ${found[0]} ]] && ((${#found[@]} >= $1)); }
if [[ $1 == -c ]]; then written "$STUB_ENGINES"; exit; fi
words=" $* "
port=${words##* --port }
"""
AFTER = """
for _ in {1..1200}; do ! written "$STUB_ALL" || break; /bin/sleep 0.05; done
exit 5
"""
SEEN = "$STUB/seen-$SLURMD_NODENAME-${port%% *}"
ADDRESS = re.compile(r"REPLICA\d+_HOST0_ADDR")
NODES = ("node-a", "node-b", "node-c", "node-d")


def submitted(
    deployment: Deployment, folder: Path, steps: dict[str, str] | None = None, /, **more: str
) -> subprocess.CompletedProcess[str]:
    """The job, run here as Slurm would run it on its first node, maybe with other steps."""
    folder.mkdir(exist_ok=True)
    out = folder / "out"
    write(TARGETS["slurm"](deployment), out)
    for name, text in (steps or {}).items():
        assert (out / name).exists()
        (out / name).write_text(text)
    tools = folder / "tools"
    recorder(tools, SEEN, BEFORE, AFTER)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return subprocess.run(
        ["bash", "job.sbatch"], cwd=out, env=given(deployment, folder) | more,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def given(deployment: Deployment, folder: Path) -> dict[str, str]:
    """What the job finds in its environment."""
    roles = [process.role for process in deployment.processes]
    return {
        "PATH": f"{folder}/tools:/usr/bin:/bin",
        "STUB": str(folder),
        "STUB_ENGINES": str(roles.count("engine")),
        "STUB_ALL": str(len(roles)),
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(folder / "out"),
        "SLURM_JOB_NODELIST": ",".join(NODES[: deployment.hosts]),
        "CONFIGURATOR_SKIP": "all",
    }


def arrives(deployment: Deployment, folder: Path) -> None:
    """Every rank and the router get exactly the words and variables of their launches."""
    keys = {name: KEY for name, value in surroundings(deployment).items() if value == KEY}
    # Nothing is proven by a stand-in, and the router starts once every replica is.
    more = {**keys, "CONFIGURATOR_CHECK": "skip"}
    done = submitted(deployment, folder, **more)
    out = folder / "out"
    for launch in launches(deployment, Folders(f"{out}/probe", f"{out}/run-7/reports")):
        seen = folder / f"seen-{NODES[launch.process.host]}-{launch.process.port}"
        assert Path(f"{seen}.env").exists(), done.stdout + done.stderr
        got = recorded(seen)
        wanted = started(launch, lambda word: NODES[_host(deployment, word)], lambda _: KEY)
        assert got.argv == wanted.argv
        of_the_job = {*given(deployment, folder), *more, "RUN_DIR", "SLURMD_NODENAME", *OF_BASH}
        own = {
            name: value
            for name, value in got.env.items()
            if name not in of_the_job and not ADDRESS.fullmatch(name)
        }
        assert own == wanted.env
    assert not list(folder.rglob("pwned"))


def _host(deployment: Deployment, word: HostPlaceholder) -> int:
    return next(
        process.host
        for process in deployment.processes
        if (process.replica, process.rank) == (word.replica, word.host)
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_every_rank_gets_what_every_target_starts(name: str, tmp_path: Path) -> None:
    arrives(shipped(name), tmp_path / "job")


def test_hostile_values_arrive(tmp_path: Path) -> None:
    for number, deployment in enumerate(generated(tmp_path)):
        arrives(deployment, tmp_path / f"job-{number}")


def text_of(name: str) -> str:
    files = TARGETS["slurm"](shipped(name))
    return next(file.text for file in files if file.path == "job.sbatch")


def test_the_job_asks_for_what_the_deployment_needs() -> None:
    text = text_of("muse-spark-open-gb300x8-tp8")
    for line in ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--exclusive", "--mem=0",
                 "--no-requeue", "--propagate=NONE"):  # fmt: skip
        assert f"\n#SBATCH {line}\n" in text
    assert "#SBATCH --time" not in text  # the site's
    assert "--kill-on-bad-exit=1" in text
    assert "export REPLICA0_HOST0_ADDR=${NODES[0]}" in text
    assert "--gpus-per-node=1\n" in text_of("ling-3.0-flash-spark")


# Rank 0 is proven or refuted after a while, and ends; the others die with it, or hang until told.
RANK = """
name=$(basename "$0" .sh) replica=${name%-host*}
if [[ $name == *-host0 ]]; then
  /bin/sleep "$(cat "$STUB/$replica-after")"
  if [[ $(cat "$STUB/$replica") == proven ]]; then
    mkdir -p "$RUN_DIR/proven" && : >"$RUN_DIR/proven/$name"
  else
    code=1
  fi
  : >"$STUB/$name-gone"
  [[ -z ${SLOW_END:-} ]] || /bin/sleep 2.5
  exit "${code:-0}"
fi
trap 'echo told >>"$STUB/$name-told"; exit 143' TERM
for _ in {1..300}; do
  [[ -n ${HANGS:-} || ! -e $STUB/$replica-host0-gone ]] || exit 137
  /bin/sleep 0.1
done
exit 9
"""


def two_by_two(folder: Path, verdicts: tuple[str, str], **more: str) -> tuple[int, str]:
    """The exit code of a job of two replicas over two hosts each, and what it said."""
    text = ranks.profile(15000, ranks=2)
    text = text.replace("gpus: 2}", "gpus: 4}").replace("tensor: 2}", "tensor: 2, replicas: 2}")
    deployment = ranks.deployed(folder, text)
    assert deployment.hosts == 4
    steps = {f"replica{replica}-host{rank}.sh": RANK for replica in (0, 1) for rank in (0, 1)}
    for replica, verdict in enumerate(verdicts):
        stub = folder / "job"
        stub.mkdir(exist_ok=True)
        (stub / f"replica{replica}").write_text(verdict)
        (stub / f"replica{replica}-after").write_text(str(1 + 4 * replica))
    done = submitted(deployment, stub, steps, **more)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("how", [{}, {"SLOW_END": "1"}, {"HANGS": "1"}])
def test_once_ends_with_zero_when_every_replica_over_hosts_is_proven(
    tmp_path: Path, how: dict[str, str]
) -> None:
    code, said = two_by_two(tmp_path, ("proven", "proven"), CONFIGURATOR_ONCE="1", **how)
    assert code == 0, said
    assert "replica0-host0 is proven" in said
    assert "replica1-host0 is proven" in said
    if how == {"HANGS": "1"}:
        for replica in (0, 1):
            told = tmp_path / "job" / f"replica{replica}-host1-told"
            assert told.read_text() == "told\n"  # once: twice would kill the engine


@pytest.mark.parametrize("verdicts", [("proven", "refuted"), ("refuted", "proven")])
def test_once_fails_when_one_replica_is_refuted(tmp_path: Path, verdicts: tuple[str, str]) -> None:
    code, said = two_by_two(tmp_path, verdicts, CONFIGURATOR_ONCE="1", HANGS="1")
    assert code == 1, said
    refuted = verdicts.index("refuted")
    assert f"replica{refuted}-host0 ended with exit code 1" in said
    assert f"replica{refuted}-host1 is let go" not in said


def test_a_rank_that_dies_after_the_proof_fails_a_job_that_serves(tmp_path: Path) -> None:
    code, said = two_by_two(tmp_path, ("proven", "proven"), SLOW_END="1")
    assert code == 137, said
    assert "replica0-host1 ended with exit code 137" in said


def test_a_proof_of_an_earlier_job_proves_nothing(tmp_path: Path) -> None:
    earlier = tmp_path / "run" / "proven"
    earlier.mkdir(parents=True)
    (earlier / "replica1-host0").write_text("")
    more = {"CONFIGURATOR_ONCE": "1", "RUN_DIR": str(tmp_path / "run"), "HANGS": "1"}
    code, said = two_by_two(tmp_path, ("proven", "refuted"), **more)
    assert code == 1, said
    assert "replica1-host1 is let go" not in said


def test_a_key_that_is_missing_is_said_before_any_step(tmp_path: Path) -> None:
    deployment = shipped("muse-spark-open-gb300x8")
    done = submitted(deployment, tmp_path / "job")
    assert done.returncode == 1
    assert "variable MUSE_API_KEY is empty" in done.stderr
    assert not (tmp_path / "job" / "srun").exists()


def test_it_must_be_submitted_from_its_folder_and_with_enough_nodes(tmp_path: Path) -> None:
    deployment = ranks.deployed(tmp_path, ranks.profile(15000))
    one = submitted(deployment, tmp_path / "one", SLURM_SUBMIT_DIR=os.fspath(tmp_path))
    assert "submit from the rendered folder" in one.stderr
    few = submitted(deployment, tmp_path / "few", SLURM_JOB_NODELIST="node-a")
    assert "the job has 1 nodes, and needs 2" in few.stderr
