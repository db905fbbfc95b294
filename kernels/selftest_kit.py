"""What kernel self-tests share: honest clocks, poisoned outputs, one JSON object of results.

A self-test is a program, `NAME_selftest.py` in this folder (or in `kernels/` of a content directory
of one's own). It runs in the engine's Python, which needs nothing of configurator: standard library
and torch only. It may be given one JSON object of settings as its argument, and prints one JSON
object as the last line of its standard output (docs/kernels.md):

    {"checks": [{"name": ..., "verdict": "ok|slow|wrong|not_run", "reason": ..., "facts": {...}}],
     "figures": {NAME: {"value": ..., "unit": ..., "low": ..., "high": ..., "runs": ...}},
     "machine": {...}}
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

try:
    import torch as torch  # For self-tests to import from here: it may not be there.
except ImportError:
    torch = None

Run = Callable[["Report"], None]
_RUNS = 50
_WARM_UPS = 3


class NotRunError(Exception):
    """The machine cannot run this; the text says why, and what would."""


@dataclass(frozen=True)
class Timing:
    """Times of many runs, in microseconds: the median, the 10th and the 90th percentile."""

    median: float
    low: float
    high: float
    runs: int

    def per(self, parts: int) -> Timing:
        """The time of one of `parts` equal parts of a run."""
        return Timing(self.median / parts, self.low / parts, self.high / parts, self.runs)


@dataclass
class Report:
    """The results of one self-test."""

    settings: dict[str, Any]
    checks: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def check(self, name: str, verdict: str, reason: str = "", **facts: Any) -> None:
        """Add one verdict: `ok`, `slow`, `wrong` or `not_run`, with what it stands on."""
        self.checks.append({"name": name, "verdict": verdict, "reason": reason, "facts": facts})

    def figure(self, name: str, unit: str, values: Timing) -> None:
        """Add a measured figure with its spread, in `unit`; empty: a ratio."""
        self.figures[name] = {
            "value": _short(values.median), "unit": unit,
            "low": _short(values.low), "high": _short(values.high), "runs": values.runs,
        }  # fmt: skip


def _short(value: float) -> float:
    """Four significant digits: more are noise."""
    return float(f"{value:.4g}")


def timing(samples: Sequence[float]) -> Timing:
    """Median and spread of many samples, in the samples' unit."""
    ordered = sorted(samples)
    tenth = len(ordered) // 10
    return Timing(statistics.median(ordered), ordered[tenth], ordered[-1 - tenth], len(ordered))


def rate(amount: float, time_us: Timing) -> Timing:
    """`amount` bytes in GB/s; the low end is the slowest run's."""
    scale = amount / 1000
    return Timing(scale / time_us.median, scale / time_us.high, scale / time_us.low, time_us.runs)


def ratio(slow: Timing, fast: Timing) -> Timing:
    """How many times faster `fast` is; the spread takes both at their worst and best."""
    return Timing(
        slow.median / fast.median, slow.low / fast.high, slow.high / fast.low, fast.runs
    )  # fmt: skip


def poisoned(*shape: int, dtype: Any, device: Any) -> Any:
    """An output full of NaN: what a kernel does not write is seen."""
    return torch.full(shape, math.nan, dtype=dtype, device=device)


def error_of(out: Any, reference: Any) -> float:
    """Relative error `|out - reference| / |reference|` in float64; infinite where NaN is left."""
    if bool(torch.isnan(out).any()):
        return math.inf
    wanted = reference.double()
    norm = float(torch.linalg.vector_norm(wanted))
    if norm == 0:
        raise ValueError("a reference of zeros tells nothing")
    return float(torch.linalg.vector_norm(out.double() - wanted)) / norm


def why_wrong(out: Any, error: float, most: float) -> str:
    """Why an output is wrong; empty: it is not."""
    left = int(torch.isnan(out).sum())
    if left:
        return f"{left} of {out.numel()} values were never written, or are not numbers"
    return "" if error <= most else f"relative error {error:.3g} is above {most:g}"


def need_gpu() -> Any:
    """Properties of the GPU.

    Raises:
        NotRunError: torch sees none.
    """
    if not torch.cuda.is_available():
        build = "for CUDA" if torch.version.cuda else "for CPUs only"
        raise NotRunError(f"no GPU: torch {torch.__version__}, built {build}, sees none here")
    return torch.cuda.get_device_properties(0)


