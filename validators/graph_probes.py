"""The probe of CUDA graphs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from configurator import (
    Answer,
    Check,
    ModelReport,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    as_int,
    as_ints,
    decode_passes,
    inconclusive,
    on_ranks,
    probe,
    proven,
    ranks_in_prefix,
    refuted,
    traced_steps,
)

_FEW = 0.05
"""Share of eager decode passes that may be left, of batches that were never captured; and share of
graph passes that is no use of them."""
_CAPTURE = re.compile(
    r"Capture (target verify|target decode|draft decode|draft extend) (?:CUDA|CPU)? ?graph "
    r"(begin|end)\b(?:.*\bbs=\[([\d, ]*)\])?",
    re.IGNORECASE,
)
_DECODE = re.compile(
    r"Decode batch.*#running-req: (\d{1,9})\b.*\b(?:cuda|cpu) graph: (True|False)", re.IGNORECASE
)


@probe("decode-cuda-graphs", takes="BS,...", proof_rung="captured")
def decode_cuda_graphs(check: Check) -> Outcome:
    """Decode steps (with speculation: target verify steps) replay CUDA graphs.

    Proven: the counter of passes grew for graphs and not, or hardly, for eager decoding
    (executed); or, without metrics, every decode line of the log says so (executed) or every wished
    batch size was captured (captured).

    With wished sizes, and with the profile's concurrency, each of them must also be captured, or
    a decode line of that size must say that a graph was replayed: passes of another size show
    nothing of it. The concurrency may be padded to the next larger captured size.

    A trace shows it of the batch sizes of its steps: a graph ran at least half of the kernels of
    every one, or each kernel was launched by itself (executed).

    Refuted: all or nearly all counted passes were eager, or all of one rank; a wished batch size
    was not captured by every rank; the decode lines, or the steps of a trace, of a wished batch
    size or of the profile's concurrency say that it ran eager; or the engine resolved decode
    graphs to disabled.

    The engine counts and logs passes on one rank of a tensor parallel group. That rank stands for
    the others where what they captured is known.

    The sizes are those that every rank captured; the batch sizes that were to be captured prove
    nothing, and neither does a report that does not show its table of graphs.

    Open: both kinds of passes were counted, or neither metrics nor captured sizes are known; a
    wished size of which nothing is known; graphs that replay although they are disabled. The
    gauge `is_cuda_graph` may stay 0 while graphs replay and is not used. Fewer launches a step do
    not mean fewer kernels. A draft whose extend step was not captured runs eager; the summary
    says so.
    """
    replica = check.replica
    wished = [int(part) for part in (check.expectation.value or "").split(",") if part.strip()]
    table = _table(replica)
    sizes, observations = table.sizes or set(), list(table.observations)
    passes = decode_passes(replica)
    observations += passes.observations() if passes is not None else ()
    note = _eager_draft(replica)
    missing = [size for size in wished if size not in sizes]
    if table.sizes is not None and (missing or table.is_empty):
        which = f" for batch size {', '.join(map(str, missing))}" if missing else ""
        return refuted(
            Rung.CAPTURED,
            f"no graph was captured{which}{table.where}; captured: {_listed(sizes) or 'none'}",
            *observations, remedy=f"set --cuda-graph-bs-decode {' '.join(map(str, wished)) or 1}",
        )  # fmt: skip
    traced = list(_traced(replica))
    lines = [*_decode_lines(replica), *traced]
    observations += _few_lines(replica, lines)
    eager = _eager_where_needed(check, wished, lines)
    if eager:
        return refuted(
            Rung.EXECUTED, f"decode steps of batch size {_listed(eager)} ran eager"
            f"{_shown_by(seen for seen, size, _ in traced if size in eager)}",
            *[seen for seen, size, _ in lines if size in eager][:3], *observations,
            remedy=f"capture it: --cuda-graph-bs-decode {' '.join(map(str, sorted(eager)))}",
        )  # fmt: skip
    if passes is not None and passes.eager_ranks:
        return refuted(
            Rung.EXECUTED,
            f"all decode passes of {passes.eager_ranks} ran eager, and others replayed graphs",
            *observations, remedy="capture the same batch sizes on every rank",
        )  # fmt: skip
    if passes is not None and sum(passes.modes.values()) > 0:
        outcome = _of_passes(passes.modes, observations, sizes, note, _together(replica))
    else:
        outcome = _without_metrics(replica, lines, table, observations, note)
    return _for_every_size(outcome, check, wished, table, lines)


@dataclass(frozen=True, slots=True)
class _Table:
    """What is known of the captured batch sizes."""

    sizes: set[int] | None
    """Sizes that every source and every rank has; None: no source shows any."""
    observations: list[Observation]
    where: str
    """` on rank 1` where some ranks captured nothing; empty otherwise."""
    is_empty: bool
    """A rank captured nothing."""
    unknown: str
    """Ranks that do not tell while others do, in words; empty: none."""


def _table(replica: Replica) -> _Table:
    """The sizes that all have: a rank without a graph runs eager and holds up the others."""
    said, ranks = list(_captured(replica)), list(_of_reports(replica))
    writers = _writers(replica)
    logged: dict[Any, set[int]] = {}
    for seen, sizes in said:
        if seen.source == "log":
            # One rank captures kind after kind; what another captured is not its own.
            logged.setdefault(writers.get(seen.locator), set()).update(sizes)
    groups = [set(sizes) for seen, sizes in said if seen.source != "log"]
    groups += logged.values()
    groups += [set(sizes) for _, _, sizes in ranks if sizes is not None]
    reports = [report for report, _, _ in ranks]
    empty = [report for report, _, sizes in ranks if sizes == []]
    silent = [report for report, _, sizes in ranks if sizes is None]
    known = any(sizes is not None for _, _, sizes in ranks)
    return _Table(
        set.intersection(*groups) if groups else None,
        [seen for seen, _ in said] + [seen for _, seen, _ in ranks],
        on_ranks(empty, reports) if empty else "",
        bool(empty),
        f"the part graphs is not known{on_ranks(silent, reports)}" if silent and known else "",
    )


_Line = tuple[Observation, int, bool]
"""A decode line: the observation, the running requests, whether a graph was replayed."""


def _eager_where_needed(check: Check, wished: list[int], lines: list[_Line]) -> set[int]:
    """Batch sizes that must replay graphs, and of which every decode line says that none was."""
    needed = set(wished)
    if check.deployment is not None:
        needed.add(check.deployment.profile.workload.concurrency)
    replayed = {size for _, size, graph in lines if graph}
    return ({size for _, size, _ in lines} - replayed) & needed


def _for_every_size(
    outcome: Outcome, check: Check, wished: list[int], table: _Table, lines: list[_Line]
) -> Outcome:
    """A proof only where graphs are enabled, and where every size that is needed has one."""
    if outcome.answer is not Answer.PROVEN:
        return outcome
    off = _disabled(check.replica)
    if off is not None:
        text = f"/server_info says {off.subject} {off.value}, but {outcome.summary}"
        return inconclusive(
            outcome.rung, text, off, *outcome.observations, conflicts=(text,),
            remedy="collect /server_info, /metrics and the log of the same start",
        )  # fmt: skip
    eager = {size for _, size, graph in lines if not graph}
    known = {size for _, size, graph in lines if graph} - eager
    captured = set() if table.unknown else table.sizes or set()
    open_sizes = set(wished) - captured - known
    most = _concurrency(check)
    if most is not None and most not in known and not _is_covered(check.replica, most, captured):
        open_sizes.add(most)
    if not open_sizes:
        return outcome
    text = f"{outcome.summary}; not known for batch size {_listed(open_sizes)}"
    return inconclusive(
        outcome.rung, f"{text}{f', {table.unknown}' if table.unknown else ''}",
        *outcome.observations,
        remedy="keep the server's log from its start or the in-engine report, which list the "
        "captured sizes, and capture what is missing: --cuda-graph-bs-decode",
    )  # fmt: skip


def _concurrency(check: Check) -> int | None:
    """Requests of the profile that run together on one data parallel rank; None: no profile."""
    if check.deployment is None:
        return None
    profile = check.deployment.profile
    together = math.ceil(profile.workload.concurrency / profile.topology.data)
    most = as_int(_info(check.replica).get("max_running_requests")) or together
    return max(1, min(together, most))


def _is_covered(replica: Replica, size: int, captured: set[int]) -> bool:
    """The size is captured, or padded to the next larger one that is."""
    if size in captured:
        return True
    is_padded = _info(replica).get("disable_cuda_graph_padding") is not True
    return is_padded and size < max(captured, default=0)


def _info(replica: Replica) -> dict[str, Any]:
    return replica.server_info or replica.server_info_startup or {}


def _without_metrics(
    replica: Replica, lines: list[_Line], table: _Table, observations: list[Observation],
    note: str,
) -> Outcome:  # fmt: skip
    sizes = table.sizes or set()
    off = _disabled(replica)
    if off is not None and not any(graph for _, _, graph in lines):
        return refuted(
            Rung.RESOLVED, f"the engine resolved {off.subject} to {off.value}", off, *observations,
            remedy="remove the argument that switches decode graphs off",
        )  # fmt: skip
    if lines:
        return _of_lines(lines, observations, sizes, note)
    if sizes and table.unknown:
        text = f"graphs are captured for batch sizes {_listed(sizes)}, but {table.unknown}"
        return inconclusive(
            Rung.CAPTURED, text, *observations, remedy="start the server with --enable-metrics"
        )
    if sizes:
        text = f"graphs are captured for batch sizes {_listed(sizes)}{note}"
        return proven(Rung.CAPTURED, f"{text}; no metrics show that they run", *observations)
    return inconclusive(
        None, "neither metrics nor captured batch sizes are known", *observations,
        remedy="start the server with --enable-metrics and keep its log",
    )  # fmt: skip


def _together(replica: Replica) -> int:
    """How many requests the collection kept running at a time; 1 when it is not known."""
    answered = (e.together or 1 for e in replica.exchanges if e.status < 400)
    return max(answered, default=1)


def _of_passes(
    passes: dict[str, float],
    observations: list[Observation],
    sizes: set[int],
    note: str,
    together: int,
) -> Outcome:
    graph, eager = passes["decode_cuda_graph"], passes["decode_none"]
    share = eager / (graph + eager)
    sized = f", captured for batch sizes {_listed(sizes)}" if sizes else ""
    if graph and share < _FEW:
        few = f", {eager:.0f} eager" if eager else ", none eager"
        text = f"{graph:.0f} decode passes replayed graphs{few}{sized}{note}"
        return proven(Rung.EXECUTED, text, *observations)
    remedy = "remove --disable-cuda-graph, or capture the batch sizes that occur"
    if share > 1 - _FEW:
        part = f"{eager:.0f} of {graph + eager:.0f}" if graph else f"all {eager:.0f}"
        text = f"{part} decode passes ran eager{sized if graph else ''}"
        return refuted(Rung.EXECUTED, text, *observations, remedy=remedy)
    text = f"{share:.0%} of {graph + eager:.0f} decode passes ran eager{sized}{note}"
    if sizes and together > max(sizes):
        text += f"; {together} requests ran at a time, and graphs end at {max(sizes)}"
        remedy = f"capture it: --cuda-graph-max-bs-decode {together}"
        return refuted(Rung.EXECUTED, text, *observations, remedy=remedy)
    return inconclusive(Rung.EXECUTED, text, *observations, remedy=remedy)


def _of_lines(
    lines: list[_Line], observations: list[Observation], sizes: set[int],
    note: str,
) -> Outcome:  # fmt: skip
    """Without metrics: what the decode lines of the log and the steps of a trace say."""
    eager = {size for _, size, graph in lines if not graph}
    sized = f", captured for batch sizes {_listed(sizes)}" if sizes else ""
    if not eager:
        text = _in_words(lines, "a graph was replayed") + sized + note
        return proven(Rung.EXECUTED, text, *observations)
    remedy = "remove --disable-cuda-graph, or capture the batch sizes that occur"
    if not any(graph for _, _, graph in lines):
        text = _in_words(lines, "the steps ran eager")
        return refuted(Rung.EXECUTED, text, *observations, remedy=remedy)
    text = f"steps of batch size {_listed(eager)} ran eager, others replayed a graph{sized}{note}"
    return inconclusive(Rung.EXECUTED, text, *observations, remedy=remedy)


def _decode_lines(replica: Replica) -> Iterator[_Line]:
    """Decode lines of the log: the running requests, and whether a graph was replayed."""
    for line, found in replica.said(_DECODE):
        graph = found[2].lower() == "true"
        text = f"{found[1]} requests, graph: {graph}"
        locator = f"server.log:{line.number}"
        yield (
            Observation("log", "decode batch", text, Rung.EXECUTED, locator),
            int(found[1]),
            graph,
        )


def _traced(replica: Replica) -> Iterator[_Line]:
    """Steps of traces: their batch size, and whether a graph ran their kernels."""
    for steps in traced_steps(replica):
        yield (
            Observation("trace", "decode steps", str(steps), Rung.EXECUTED, steps.trace.file),
            steps.size,
            steps.replayed,
        )


def _in_words(lines: list[_Line], fact: str) -> str:
    """What all lines of the log say, and every kind of step of a trace."""
    logged = sum(seen.source == "log" for seen, _, _ in lines)
    words = [f"all {logged} decode lines say that {fact}"] if logged else []
    words += [str(seen.value) for seen, _, _ in lines if seen.source == "trace"]
    return "; ".join(words)


def _shown_by(traced: Iterable[Observation]) -> str:
    """What the first step of a trace says, in brackets; empty: none says anything."""
    return next((f" ({seen.value})" for seen in traced), "")


def _few_lines(replica: Replica, lines: list[_Line]) -> list[Observation]:
    """The first three lines, and the first of every rank that wrote one."""
    writers = _writers(replica)
    firsts = {writers.get(seen.locator): seen for seen, _, _ in reversed(lines)}
    shown = [seen for seen, _, _ in lines][:3]
    return shown + [seen for seen in firsts.values() if seen not in shown]


def _writers(replica: Replica) -> dict[str, Any]:
    """The ranks that the lines of the log are prefixed with, by the place of the line."""
    return {f"server.log:{line.number}": ranks_in_prefix(line) for line in replica.log or ()}


def _disabled(replica: Replica) -> Observation | None:
    """The resolved field that switches decode graphs off; None when none does."""
    info = _info(replica)
    config = info.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, dict) else None
    if isinstance(decode, dict) and decode.get("backend") == "disabled":
        pointer = "server_info.json#/cuda_graph_config/decode/backend"
        subject = "cuda_graph_config.decode.backend"
        return Observation("server_info", subject, "disabled", Rung.RESOLVED, pointer)
    for field in ("disable_cuda_graph", "disable_decode_cuda_graph"):
        if info.get(field) is True:
            return Observation(
                "server_info", field, True, Rung.RESOLVED, f"server_info.json#/{field}"
            )
    return None


def _of_reports(replica: Replica) -> Iterator[tuple[Report, Observation, list[int] | None]]:
    """The sizes that each rank captured; None where its report does not tell."""
    reports = [r for r in replica.reports if r.target is not None and r.stage == "ready"]
    targets = [report.target for report in reports if report.target is not None]
    # An engine that shows the graphs of one rank shows those of all: null is then none at all.
    shows = any(target.graphs.get("decode") for target in targets)
    for report, target in zip(reports, targets, strict=True):
        decode = target.graphs.get("decode")
        sizes = _sizes_of(target)
        if decode is None and not sizes and not shows:
            continue
        shown = "not known" if sizes is None else sizes
        text = f"to be captured: {list(decode.wanted)}" if decode is not None else ""
        rung = Rung.RESOLVED if sizes is None else Rung.CAPTURED
        yield (
            report,
            Observation(
                "report", "captured sizes", shown, rung, report.file, text, rank=report.rank
            ),
            sizes,
        )


def _sizes_of(target: ModelReport) -> list[int] | None:
    """Batch sizes in the table of graphs; None where it is not shown or counts something else."""
    decode = target.graphs.get("decode")
    if decode is None:
        sizes = target.graph_batch_sizes
        return None if sizes is None else list(sizes)
    if decode.captured is None:
        return None
    # With ragged verification the table counts tokens, and nothing of it is a batch size.
    if decode.wanted and not set(decode.captured) <= set(decode.wanted):
        return None
    return list(decode.captured)


def _captured(replica: Replica) -> Iterator[tuple[Observation, list[int]]]:
    """Batch sizes captured for decode or verify steps, as /server_info and the log say."""
    info = _info(replica)
    states = info.get("internal_states")
    for index, state in enumerate(states if isinstance(states, list) else []):
        said = state.get("decode_cuda_graph_bs") if isinstance(state, dict) else None
        sizes = list(as_ints(said) or ())
        # A list that holds anything else is no list of sizes.
        if sizes and sizes == said:
            pointer = f"server_info.json#/internal_states/{index}/decode_cuda_graph_bs"
            yield Observation("server_info", "captured sizes", sizes, Rung.CAPTURED, pointer), sizes
    lines = list(replica.said(_CAPTURE, while_starting=True))
    ends = [(line, found) for line, found in lines if found[2].lower() == "end"]
    ended = {(ranks_in_prefix(line), found[1].lower()) for line, found in ends}
    for line, found in lines:
        kind = found[1].lower()
        # A "begin" without an end of the same rank only says what was to be captured.
        is_whole = (ranks_in_prefix(line), kind) in ended
        if kind.startswith("target") and is_whole and found[3]:
            sizes = [int(size) for size in re.findall(r"\d{1,9}", found[3])]
            locator = f"server.log:{line.number}"
            yield Observation("log", f"{kind} graphs", sizes, Rung.CAPTURED, locator), sizes


def _eager_draft(replica: Replica) -> str:
    """Says so when the draft decodes with graphs but extends without."""
    parts = {
        found[1].lower()
        for _, found in replica.said(_CAPTURE, while_starting=True)
        if found[2].lower() == "begin"
    }
    if "draft decode" in parts and "draft extend" not in parts:
        return "; partial: no draft-extend graph was captured, so that step of the draft runs eager"
    return ""


def _listed(sizes: set[int]) -> str:
    ordered = sorted(sizes)
    if len(ordered) > 8:
        return f"{', '.join(map(str, ordered[:4]))}, ... {ordered[-1]} ({len(ordered)} sizes)"
    return ", ".join(map(str, ordered))
