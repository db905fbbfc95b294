"""What a config says of quantization: the method, its blocks, and what stays as it was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

_EXCLUSIONS = (
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude_modules",
    "exclude",
)
_NESTED = re.compile(r"[*+}?]\)*[*+{]|\)[*+{]")
_OPEN_ENDED = re.compile(r"(?<!\\)[*+{]")
_LONGEST = 200
"""Characters of a pattern, and of a name, that are tried at all."""
_MOST_REPEATS = 4
_LARGEST_BLOCK = 65536


@dataclass(frozen=True)
class Quantization:
    """The quantization part of a config."""

    config: dict[str, Any]

    @property
    def method(self) -> str | None:
        """`fp8`, `mxfp4`, `compressed-tensors`, `modelopt`, ..., in lower case."""
        for key in ("quant_method", "quant_algo"):
            if isinstance(self.config.get(key), str):
                return str(self.config[key]).lower()
        return None

    @property
    def block(self) -> tuple[int, int] | None:
        """Rows and columns of a block of block-wise quantized weights."""
        sizes = self.config.get("weight_block_size")
        if not isinstance(sizes, list) or len(sizes) != 2:
            return None
        fit = all(type(size) is int and 0 < size <= _LARGEST_BLOCK for size in sizes)
        return (sizes[0], sizes[1]) if fit else None

    @property
    def exclusions(self) -> tuple[str, ...]:
        """Modules, or patterns of them, that are not quantized."""
        found: list[str] = []
        for key in _EXCLUSIONS:
            entries = self.config.get(key)
            names = entries if isinstance(entries, list) else []
            found += [name for name in names if isinstance(name, str) and name.isprintable()]
        return tuple(dict.fromkeys(found))

    @property
    def targets(self) -> tuple[str, ...]:
        """What the groups of compressed-tensors quantize: classes such as `Linear`, patterns."""
        groups = self.config.get("config_groups")
        found: list[str] = []
        for group in groups.values() if isinstance(groups, dict) else ():
            names = group.get("targets") if isinstance(group, dict) else None
            found += [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
        return tuple(dict.fromkeys(found))

    def excludes(self, module: str) -> bool | None:
        """A module stays as it was; None when a pattern is one that is not tried.

        An entry matches a name that has it as one or more whole parts; `re:` begins a regular
        expression (compressed-tensors), and `*` stands for anything (ModelOpt).
        """
        answers = [_matches(entry, module) for entry in self.exclusions]
        return True if True in answers else None if None in answers else False


def _matches(entry: str, module: str) -> bool | None:
    if len(entry) > _LONGEST or len(module) > _LONGEST:
        return None
    if entry.startswith("re:"):
        pattern = _compiled(entry.removeprefix("re:"))
        return None if pattern is None else pattern.match(module) is not None
    if "*" in entry:
        if entry.count("*") > _MOST_REPEATS:
            return None
        return fnmatchcase(module, entry.replace("[", "[[]"))
    return f".{entry}." in f".{module}."


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern; None when it is none, or could take for ever: nobody here wrote it."""
    if _NESTED.search(pattern) or len(_OPEN_ENDED.findall(pattern)) > _MOST_REPEATS:
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
