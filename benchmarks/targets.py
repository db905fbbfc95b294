"""How long `render --all` takes against `render`, which is bash alone, as people run them.

    python benchmarks/targets.py [--runs N] [PROFILE ...]

Prints, for each profile, the seconds of both and the median of the ratios of each pair. Writes to
the folder for temporary files: `--all` makes seven times as many files, and where making one takes
half a millisecond (a busy disk) that alone is a third of its time. TMPDIR=/dev/shm leaves the disk
out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

PROFILES = ("ling-3.0-flash-spark", "muse-spark-open-gb300x8", "muse-spark-open-gb300x8-tp8")


def seconds(profile: str, *options: str) -> float:
    """Wall time of one command that writes to a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "configurator", "render", profile, "-o", folder, *options]
        began = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profiles", nargs="*", default=PROFILES)
    parser.add_argument("--runs", type=int, default=9)
    given = parser.parse_args()
    for name in given.profiles:
        pairs = [(seconds(name), seconds(name, "--all")) for _ in range(given.runs + 1)][1:]
        one, every = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name}: bash {one:.3f} s, all {every:.3f} s, all / bash {ratio:.2f}")


if __name__ == "__main__":
    main()
