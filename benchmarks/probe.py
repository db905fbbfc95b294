"""What the in-engine probe costs: start-up and steady state of a real engine, with and without it.

    python benchmarks/probe.py PYTHON [--rounds N]

PYTHON is the engine environment of the self-test. Starts the same server in turn with and without
the probe; prints the time to readiness and the tokens per second of greedy requests of each, and
the median of the ratios of each pair.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import urllib.error
from pathlib import Path

import pairs

from configurator.selftest.engine import Launcher, Server, cache_folder, make_models, open_engine
from configurator.selftest.matrix import Start

START = Start(model="dense")
REQUESTS = 6


def ready(server: Server) -> float:
    """Seconds until the server answers."""
    while server.process.poll() is None:
        try:
            pairs.ask(f"http://127.0.0.1:{server.port}", "/model_info")
            return time.monotonic() - server.began
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    raise SystemExit(f"the server ended: {server.log.read_text(errors='replace')[-500:]}")


def rate(port: int) -> float:
    """Tokens per second, median of several requests after one that warms up."""
    url = f"http://127.0.0.1:{port}"
    return statistics.median([pairs.rate(url) for _ in range(REQUESTS + 1)][1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    engine = open_engine(given.python)
    models = make_models(engine, cache_folder())
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        launcher = Launcher.prepare(engine, models, Path(folder))
        for number in range(given.rounds):
            for probe in (True, False) if number % 2 else (False, True):
                name = f"{number}-{'with' if probe else 'without'}"
                with launcher.server(name, START.model_copy(update={"probe": probe})) as server:
                    found[probe].append((ready(server), rate(server.port)))
                start, tokens = found[probe][-1]
                print(f"{name:12} ready {start:6.2f} s   {tokens:7.1f} tokens/s", flush=True)
    for index, what in enumerate(("ready", "tokens/s")):
        ratios = [a[index] / b[index] for a, b in zip(found[True], found[False], strict=True)]
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{what:9} with / without: median {statistics.median(ratios):.3f} ({spread})")


if __name__ == "__main__":
    main()
