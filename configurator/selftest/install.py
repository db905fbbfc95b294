"""Make the engine environment of the self-test: `python -m configurator.selftest.install DIR`

SGLang's own requirements are for a machine with a GPU; here it is installed without them, beside
the packages that its CPU path imports. About 1.8 GB and a minute or two.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
TORCH = "torch==2.13.0"
ENGINE = ("sglang==0.5.23", "xgrammar==0.2.7")
"""Installed without their dependencies: Triton, sgl-kernel and FlashInfer are among them."""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def steps(python: Path, torch_index: str | None) -> list[list[str]]:
    """The pip commands, in order.

    Args:
        python: interpreter of the new environment.
        torch_index: index to take torch from; None: the configured one.
    """
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    index = ["--index-url", torch_index] if torch_index else []
    return [
        # First what torch needs too: its own index lacks most of it.
        [*pip, "-r", str(REQUIREMENTS)],
        [*pip, *index, TORCH],
        [*pip, "--no-deps", *ENGINE],
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Make the environment; 1 if pip fails, 2 if the directory is in use."""
    parser = argparse.ArgumentParser(
        "python -m configurator.selftest.install", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("directory", type=Path, help="new directory for the environment")
    parser.add_argument(
        "--torch-index", metavar="URL",
        help=f"index to take torch from; {CPU_INDEX} has the build without CUDA, "
        "which is what PyPI has for some machines only",
    )  # fmt: skip
    args = parser.parse_args(argv)
    if args.directory.exists() and any(args.directory.iterdir()):
        print(f"{args.directory} is not empty; give a new directory", file=sys.stderr)
        return 2
    print(f"making {args.directory}", flush=True)
    venv.create(args.directory, with_pip=True)
    python = args.directory.absolute() / "bin" / "python"
    for command in steps(python, args.torch_index):
        print(f"pip install {' '.join(command[6:])}", flush=True)
        code = subprocess.run(command, check=False).returncode
        if code:
            print(f"pip ended with exit code {code}", file=sys.stderr)
            return 1
    print(f"done: configurator selftest --engine {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
