"""What `plan` costs against `validate`, as whole processes within one run.

    python benchmarks/plan.py [--runs N] [PROFILE...]

Prints a line for each profile with the median of the ratios of each pair, in every form that
writes something.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from speed import PROFILE, paired, report


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profiles", nargs="*", default=[PROFILE])
    parser.add_argument("--runs", type=int, default=15)
    given = parser.parse_args()
    tool = [sys.executable, "-m", "configurator"]
    with tempfile.TemporaryDirectory() as folder:
        forms = {
            "plan": [],
            "plan json": ["--format", "json"],
            "plan svg": ["--plot", str(Path(folder, "plan.svg"))],
        }
        for profile in given.profiles:
            validate = [*tool, "validate", profile]
            for name, words in forms.items():
                a, b, ratio = paired([*tool, "plan", profile, *words], validate, given.runs)
                report(name, a, "validate", b, f"ratio {ratio:.2f}  {profile}")


if __name__ == "__main__":
    main()
