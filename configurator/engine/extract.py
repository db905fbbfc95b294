"""Reading a catalogue out of a wheel or an unpacked tree; nothing in it is imported or executed.

python -m configurator.engine.extract sglang-0.5.23-*.whl --into catalogue.json.xz
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from configurator.engine.architectures import extract_architectures
from configurator.engine.flags import extract_flags
from configurator.engine.names import extract_entry, extract_names
from configurator.engine.records import Catalogue
from configurator.engine.sources import SourceTree
from configurator.engine.store import Store
from configurator.engine.variables import extract_env_read, extract_retired, extract_variables
from configurator.errors import ConfiguratorError


def extract(path: Path, version: str | None = None) -> Catalogue:
    """The catalogue of the engine at `path`.

    Args:
        path: a wheel, an unpacked wheel, a checkout, a virtual environment or its
            `site-packages`, or the package itself.
        version: overrides what the tree says; needed where it says nothing.

    Raises:
        ConfiguratorError: it is no wheel or directory (CAT001), the engine is not inside
            (CAT002), or its version is neither inside nor given (CAT003).
    """
    tree = SourceTree(path)
    found = version or tree.version
    if found is None:
        newest = tree.tagged[1]
        after = f"; its newest tag is v{newest}, which is not checked out" if newest else ""
        raise ConfiguratorError.single(
            "CAT003",
            f"{path} has nothing that says its version{after}",
            f"give it, for instance with --version {newest or '0.5.23'}",
        )
    variables = extract_variables(tree)
    retired = extract_retired(tree)
    declared = {variable.name for variable in variables} | {old.name for old in retired}
    flags = extract_flags(tree)
    return Catalogue.of(
        found,
        flags,
        variables,
        retired,
        extract_env_read(tree, declared),
        extract_names(tree, flags),
        extract_architectures(tree),
        extract_entry(tree),
    )


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
            f"{len(catalogue.retired)} retired, {len(catalogue.env_read)} read elsewhere, "
            f"{len(catalogue.names)} names, {len(catalogue.architectures)} architectures"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
