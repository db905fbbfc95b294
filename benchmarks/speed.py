"""How long the command line takes, as ratios within one run.

    python benchmarks/speed.py [--runs N]

Prints three lines: `--version` against importing click; `validate` of one profile against a
process that imports click, yaml and pydantic and defines one model; and what each of 1,000
profiles adds in one call.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROFILE = "ling-3.0-flash-spark"
MANY = 1000
IMPORTS = "import click, yaml, pydantic\nclass Model(pydantic.BaseModel):\n    value: int\n"


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[:4]} failed: {done.stderr.decode()[:500]}")
    return elapsed


def paired(first: list[str], second: list[str], runs: int) -> tuple[float, float, float]:
    """Medians of both commands run in turn, and the median of the ratios of each pair."""
    pairs = [(seconds(first), seconds(second)) for _ in range(runs + 1)][1:]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    python = [sys.executable]
    tool = [*python, "-m", "configurator"]

    a, b, ratio = paired([*tool, "--version"], [*python, "-c", "import click"], runs)
    report("--version", a, "import click", b, f"ratio {ratio:.2f}")
    a, b, ratio = paired([*tool, "validate", PROFILE], [*python, "-c", IMPORTS], runs)
    report("validate one", a, "imports", b, f"ratio {ratio:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_profiles(Path(folder))
        many = [*tool, "validate", "--quiet"]
        a, b, _ = paired([*many, *paths], [*many, paths[0]], max(3, runs // 3))
    report(f"validate {MANY}", a, "one", b, f"each {(a - b) / (MANY - 1) * 1000:.2f} ms more")


def write_profiles(folder: Path) -> list[str]:
    """MANY profiles that differ in their port."""
    paths = []
    for index in range(MANY):
        path = folder / f"p{index}.yaml"
        path.write_text(
            "apiVersion: configurator/v1\nkind: Deployment\n"
            f"name: p{index}\nextends: {PROFILE}\nserving: {{port: {20000 + index}}}\n"
        )
        paths.append(str(path))
    return paths


def report(what: str, first: float, against: str, second: float, result: str) -> None:
    """One line of the table."""
    print(f"{what:<14} {first * 1000:8.1f} ms   {against:<13} {second * 1000:7.1f} ms   {result}")


if __name__ == "__main__":
    main()
