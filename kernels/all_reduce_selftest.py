"""All-reduce latency over the GPUs of this host, by NCCL, eager and replayed from a graph."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from selftest_kit import (
    NotRunError,
    Report,
    Timing,
    captured,
    error_of,
    main,
    need_gpu,
    poisoned,
    timing,
    torch,
    why_wrong,
)

SIZES = tuple(1 << power for power in range(13, 21))
"""Bytes of BF16: 8 KiB to 1 MiB."""
CALLS = 20
"""All-reduces in one sample."""
RUNS = 50
MOST_ERROR = 0.02


def run(report: Report) -> None:
    """Groups of 2, 4, ... ranks, as many as there are GPUs."""
    need_gpu()
    count = torch.cuda.device_count()
    if count < 2:
        raise NotRunError(f"needs two GPUs of one host, {count} is here")
    if not torch.distributed.is_nccl_available():
        raise NotRunError("this torch is built without NCCL")
    for ranks in (2, 4, 8):
        if ranks <= count:
            _group(report, ranks)


def _group(report: Report, ranks: int) -> None:
    """Run one group of processes and add what its rank 0 measured."""
    from torch import multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())})
        multiprocessing.spawn(_rank, args=(ranks, str(out)), nprocs=ranks)
        rows = json.loads(out.read_text(encoding="utf-8"))
    wrong = [f"{row['bytes']} bytes: {row['why']}" for row in rows if row["why"]]
    shown = [
        {
            "bytes": row["bytes"], "eager_us": round(row["eager"][0], 1),
            "graph_us": round(row["graph"][0], 1), "relative_error": float(f"{row['error']:.3g}"),
        }
        for row in rows if not row["why"]
    ]  # fmt: skip
    version = ".".join(map(str, torch.cuda.nccl.version()))
    verdict = "wrong" if wrong else "ok"
    report.check(f"{ranks} ranks", verdict, "; ".join(wrong), times=shown, nccl=version)
    for row in rows:
        if not row["why"]:
            for way in ("eager", "graph"):
                name = f"all_reduce_{ranks}_{row['bytes'] >> 10}k_{way}_us"
                report.figure(name, "us", Timing(*row[way]))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank(rank: int, ranks: int, out: str) -> None:
    """One process: every size; rank 0 writes what it saw, and every rank what is wrong counts."""
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    rows = [_size(rank, ranks, size) for size in SIZES]
    torch.distributed.barrier()
    if rank == 0:
        Path(out).write_text(json.dumps(rows), encoding="utf-8")
    torch.distributed.destroy_process_group()


def _size(rank: int, ranks: int, size: int) -> dict[str, Any]:
    """Numbers and times of one size."""
    device = torch.device("cuda", rank)
    parts = [_part(each, size, device) for each in range(ranks)]
    wanted = torch.stack([part.double() for part in parts]).sum(0)
    buffer = poisoned(size // 2, dtype=torch.bfloat16, device=device)

    def call() -> None:
        torch.distributed.all_reduce(buffer)

    def calls() -> None:
        for _ in range(CALLS):
            call()

    # Sums of sums grow without end; zeros would be no data, so the values are set anew each time.
    small = parts[rank] * 1e-30
    error, why = 0.0, ""
    graph = captured(call)
    for way in (call, graph.replay):
        buffer.copy_(parts[rank])
        way()
        torch.cuda.synchronize()
        error = error_of(buffer, wanted)
        why = why or why_wrong(buffer, error, MOST_ERROR)
    why = _anybody(why, device)
    repeated = captured(calls)
    eager, graphs = (_times(each, buffer, small) for each in (calls, repeated.replay))
    return {
        "bytes": size, "why": why, "error": error,
        "eager": _tuple(eager), "graph": _tuple(graphs),
    }  # fmt: skip


def _part(rank: int, size: int, device: Any) -> Any:
    """What a rank brings; every rank can make it."""
    seed = torch.Generator(device="cpu").manual_seed(1000 + rank)
    return torch.randn(size // 2, generator=seed).bfloat16().to(device)


def _anybody(why: str, device: Any) -> str:
    """What any rank found wrong."""
    count = torch.tensor([int(bool(why))], device=device)
    torch.distributed.all_reduce(count)
    return why or (f"wrong on {int(count)} other ranks" if int(count) else "")


def _times(call: Any, buffer: Any, start: Any) -> Timing:
    """Microseconds of one of the `CALLS` all-reduces, the ranks starting together."""
    samples = []
    for _ in range(RUNS + 5):
        buffer.copy_(start)
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        samples.append(1e6 * (time.perf_counter() - begin) / CALLS)
    return timing(samples[5:])


def _tuple(value: Timing) -> list[float]:
    return [value.median, value.low, value.high, value.runs]


if __name__ == "__main__":
    main(run)
