"""Reading a catalogue out of a wheel or an unpacked tree; nothing in it is imported or executed.

python -m configurator.engine.extract sglang-0.5.23-*.whl --into catalogue.json.xz
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from configurator.engine.flags import extract_flags
from configurator.engine.records import Catalogue
from configurator.engine.sources import SourceTree
from configurator.engine.store import Store
from configurator.engine.variables import extract_env_read, extract_retired, extract_variables
from configurator.errors import ConfiguratorError


def extract(path: Path, version: str | None = None) -> Catalogue:
    """The catalogue of the engine at `path`.

    Args:
        path: a wheel, an unpacked wheel, or a checkout.
        version: needed where the tree has no package metadata.

    Raises:
        ConfiguratorError: it is no wheel or directory (CAT001), the engine is not inside
            (CAT002), or its version is neither inside nor given (CAT003).
    """
    tree = SourceTree(path)
    found = version or tree.version
    if found is None:
        raise ConfiguratorError.single(
            "CAT003",
            f"{path} has no package metadata that says its version",
            "give it, for instance with --version 0.5.23",
        )
    variables = extract_variables(tree)
    retired = extract_retired(tree)
    declared = {variable.name for variable in variables} | {old.name for old in retired}
    read = extract_env_read(tree, declared)
    return Catalogue.of(found, extract_flags(tree), variables, retired, read)


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract every given source; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m configurator.engine.extract")
    parser.add_argument("source", nargs="+", type=Path, help="a wheel or an unpacked tree")
    parser.add_argument("--into", type=Path, help="catalogue file to write or to add to")
    parser.add_argument("--version", help="version of a tree without package metadata")
    given = parser.parse_args(arguments)
    try:
        found = [extract(source, given.version) for source in given.source]
        if given.into:
            Store(given.into).write(found)
    except ConfiguratorError as error:
        print(error, file=sys.stderr)
        return 2
    for catalogue in found:
        flags = len({flag.name for flag in catalogue.flags.values()})
        print(
            f"{catalogue.version}: {flags} flags, {len(catalogue.variables)} variables declared, "
            f"{len(catalogue.retired)} retired, {len(catalogue.env_read)} read elsewhere"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
