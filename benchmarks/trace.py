"""How fast a large profiler trace is read, and in how much memory.

    python benchmarks/trace.py TRACE.json.gz [--megabytes 200] [--gz]

Repeats a real trace until it has the size, every copy later in time and with correlations of its
own, summarizes it in a process of its own three times, and prints the best speed and the largest
memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

READ = """
import re, sys, time
from pathlib import Path
from configurator.evidence.trace import read_trace
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before, start = most(), time.perf_counter()
found = read_trace(Path(sys.argv[1]))
took = time.perf_counter() - start
print(took, before, most(), found.events, sum(k.count for k in found.kernels))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--gz", action="store_true", help="Pack what is read.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        copies = repeat(given.trace, path, given.megabytes * 1_000_000)
        size = path.stat().st_size
        if given.gz:
            packed = path.with_suffix(".json.gz")
            packed.write_bytes(gzip.compress(path.read_bytes(), 6))
            path = packed
        runs = [measured(path) for _ in range(3)]
    took = min(run[0] for run in runs)
    before, most = runs[0][1], max(run[2] for run in runs)
    events, kernels = int(runs[0][3]), int(runs[0][4])
    print(
        f"{size / 1e6:.0f} MB, {copies} copies, {events:,} events, {kernels:,} kernels: "
        f"{took:.1f} s, {size / 1e6 / took:.0f} MB/s, at most {most:.0f} MiB "
        f"({before:.0f} MiB before reading)"
    )


def repeat(source: Path, target: Path, size: int) -> int:
    """Write copies of the events of `source` until `target` has `size` bytes; how many."""
    raw = source.read_bytes()
    data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    events = data.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X"]
    length = max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed) + 1000
    most = 1 + max(event.get("args", {}).get("correlation", 0) for event in timed)
    copies = 0
    with target.open("w") as file:
        file.write(json.dumps(data, indent=1)[:-2] + ', "traceEvents": [\n')
        while not copies or file.tell() < size:
            moved = (move(event, copies * length, copies * most) for event in events)
            text = ",\n".join(json.dumps(event, indent=1) for event in moved)
            file.write(("" if not copies else ",\n") + text)
            copies += 1
        file.write("\n]}\n")
    return copies


def move(event: dict[str, Any], later: float, more: int) -> dict[str, Any]:
    """An event at a later time, of a launch of its own."""
    moved = dict(event)
    if "ts" in event:
        moved["ts"] = round(event["ts"] + later, 3)
    if "correlation" in event.get("args", {}):
        moved["args"] = {**event["args"], "correlation": event["args"]["correlation"] + more}
    return moved


def measured(path: Path) -> list[float]:
    """Seconds, memory before and at most in MiB, events and kernels, of one process."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    return [float(word) for word in done.stdout.split()]


if __name__ == "__main__":
    main()
