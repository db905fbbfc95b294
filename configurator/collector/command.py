"""The command line, for where configurator is not installed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .collecting import collect
from .inputs import CollectError, read_key

DESCRIPTION = f"""Collect evidence of running SGLang servers into an evidence directory, format 1.

    python -m {__package__} --url http://127.0.0.1:30000 --out evidence --log server.log

It observes and never judges: `configurator check ... --replay evidence` does, anywhere else.
Secrets are redacted before anything is written.
"""


def _parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    program = f"python -m {__package__}"
    parser = argparse.ArgumentParser(program, description=DESCRIPTION, formatter_class=style)
    add = parser.add_argument
    add("--url", action="append", required=True, help="a server; again for every replica")
    add("--out", required=True, help="new directory for the evidence")
    add("--level", type=int, default=1, choices=(1, 2, 3), help="how much to ask (default 1)")
    add("--passive", action="store_true", help="send no request that generates")
    add("--log", action="append", default=[], help="log file, in the order of --url")
    add("--reports", action="append", default=[], help="directory of reports, in that order")
    add("--pid", action="append", default=[], type=int, help="engine's process, in that order")
    add("--api-key-env", metavar="NAME", help="variable that holds the API key")
    add("--api-key-file", metavar="FILE", help="file that holds the API key")
    add("--concurrency", type=int, default=1, help="requests at a time on level 2")
    add("--prompts", metavar="FILE", help="JSON list of texts, or one text a line")
    add("--sampling", metavar="JSON", default="{}", help='for instance {"temperature": 0.6}')
    add("--timeout", type=float, default=60.0, help="seconds, of every HTTP call")
    add("--wait", type=float, default=0.0, help="seconds to wait until the server is ready")
    return parser


def _api_key(args: argparse.Namespace) -> str | None:
    if args.api_key_env or args.api_key_file:
        return read_key(args.api_key_env, args.api_key_file)
    return None


def _plain(text: str) -> str:
    """A space for every control character: what a server says must not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _prompts(path: str | None) -> list[str]:
    if path is None:
        return []
    text = Path(path).read_text(encoding="utf-8")
    found = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    if not all(isinstance(prompt, str) for prompt in found):
        raise CollectError(f"--prompts: {path} must be a JSON list of texts, or one text a line")
    return [prompt for prompt in found if prompt.strip()]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. 0: every server was ready; 1: one was not; 2: unusable input."""
    args = _parser().parse_args(argv)
    try:
        sampling = json.loads(args.sampling)
        if not isinstance(sampling, dict):
            raise CollectError("--sampling must be a JSON object")
        manifest = collect(
            dict(enumerate(args.url)), args.out, level=args.level, passive=args.passive,
            logs=dict(enumerate(args.log)), reports=dict(enumerate(args.reports)),
            pids=dict(enumerate(args.pid)), api_key=_api_key(args), concurrency=args.concurrency,
            prompts=_prompts(args.prompts), sampling=sampling, timeout_s=args.timeout,
            wait_s=args.wait, on_progress=lambda text: print(_plain(text), file=sys.stderr),
        )  # fmt: skip
    except (CollectError, OSError, ValueError) as error:
        print(_plain(f"{__package__}: {error}"), file=sys.stderr)
        return 2
    for replica in manifest["replicas"]:
        state = "ready" if replica["ready"] else "not ready"
        print(f"replica {replica['index']}: {state}, {len(replica['files'])} files"
              + "".join(f"\n  {_plain(error)}" for error in replica["errors"]))  # fmt: skip
    return 0 if all(replica["ready"] for replica in manifest["replicas"]) else 1
