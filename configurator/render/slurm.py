"""The slurm target: one job a deployment, a step for every process, the verdict as exit code.

Slurm says where the hosts are; every step runs the rank's script of the bash target on its node.
"""

from __future__ import annotations

from typing import Any

from configurator.deployment import Deployment, Process
from configurator.render.bash import (
    process_context,
    script_name,
    shared_context,
    told_addresses,
)
from configurator.render.common import probe_files, profile_file, templates
from configurator.render.files import RenderedFile
from configurator.render.launches import secrets_of
from configurator.render.prerequisites import CONFIGURATOR, Place, before_start

JOB = "job.sbatch"


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """The job, the script of every process, the profile they check, and how to submit it."""
    environment = templates()
    shared = {**shared_context(deployment), **_job_context(deployment)}
    text = environment.get_template("job.sbatch.j2").render(**shared)
    files = [RenderedFile(JOB, text, executable=True)]
    for process in deployment.processes:
        of_role = {"engine": "slurm.sh.j2", "router": "router.sh.j2"}[process.role]
        template = environment.get_template(of_role)
        script = template.render(**{**shared, **process_context(deployment, process)})
        files.append(RenderedFile(script_name(process), script, executable=True))
    files.append(profile_file(deployment))
    text = environment.get_template("slurm_start.md.j2").render(**shared)
    files.append(RenderedFile("START.md", text))
    return (*files, *probe_files(deployment))


def _job_context(deployment: Deployment) -> dict[str, Any]:
    on_gpus = deployment.hardware.product is not None
    engines = [process for process in deployment.processes if process.role == "engine"]
    place = Place()
    return {
        "before": [*before_start(deployment, place), CONFIGURATOR],
        "job": deployment.name,
        "gpus_per_node": _gpus_per_node(deployment) if on_gpus else 0,
        "steps": [(step_name(process), process) for process in engines],
        "router": next((p for p in deployment.processes if p.role == "router"), None),
        "addresses_by_host": _addresses(deployment),
        "key_variables": [k.reference.env for k in secrets_of(deployment) if k.reference.env],
    }


def step_name(process: Process) -> str:
    """The name of the step and of its log, as of the script."""
    return script_name(process).removesuffix(".sh")


def _gpus_per_node(deployment: Deployment) -> int:
    """All of a host's, where a process takes them all."""
    engines = [process for process in deployment.processes if process.role == "engine"]
    used = max((max(process.gpus, default=-1) + 1 for process in engines), default=0)
    return used or min(deployment.hardware.gpus_per_host, deployment.gpus_per_replica)


def _addresses(deployment: Deployment) -> list[tuple[str, int]]:
    """Every variable with the address of a host, and the host of the job that it means."""
    places = {
        f"REPLICA{p.replica}_HOST{p.rank}_ADDR": p.host
        for p in deployment.processes
        if p.role == "engine"
    }
    told = {a.variable for process in deployment.processes for a in told_addresses(process)}
    return [(name, host) for name, host in places.items() if name in told]