def need_memory(amount: float) -> None:
    """Raise NotRunError where the GPU has less than `amount` bytes free."""
    free, _ = torch.cuda.mem_get_info()
    if free < amount * 1.05:
        raise NotRunError(f"needs {amount / 1e9:.1f} GB of GPU memory, {free / 1e9:.1f} GB is free")


class Clock:
    """Times of GPU work by events, with a cold L2 cache."""

    def __init__(self) -> None:
        least = 4 * int(torch.cuda.get_device_properties(0).L2_cache_size)
        size = max(least, 512 << 20)
        self._sweep = torch.randint(1, 100, (size // 4,), dtype=torch.int32, device="cuda")
        self._swept = torch.empty((), dtype=torch.int32, device="cuda")

    def flush(self) -> None:
        """Fill the L2 cache with other lines. By reading: lines written would have to go back to
        memory while the next kernel is timed."""
        torch.amax(self._sweep, dim=0, out=self._swept)

    def replayed(self, call: Callable[[], object], runs: int = _RUNS) -> Timing:
        """Microseconds of `call` as replays of a CUDA graph."""
        return self._timed(captured(call).replay, runs, wait=False)

    def queued(self, call: Callable[[], object], runs: int = _RUNS) -> Timing:
        """Microseconds of `call` launched behind other work, so that the host's part is hidden."""
        return self._timed(call, runs, wait=False)

    def eager(self, call: Callable[[], object], runs: int = _RUNS) -> Timing:
        """Microseconds of `call` from an idle GPU: where the host is slower, its time."""
        return self._timed(call, runs, wait=True)

    def _timed(self, call: Callable[[], object], runs: int, wait: bool) -> Timing:
        pairs = []
        for _ in range(runs + _WARM_UPS):
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            # Long enough for the host to queue what is timed behind it, unless we wait.
            self.flush()
            if wait:
                torch.cuda.synchronize()
            pair[0].record()
            call()
            pair[1].record()
            pairs.append(pair)
        torch.cuda.synchronize()
        return timing([1000 * a.elapsed_time(b) for a, b in pairs[_WARM_UPS:]])


def captured(call: Callable[[], object]) -> Any:
    """A CUDA graph of `call`."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UPS):
            call()
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def wall(call: Callable[[], object], runs: int = 21) -> Timing:
    """Microseconds of `call` on the host's clock, the GPU's work included."""
    samples = []
    for _ in range(runs + _WARM_UPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        samples.append(1e6 * (time.perf_counter() - begin))
    return timing(samples[_WARM_UPS:])


def version_of(package: str) -> str | None:
    """The installed version of a distribution; None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def arch_of(properties: Any) -> str:
    """The architecture of a GPU, for instance sm_90."""
    return f"sm_{properties.major}{properties.minor}"


def machine() -> dict[str, Any]:
    """What the results hold for: versions, and the GPU where there is one."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        **{name: version_of(name) for name in ("torch", "triton", "sglang")},
        "cuda": None, "gpu": None, "gpus": 0, "arch": None, "driver": None,
    }  # fmt: skip
    if torch is None:
        return found
    # The build too, as 2.11.0+cu130: the distribution's version may leave it out.
    found |= {"torch": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "gpus": torch.cuda.device_count()}
        found |= {"arch": arch_of(properties), "driver": _driver()}
    return found


def _driver() -> str | None:
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.split("\n")[0].strip() or None
    return None


def main(run: Run, torch_needed: bool = True) -> None:
    """Run a self-test and print its results; a crash of it is a result too."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # What libraries print is no answer.
    report = Report(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    try:
        if torch is None and torch_needed:
            raise NotRunError(f"torch is not installed in {sys.executable}")
        run(report)
    except NotRunError as error:
        report.check("all", "not_run", str(error))
    except Exception as error:
        traceback.print_exc()
        report.check("all", *_failed(error))
    told = {key: value for key, value in asdict(report).items() if key != "settings"}
    answer.write("\n" + json.dumps({**told, "machine": machine()}) + "\n")
    answer.close()


def _failed(error: Exception) -> tuple[str, str]:
    """Verdict and reason of an exception: memory that others hold is no fault of a kernel."""
    if torch is not None and isinstance(error, torch.cuda.OutOfMemoryError):
        return "not_run", f"GPU memory is full: {str(error)[:200]}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    return "wrong", f"{type(error).__name__}: {text} ({place})"
