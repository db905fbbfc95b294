"""From servers to an evidence directory, format 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .client import Client
from .host import host_facts
from .inputs import CollectError, empty_directory, existing, usable_url, why_no_key
from .logfile import copy_log
from .manifest import manifest_of
from .plan import MOST_TOGETHER, Plan
from .process import find_process, learn_secrets
from .profiling import profile
from .readiness import judge_answers, wait
from .redaction import redact_json
from .replica import Replica
from .reports import copy_reports
from .sending import send
from .tracefiles import copy_traces, given_traces
from .writing import write


def collect(
    targets: Mapping[int, str], out: str | os.PathLike[str], *, level: int = 1,
    passive: bool = False, logs: Mapping[int, Any] | None = None,
    reports: Mapping[int, Any] | None = None, pids: Mapping[int, int] | None = None,
    api_key: str | None = None, concurrency: int = 1, prompts: Sequence[str] | None = None,
    sampling: Mapping[str, Any] | None = None, timeout_s: float = 60.0, wait_s: float = 0.0,
    on_progress: Callable[[str], None] | None = None,
    references: Sequence[Mapping[str, Any]] = (),
    traces: Mapping[int, Sequence[Any]] | None = None, trace_dir: str | None = None,
    kept: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Write the evidence of every server of `targets` into `out` and return the manifest.

    Args:
        targets: replica index -> base URL.
        out: a directory that is empty or does not exist.
        level: 1 sends at most 3 short requests a replica; 2 as many as the interval of the
            acceptance length needs, at most 24, or where `concurrency` is above 1 at most 8 alone
            and then 16, or `concurrency`, together; 3 also has the engine's profiler record a few
            steps, of which it is off afterwards (`profiling.py`).
        passive: send no request that generates.
        logs: replica index -> its log file.
        reports: replica index -> directory of its in-engine reports.
        pids: replica index -> process id of the engine, for its environment and its death; the
            environment counts where the process, one that it came of or one that came of it
            listens at the URL.
        api_key: sent as a bearer token and redacted everywhere.
        concurrency: requests at a time on level 2, at most 256.
        prompts: texts of the profile's workload, instead of the built-in ones.
        sampling: sampling parameters of the profile; temperature 0 without.
        timeout_s: of every HTTP call.
        wait_s: how long to wait until a server is ready.
        on_progress: called with a line of text while waiting and sending.
        references: greedy requests of another run; at most 8 that were not sent anyhow are sent.
        traces: replica index -> trace files to keep; with one, level 3 records none.
        kept: variables of the engine whose values are secrets, and redacted everywhere.
        trace_dir: absolute folder that the engine writes its traces to, as it names it; without,
            that of its environment, or /tmp.

    Raises:
        CollectError: something given cannot be used. A dead server is evidence, not an error.
    """
    if level not in (1, 2, 3) or concurrency < 1 or timeout_s <= 0:
        raise CollectError(f"level {level}, concurrency {concurrency}, time-out {timeout_s:g} s: "
                           "level is 1 to 3, the others are positive")  # fmt: skip
    if api_key and (why := why_no_key(api_key)):
        raise CollectError(f"the API key cannot be used: {why}; give the key alone")
    if not targets:
        raise CollectError("no server to collect from; give --url http://HOST:PORT")
    plan = Plan(level, passive, concurrency, tuple(prompts or ()), sampling or {}, wait_s,
                on_progress or (lambda text: None), tuple(references))  # fmt: skip
    secrets: set[str] = {api_key} if api_key else set()
    root = Path(out)
    replicas = [
        Replica(
            index, Client(usable_url(url), api_key, timeout_s), root / f"replica-{index}", plan,
            existing((logs or {}).get(index), "log"),
            existing((reports or {}).get(index), "reports"), (pids or {}).get(index), secrets,
            trace_dir=trace_dir, traces=given_traces((traces or {}).get(index)),
            kept=frozenset(kept),
        )
        for index, url in sorted(targets.items())
    ]  # fmt: skip
    empty_directory(root)
    notes = []
    if plan.level > 1 and concurrency > MOST_TOGETHER:
        notes.append(f"{concurrency} requests at a time were wanted, {MOST_TOGETHER} were sent")
    for replica in replicas:
        record(replica)
    host = host_facts(targets.values(), [r.process for r in replicas if r.process is not None])
    manifest = redact_json(manifest_of(plan, replicas, notes, host), secrets)
    write(root / "manifest.json", manifest, secrets)
    return dict(manifest)


def record(replica: Replica) -> None:
    """Everything, in order; what fails is written down and does not stop the rest."""
    learn_secrets(replica)
    wait(replica)
    find_process(replica)
    if replica.reachable:
        replica.page("server_info_startup.json", "/server_info", "/get_server_info")
        replica.page("model_info.json", "/model_info", "/get_model_info")
        replica.page("metrics_startup.txt", "/metrics")
    if replica.ready and not replica.plan.passive:
        send(replica)
    if replica.ready:
        replica.page("server_info.json", "/server_info", "/get_server_info")
        replica.page("loads.json", "/v1/loads?include=all")
        replica.page("metrics.txt", "/metrics")
        judge_answers(replica)
    copy_traces(replica)
    if replica.plan.level == 3 and not replica.traces:
        # What was counted before is of requests that were kept.
        profile(replica)
    copy_reports(replica)
    copy_log(replica)
