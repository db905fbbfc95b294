"""What `set`, `unset` and `trap` change of a shell.

Source of the rules: Bash Reference Manual, The Set Builtin and Bourne Shell Builtins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from configurator.readers.shell_state import Shell, Variable
from configurator.readers.shell_words import Words
from configurator.words import Word

_LETTERS = {"a": "allexport", "e": "errexit"}
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[(.+)\]", re.ASCII | re.DOTALL)


def set_options(shell: Shell, found: Sequence[Word]) -> int:
    """Turn options of `set` on and off; returns the index of the first word that is none."""
    at = 1
    while at < len(found) and re.fullmatch(r"[-+][A-Za-z]+", found[at].text):
        sign, letters = found[at].text[0], found[at].text[1:]
        named = [_LETTERS[letter] for letter in letters if letter in _LETTERS]
        at += 1
        if "o" in letters and at < len(found):
            named.append(found[at].text)
            at += 1
        changed = frozenset(named)
        shell.options = shell.options | changed if sign == "-" else shell.options - changed
    return at


def unset(words: Words, found: Sequence[Word]) -> None:
    """`unset NAME`, `unset 'NAME[1]'` and `unset -f NAME`."""
    shell = words.shell
    functions = any(word.text == "-f" for word in found)
    for word in found[1:]:
        if functions:
            shell.functions.pop(word.text, None)
            continue
        if word.unknown:
            continue
        element = _ELEMENT.fullmatch(word.text)
        if element:
            _unset_element(words, element[1], word.part(len(element[1]) + 1, len(word.text) - 1))
        elif re.fullmatch(r"[A-Za-z_]\w*", word.text, re.ASCII):
            known = shell.find(word.text)
            if known is None and word.text in shell.functions:
                shell.functions.pop(word.text)
            shell.put(word.text, Variable(removed=True, position=word.position))


def _unset_element(words: Words, name: str, index: Word) -> None:
    variable = words.shell.find(name)
    if variable is None or variable.value is None:
        return
    if index.text in ("@", "*") and not variable.keyed:
        words.shell.put(name, Variable(removed=True, position=index.position))
        return
    key: int | str | None = index.text
    if not variable.keyed:
        key = words.number_of((index,), 0)
    changed = Variable(None, position=index.position) if key is None else variable.without(key)
    words.shell.put(name, changed)


def trapped(found: Sequence[Word]) -> tuple[Word | None, bool]:
    """What `trap TEXT SIGNAL...` runs, None to forget it; and whether it is when the shell ends."""
    rest = [word for at, word in enumerate(found[1:]) if at or word.text != "--"]
    if len(rest) < 2 or rest[0].text in ("-p", "-l"):
        return None, False
    ends = any(word.text.upper() in ("EXIT", "SIGEXIT", "0") for word in rest[1:])
    return (None if rest[0].text == "-" else rest[0]), ends
