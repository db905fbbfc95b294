"""How the catalogue judges 208 real public launch commands: `python tests/corpus_table.py`.

Prints the agreement with SGLang's own parser, on how many releases the commands start, and why
they do not.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from corpus import commands, found_by, offenders, unknown

from configurator.engine.argv import Parsed, parse
from configurator.engine.catalogue import available_versions, load_catalogue


@dataclass
class Tally:
    """What one release makes of all commands."""

    starts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    abbreviated: int = 0
    deprecated: int = 0


def judged(argv: list[str], version: str) -> Parsed:
    """A command as a release's parser reads it."""
    return parse(argv, load_catalogue(version), unknown(argv))


def tally(version: str) -> Tally:
    """What a release makes of all commands."""
    found = Tally()
    for row in commands():
        parsed = judged(row["argv"], version)
        found.starts += parsed.accepted
        found.reasons.update({f"--{e.name}" for e in parsed.errors if e.index is not None})
        resolutions = [o.resolution for o in parsed.options if o.resolution]
        found.abbreviated += any(r.kind == "prefix" for r in resolutions)
        found.deprecated += any(o.flag and o.flag.deprecated is not None for o in parsed.options)
    return found


def agreement() -> tuple[int, int]:
    """Verdicts of the real parser that we share with every offending option, and all of them."""
    same = total = 0
    for row in commands():
        for version, truth in row["truth"].items():
            parsed = judged(row["argv"], version)
            right = parsed.accepted == truth["accepted"]
            same += right and found_by(parsed) == offenders(truth["errors"])
            total += 1
    return same, total


def main() -> int:
    """Print the tables; the exit code is 1 when we and the real parser differ."""
    same, total = agreement()
    print(f"{len(commands())} commands; the real parser's verdict and every offending option:")
    print(f"  the same in {same} of {total} (3 releases)\n")
    print("release       start  abbreviated  deprecated   most frequent reasons not to")
    for version in available_versions():
        found = tally(version)
        why = ", ".join(f"{name} {count}" for name, count in found.reasons.most_common(3))
        print(f"{version:12} {found.starts:6} {found.abbreviated:12} {found.deprecated:11}   {why}")
    return int(same != total)


if __name__ == "__main__":
    sys.exit(main())
