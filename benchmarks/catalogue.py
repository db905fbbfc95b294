"""What the catalogue costs, and how long one takes to be made.

    python benchmarks/catalogue.py [--runs N] [--wheel FILE]

Prints what reading the shipped file and building one version adds to a process, against
`validate` of a profile, as a ratio within one run; its size; and, with a wheel, the time that
extracting it takes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from speed import PROFILE, paired, report

from configurator.engine.extract import extract
from configurator.engine.store import SHIPPED, Store

VERSION = "0.5.23"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--wheel", type=Path)
    given = parser.parse_args()
    load = statistics.median(loading() for _ in range(max(3, given.runs)))
    validate = [sys.executable, "-m", "configurator", "validate", PROFILE]
    process = [sys.executable, "-c", "import configurator.engine.catalogue"]
    whole, start, _ = paired(validate, process, given.runs)
    report("load a version", load, "validate", whole, f"ratio {load / (whole - load):.3f}")
    report("import it", start, "validate", whole, f"ratio {start / whole:.2f}")
    print(f"{'shipped file':<14} {SHIPPED.stat().st_size / 1000:8.1f} KB")
    if given.wheel:
        before = time.perf_counter()
        extract(given.wheel)
        print(f"{'extract':<14} {time.perf_counter() - before:8.1f} s    {given.wheel.name}")


def loading() -> float:
    """Seconds to read the shipped file and build one version."""
    before = time.perf_counter()
    Store().load(VERSION)
    return time.perf_counter() - before


if __name__ == "__main__":
    main()
