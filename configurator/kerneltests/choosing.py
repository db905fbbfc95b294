"""Which self-tests there are, what kernel entries promise of them, and which are meant."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from configurator.errors import ConfiguratorError, did_you_mean
from configurator.kerneltests.model import Chosen, Promise

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.schema.content import Kernel


def choose(library: Library, names: Sequence[str]) -> list[Chosen]:
    """The self-tests that `names` mean, each once; no name means all of them.

    A name is a self-test's or a kernel entry's, which stands for all that the entry names. A
    promise binds whoever runs the self-test, unless kernels are named: then only theirs do.

    Raises:
        ConfiguratorError: REF005, a name of neither; REF001, an entry names a self-test that does
            not exist; REF007, a kernel without a self-test.
    """
    tests = library.selftests()
    kernels = [library.kernel(name) for name in library.names("kernel")]
    for kernel in kernels:
        _check(kernel, tests)
    named = [kernel for kernel in kernels if kernel.name in names]
    wanted = set(names) & set(tests)
    for name in names:
        if name not in tests and name not in {kernel.name for kernel in named}:
            raise ConfiguratorError.single(
                "REF005", f"no self-test and no kernel is named {name!r}",
                did_you_mean(name, {*tests, *(k.name for k in kernels if k.selftests)}),
            )  # fmt: skip
    for kernel in named:
        if not kernel.selftests and kernel.name not in tests:
            raise ConfiguratorError.single(
                "REF007", f"kernel {kernel.name!r} has no self-test",
                "see `configurator kernels list` for those that have one",
            )  # fmt: skip
        wanted |= {test.name for test in kernel.selftests}
    packages = tuple(dict.fromkeys(p for kernel in named for p in kernel.needs.packages))
    return [
        Chosen(name, path, promises(name, named or kernels), packages)
        for name, path in tests.items()
        if name in wanted or not names
    ]


def promises(name: str, kernels: Iterable[Kernel]) -> tuple[Promise, ...]:
    """What some kernel entries promise of the figures of one self-test."""
    return tuple(
        Promise(kernel.name, figure, least)
        for kernel in kernels
        for test in kernel.selftests
        if test.name == name
        for figure, least in test.minimum.items()
    )


def _check(kernel: Kernel, tests: dict[str, Path]) -> None:
    for test in kernel.selftests:
        if test.name not in tests:
            raise ConfiguratorError.single(
                "REF001",
                f"kernel {kernel.name!r} names the self-test {test.name!r}, which does not exist",
                did_you_mean(test.name, tests),
            )


def summary(path: Path) -> str:
    """The first line of a self-test's docstring; the file is not executed."""
    try:
        doc = ast.get_docstring(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError) as error:
        return f"cannot be read: {error}"
    return (doc or "").split("\n")[0].rstrip(".")
