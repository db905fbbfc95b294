"""Evidence from a directory: format 1 as the collector writes it, or a rig's recording."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, cast, get_args

from configurator.collector.redaction import redact_text
from configurator.errors import ConfiguratorError
from configurator.evidence import recording
from configurator.evidence.alike import why_alike
from configurator.evidence.files import exists, find, load, read_text
from configurator.evidence.host import host_of
from configurator.evidence.metrics import parse_metrics
from configurator.evidence.model import (
    Evidence,
    Exchange,
    Hooks,
    Json,
    Kind,
    Reference,
    Replica,
    Report,
    Sample,
)
from configurator.evidence.report_choice import choose
from configurator.evidence.report_start import is_drawn
from configurator.evidence.report_values import as_int
from configurator.evidence.reports import is_known, parse_hooks, parse_report, reports_in
from configurator.evidence.serverlog import of_another_start, parse_log, server_state
from configurator.evidence.trace import read_trace
from configurator.evidence.trace_model import Trace

FORMAT = 1


def read_evidence(directory: Path) -> Evidence:
    """Everything that was observed.

    Raises:
        ConfiguratorError: EVD001 (no evidence there), EVD002 (a file is broken), EVD003 (files
            that the manifest names are missing), EVD004 (a format that is not known).
    """
    if not directory.is_dir():
        raise ConfiguratorError.single(
            "EVD001", f"{directory} is not a directory", "give a directory that `check -o` wrote"
        )
    if exists(directory / "manifest.json"):
        return _format_1(directory)
    if exists(directory / "case.json"):
        return Evidence(str(directory), (_recorded(directory),))
    raise ConfiguratorError.single(
        "EVD001", f"{directory} has no manifest.json",
        "give a directory that `configurator check -o DIR` or the collector wrote",
    )  # fmt: skip


def _format_1(directory: Path) -> Evidence:
    manifest = load(directory / "manifest.json")
    known = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    replicas = manifest.get("replicas") if known else None
    if not isinstance(replicas, list) or not replicas:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise ConfiguratorError.single(
            "EVD004", f"{directory}/manifest.json has format {found!r}, or names no replica",
            f"this version reads format {FORMAT}; record the evidence again",
        )  # fmt: skip
    entries = _numbered(directory, replicas)
    missing = [
        f"replica-{entry.get('index')}/{name}"
        for entry in entries
        for name in _list(entry.get("files"))
        if not exists(directory / f"replica-{entry.get('index')}" / str(name))
    ]
    if missing:
        raise ConfiguratorError.single(
            "EVD003", f"{directory} lacks {', '.join(missing[:5])}, which its manifest names",
            "copy the whole directory, or record the evidence again",
        )  # fmt: skip
    host = host_of(manifest.get("host"))
    found = (_collected(directory, entry) for entry in entries)
    replicas_of = tuple(dataclasses.replace(replica, host=host) for replica in found)
    return Evidence(str(directory), replicas_of, manifest)


_MOST_REPLICAS = 10_000


def _numbered(directory: Path, replicas: list[Json]) -> list[dict[str, Any]]:
    """The replicas of a manifest; each has a number of its own, which names its folder."""
    entries = [entry for entry in replicas if isinstance(entry, dict)]
    seen: set[int] = set()
    for entry in entries:
        index = as_int(entry.get("index"))
        if index is None or not 0 <= index < _MOST_REPLICAS or index in seen:
            raise ConfiguratorError.single(
                "EVD004",
                f"{directory}/manifest.json gives a replica the index {entry.get('index')!r:.60}",
                f"each replica has a whole number of its own, from 0 to {_MOST_REPLICAS - 1}",
            )
        seen.add(index)
    if not entries:
        raise ConfiguratorError.single(
            "EVD004", f"{directory}/manifest.json names no replica", "record the evidence again"
        )
    return entries


def with_reference(evidence: Evidence, reference: Evidence) -> Evidence:
    """The evidence with what the reference run answered beside each replica.

    A replica is held against the one of its own number, or against the first.
    """
    others = {replica.index: replica for replica in reference.replicas}
    replicas = []
    for replica in evidence.replicas:
        other = others.get(replica.index, reference.replicas[0])
        alike = why_alike(evidence, replica, reference, other)
        spread = expert_parallel(other)
        kept = Reference(reference.directory, other.exchanges, model_of(other), alike, spread)
        replicas.append(dataclasses.replace(replica, reference=kept))
    return dataclasses.replace(evidence, replicas=tuple(replicas))


def greedy_requests(evidence: Evidence) -> list[dict[str, Any]]:
    """The requests of a run whose answers another run can be held against, each text once."""
    found: dict[str, dict[str, Any]] = {}
    for replica in evidence.replicas:
        for exchange in replica.exchanges:
            request = exchange.request
            if exchange.status == 200 and isinstance(request, dict) and is_greedy(request):
                found.setdefault(repr(request.get("text", request.get("input_ids"))), request)
    return list(found.values())


def is_greedy(request: dict[str, Any]) -> bool:
    """The request leaves the engine no choice of tokens."""
    params = request.get("sampling_params")
    return isinstance(params, dict) and params.get("temperature") == 0


def expert_parallel(replica: Replica) -> bool:
    """Its experts are spread over ranks."""
    info = replica.server_info or replica.server_info_startup or {}
    return (as_int(info.get("ep_size")) or 1) > 1


def model_of(replica: Replica) -> str:
    """Last part of the path of the model that a server runs; empty: not known."""
    info = replica.server_info or replica.server_info_startup or {}
    path = info.get("model_path") or (replica.model_info or {}).get("model_path")
    return str(path).rstrip("/").rpartition("/")[2] if path else ""


def _list(data: Json) -> list[Json]:
    return data if isinstance(data, list) else []


def _collected(directory: Path, entry: dict[str, Any]) -> Replica:
    index = entry.get("index")
    folder = directory / f"replica-{index}"
    environment = entry.get("environment")
    exchanges = tuple(
        _exchange(path.name, load(path)) for path in find(folder / "requests", "*.json")
    )
    return _replica(
        folder,
        index=index if isinstance(index, int) else 0,
        log=read_text(folder / "server.log"),
        ready=entry.get("ready") is True,
        error=str(entry.get("error") or ""),
        command="",
        environment=environment if isinstance(environment, dict) else None,
        exchanges=exchanges,
        reports=find(folder / "reports", "*.json"),
    )


def _exchange(name: str, data: Json) -> Exchange:
    held = data if isinstance(data, dict) else {}
    status, kind, together = held.get("status"), held.get("kind"), held.get("together")
    return Exchange(
        name=f"requests/{name}",
        path=str(held.get("path", "")),
        status=status if isinstance(status, int) else 0,
        request=held.get("request"),
        response=held.get("response"),
        kind=cast("Kind", kind) if kind in get_args(Kind) else "unknown",
        together=together if isinstance(together, int) and together > 0 else None,
    )


def _recorded(directory: Path) -> Replica:
    case = recording.case_of(directory)
    return _replica(
        directory,
        index=0,
        log=recording.log_of(directory),
        ready=recording.ready_of(case),
        error="the rig saw no answer",
        command=str(case.get("cmd") or ""),
        environment=recording.environment_of(case),
        exchanges=recording.exchanges_of(directory),
        reports=recording.report_paths(directory),
    )


def _replica(
    folder: Path,
    *,
    index: int,
    log: str | None,
    ready: bool,
    error: str,
    command: str,
    environment: dict[str, Any] | None,
    exchanges: tuple[Exchange, ...],
    reports: list[Path],
) -> Replica:
    info = _mapping(load(folder / "server_info.json"))
    startup = _mapping(load(folder / "server_info_startup.json"))
    lines = parse_log(log) if log is not None else None
    answered = info is not None or startup is not None
    command = command or str((info or startup or {}).get("launch_command") or "")
    requested = requested_of(command)
    kept, set_aside = _reports(folder, reports, info or startup, requested)
    foreign = of_another_start(lines, info or startup) if lines is not None else ""
    if foreign:
        # Logs outlive a server as reports do, and an old one would prove what no longer runs.
        lines, set_aside = None, (*set_aside, redact_text(foreign))
    return Replica(
        index=index,
        state=server_state(
            lines,
            answered=answered,
            ready=ready,
            error=error,
            statuses=[exchange.status for exchange in exchanges],
        ),
        command=redact_text(command),
        requested=requested,
        environment=(
            {str(k): redact_text(str(v)) for k, v in environment.items()}
            if environment is not None
            else None
        ),
        server_info=info,
        server_info_startup=startup,
        model_info=_mapping(load(folder / "model_info.json")),
        loads=_mapping(load(folder / "loads.json")),
        metrics=_metrics(folder / "metrics.txt"),
        metrics_startup=_metrics(folder / "metrics_startup.txt"),
        log=lines,
        exchanges=exchanges,
        reports=kept,
        set_aside=set_aside,
        hooks=_hooks(folder, reports),
        traces=_traces(folder),
    )


def _mapping(data: Json) -> dict[str, Any] | None:
    return data if isinstance(data, dict) else None


def _metrics(path: Path) -> tuple[Sample, ...] | None:
    text = read_text(path)
    return None if text is None else parse_metrics(text)


def _reports(
    folder: Path, paths: list[Path], info: dict[str, Any] | None, requested: dict[str, Any]
) -> tuple[tuple[Report, ...], tuple[str, ...]]:
    """The reports that count, and why others do not."""
    found, later = [], []
    for path in paths:
        name, data = str(path.relative_to(folder)), load(path)
        report = parse_report(name, data)
        if report is not None:
            found.append(report)
        elif isinstance(data, dict) and not is_known(data.get("schema")):
            later.append(f"{name} does not count: its schema is {str(data['schema'])[:60]}")
    asked = requested.get("model_path") or requested.get("model")
    model = (info or {}).get("model_path") or asked
    served = model if isinstance(model, str) else ""
    live, drawn = reports_in(info), is_drawn(requested)
    kept, why = choose(found, live, info, served, drawn=drawn)
    return kept, (*later, *why)


def _hooks(folder: Path, paths: list[Path]) -> tuple[Hooks, ...]:
    found = (parse_hooks(str(path.relative_to(folder)), load(path)) for path in paths)
    return tuple(hooks for hooks in found if hooks is not None)


def _traces(folder: Path) -> tuple[Trace, ...]:
    patterns = ("trace/*.json", "trace/*.json.gz", "*.trace.json", "*.trace.json.gz")
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return tuple(read_trace(path) for path in paths)


def requested_of(command: str) -> dict[str, Any]:
    """Arguments of a launch command by their name with underscores.

    `--name=value`, `--name value`, several values and bare flags; a name is kept as written, so
    a prefix that the engine's parser accepts (`--tp`) stays one. Of a repeated argument the last
    counts, as for the engine.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: dict[str, Any] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        values = [value] if equals else []
        while index < len(words) and not equals and not words[index].startswith("--"):
            values.append(words[index])
            index += 1
        found[name.replace("-", "_")] = (
            True if not values else values[0] if len(values) == 1 else values
        )
    return found
