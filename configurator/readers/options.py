"""Options of programs that start other programs: where they end and the program begins."""

from __future__ import annotations

from dataclasses import dataclass

from configurator.words import Word

Words = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Which options of a program take a value, as far as it is needed to step over them."""

    values: frozenset[str] = frozenset()
    """These take one; unless `flags` is given."""
    flags: frozenset[str] | None = None
    """All others take one."""
    pairs: frozenset[str] = frozenset()
    """These take two."""
    whole: bool = False
    """`-np` is one option, not `-n` and `-p`."""

    def takes(self, name: str) -> int:
        """How many values an option takes."""
        if name in self.pairs:
            return 2
        return int(name in self.values if self.flags is None else name not in self.flags)


def options(values: str = "", flags: str | None = None, *, whole: bool = False) -> Options:
    """The table from names separated by blanks."""
    return Options(
        frozenset(values.split()),
        None if flags is None else frozenset(flags.split()),
        whole=whole,
    )


Given = list[tuple[str, Word | None]]
"""Options in order, with their values."""


def split_options(words: Words, table: Options) -> tuple[Given, Words]:
    """The options at the front, and what follows them; a `--` between is dropped."""
    found: Given = []
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "--":
            return found, words[index + 1 :]
        if not text.startswith("-") or text == "-":
            break
        if text.startswith("--") or table.whole:
            index = _long(words, index, table, found)
        else:
            index = _cluster(words, index, table, found)
    return found, words[index:]


def _long(words: Words, index: int, table: Options, found: Given) -> int:
    word = words[index]
    name, equals, _ = word.text.partition("=")
    if equals:
        found.append((name, word.part(len(name) + 1)))
        return index + 1
    count = table.takes(name)
    found.append((name, words[index + 1] if count and index + 1 < len(words) else None))
    return index + 1 + count


def _cluster(words: Words, index: int, table: Options, found: Given) -> int:
    word = words[index]
    for at, letter in enumerate(word.text[1:], 1):
        name = f"-{letter}"
        if not table.takes(name):
            found.append((name, None))
            continue
        if at + 1 < len(word.text):
            found.append((name, word.part(at + 1)))
            return index + 1
        found.append((name, words[index + 1] if index + 1 < len(words) else None))
        return index + 2
    return index + 1
