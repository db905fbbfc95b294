"""Simple commands: what they start, and the builtins that change what follows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from tree_sitter import Node

from configurator.errors import Position
from configurator.readers.shell_assignments import Declaration, assign, declare_words
from configurator.readers.shell_flow import (
    ExitShell,
    LeaveLoop,
    ReturnFunction,
    Status,
    shortened,
    touching,
)
from configurator.readers.shell_options import set_options, trapped, unset
from configurator.readers.shell_processes import (
    is_unknown,
    report_process,
    script_of,
    shell_options,
)
from configurator.readers.shell_source import Source
from configurator.readers.shell_state import Run, Shell, Value, Variable
from configurator.readers.shell_tests import single_brackets
from configurator.readers.shell_tokens import split_words
from configurator.readers.shell_words import Words, join, names_engine
from configurator.words import Invocation, Word

_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly"))
_QUIET = frozenset(
    ("alias", "bg", "bind", "caller", "cd", "compgen", "complete", "compopt", "dirs", "disown",
     "echo", "enable", "fc", "fg", "hash", "help", "history", "jobs", "kill", "logout", "popd",
     "printf", "pushd", "pwd", "suspend", "times", "ulimit", "umask", "unalias", "wait",
     "shopt", ":", "true")
)  # fmt: skip


class Runs(Protocol):
    """What runs the statements of functions and nested scripts."""

    def body(self, node: Node) -> Status:
        """Run one statement."""

    def script(self, source: Source) -> Status:
        """Run a script in the shell as it is."""


class Commands:
    """Runs the simple commands of one way through a script."""

    def __init__(self, words: Words, run: Run, runs: Runs) -> None:
        self.words = words
        self.run_record = run
        self.runs = runs
        self.loop_conditions: list[str] = []
        self._builtins: dict[str, Callable[[list[Word]], Status]] = {
            "[": lambda words: self._test(words[1:-1], words),
            "test": lambda words: self._test(words[1:], words),
            "false": lambda _: Status(False),
            "exit": self._exit,
            "return": self._exit,
            "break": self._leave,
            "continue": self._leave,
            "shift": self._shift,
            "set": self._set,
            "read": self._read,
            "mapfile": self._read,
            "readarray": self._read,
            "getopts": self._read,
            "let": self._let,
            "eval": self._eval,
            "source": self._source,
            ".": self._source,
            "command": self._command,
            "builtin": self._command,
            "type": _asked,
            "hash": _asked,
            "which": _asked,
            "exec": self._exec,
            "unset": self._unset,
            "trap": self._trap,
        }

    @property
    def shell(self) -> Shell:
        """The shell that commands run in."""
        return self.words.shell

    def command(self, node: Node, extra: Sequence[tuple[int, int]] = ()) -> Status:
        """Run a command node; `extra` are words of it that stand after a redirection."""
        source = self.shell.source
        prefix = [child for child in node.children if child.type == "variable_assignment"]
        parts = [
            (source.start(child), source.end(child))
            for child in node.named_children
            if child.type not in ("variable_assignment", "comment", "file_redirect")
            and not child.type.startswith("here")
        ]
        self.shell.budget.elements(len(parts))
        found: list[Word] = []
        for part in touching([*parts, *extra], source.text):
            for start, end in split_words(source.text, *part):  # `} {` is one word of the tree
                found += self.words.fields(start, end)
        if not found:
            for child in prefix:
                assign(self.words, child)
            return Status(assumed=True, written=_shown([], source.written(node)))
        status = self._with(prefix, found) if prefix else self.start(found)
        if found[0].text in self.shell.functions:
            return status
        return replace(status, written=shortened(source.written(node)), key=status.written)

    def _with(self, prefix: Sequence[Node], found: list[Word]) -> Status:
        """Run a command with assignments that hold only for it."""
        shell = self.shell
        scope: dict[str, Variable] = {}
        shell.scopes.append(scope)
        try:
            for node in prefix:
                name_node = node.child_by_field_name("name")
                if name_node is not None:
                    self._prefix(node, shell.source.written(name_node), scope)
            return self.start(found)
        finally:
            shell.scopes.pop()

    def _prefix(self, node: Node, name: str, scope: dict[str, Variable]) -> None:
        home = self.shell.home(name)
        before = home.get(name)
        assign(self.words, node)
        changed = home.pop(name, None)
        if before is not None:
            home[name] = before
        if changed is not None:
            scope[name] = replace(changed, exported=True, reference="")

    def start(self, found: list[Word]) -> Status:
        """Run a command, given its words."""
        name = "" if found[0].unknown else found[0].text
        if name in self.shell.functions:
            return self._function(name, found)
        builtin = self._builtins.get(name)
        if builtin:
            return builtin(found)
        if name in _DECLARING:
            return self.declare(name, found[1:])
        if name in _QUIET:
            self._printf(found)
            return Status()
        return self._process(found)

    def _process(self, found: list[Word]) -> Status:
        at = next((i for i, word in enumerate(found) if word.text not in ("exec", "command")), 0)
        text = script_of(found[at:])
        if text is not None:
            return self._nested(found[at + text], found[at + text + 1 :], found[at:])
        self.record(found)
        report_process(found, self.run_record)
        return Status(assumed=True, written=_shown(found))

    def record(self, found: list[Word]) -> None:
        """Note a process."""
        conditions = tuple(dict.fromkeys((*self.run_record.conditions, *self.loop_conditions)))
        self.run_record.found.append(Invocation(tuple(found), self.shell.exports(), conditions))

    def _nested(self, text: Word, arguments: list[Word], found: list[Word]) -> Status:
        """`bash -c TEXT`: another shell, which sees what is exported."""
        if is_unknown(text):
            self._unknown_text(text.position, f"`{found[0].text} -c`")
            return Status(assumed=True, written=_shown(found))
        before = self.shell
        child = before.copy()
        scope: dict[str, Variable] = {}
        for variables in child.scopes:
            scope.update(variables)
        kept = {n: v for n, v in scope.items() if v.exported or v.position is None}
        child.scopes = [kept]
        child.functions = {
            name: function
            for name, function in child.functions.items()
            if name in child.exported_functions
        }
        child.options = shell_options(found)
        child.arguments = [_value(word) for word in arguments[1:]]
        self.words.shell = child
        status = Status(assumed=True)
        try:
            status = self._script(text)
        except ExitShell as ended:
            status = ended.status
        finally:
            self.end()
            self.words.shell = before
        failed = status.value is False and not status.assumed
        return Status(False) if failed else Status(assumed=True, written=_shown(found))

    def _script(self, text: Word) -> Status:
        shell = self.shell
        shell.depth += 1
        shell.budget.depth(shell.depth)
        shell.budget.text(len(text.text))
        shell.budget.step(1 + len(text.text) // 1000)
        before = shell.source
        try:
            shell.source = Source(text)
            return self.runs.script(shell.source)
        finally:
            shell.source = before
            shell.depth -= 1

    def _unknown_text(self, position: Position, what: str) -> None:
        self.run_record.problem(
            "LNT004",
            f"{what} runs a text that is known only when the script runs",
            "write the command out",
            position,
        )

    def _function(self, name: str, found: list[Word]) -> Status:
        shell = self.shell
        function = shell.functions[name]
        shell.depth += 1
        shell.budget.depth(shell.depth)
        before = shell.source, shell.arguments
        scope: dict[str, Variable] = {}
        shell.scopes.append(scope)
        shell.source, shell.arguments = function.source, [_value(word) for word in found[1:]]
        try:
            return self.runs.body(function.body)
        except ReturnFunction as returned:
            return returned.status
        finally:
            shell.source, shell.arguments = before
            shell.scopes.pop()
            shell.depth -= 1

    def declare(self, command: str, found: list[Word]) -> Status:
        """`export NAME=value` and its kin, whose words were already expanded."""
        options = [word.text for word in found if re.fullmatch(r"[-+][A-Za-z]+", word.text)]
        if self.declares_functions(command, options, found):
            return Status()
        declaration = self.declaration(command, options)
        declare_words(self.words, found, declaration)
        return Status()

    def declares_functions(self, command: str, options: list[str], found: list[Word]) -> bool:
        """`export -f NAME` and its kin, which speak of functions."""
        given = "".join(option[1:] for option in options)
        if "f" not in given.lower() or command == "local":
            return False
        if command == "export" or "x" in given:
            names = {word.text for word in found}
            exported = self.shell.exported_functions
            self.shell.exported_functions = exported - names if "n" in given else exported | names
        return True

    def declaration(self, command: str, options: list[str]) -> Declaration:
        """What `command` with its options says of names."""
        return Declaration.of(command, options, len(self.shell.scopes) > 1)

    def _test(self, arguments: list[Word], found: list[Word]) -> Status:
        return Status(single_brackets(self.words, arguments), False, _shown(found), test=True)

    def _exit(self, found: list[Word]) -> Status:
        code = found[1].text if len(found) > 1 and not found[1].unknown else ""
        status = Status(code == "0") if code else Status()
        if len(found) > 1 and found[1].unknown:
            status = Status(None, False, _shown(found))
        raise (ReturnFunction if found[0].text == "return" else ExitShell)(status)

    def _leave(self, found: list[Word]) -> Status:
        text = found[1].text if len(found) > 1 else "1"
        levels = int(text[:3]) if text.isdigit() else 1
        raise LeaveLoop(max(1, levels), again=found[0].text == "continue")

    def _shift(self, found: list[Word]) -> Status:
        text = found[1].text if len(found) > 1 else "1"
        if self.shell.arguments is None or not text.isdigit():
            return Status()
        count = int(text[:6])
        if count > len(self.shell.arguments):
            return Status(False)
        self.shell.arguments = self.shell.arguments[count:]
        return Status()

    def _set(self, found: list[Word]) -> Status:
        at = set_options(self.shell, found)
        ended = at < len(found) and found[at].text in ("--", "-")
        if ended or at < len(found):
            self.shell.arguments = [_value(word) for word in found[at + ended :]]
        return Status()

    def _trap(self, found: list[Word]) -> Status:
        text, at_end = trapped(found)
        if at_end:
            self.shell.at_exit = text
        elif text and self._launches(text.text):
            self.run_record.problem(
                "LNT004",
                "a launch in `trap` is not followed: it waits for a signal",
                "launch the engine as a statement of its own",
                text.position,
            )
        return Status()

    def _launches(self, text: str) -> bool:
        """A text names the engine, or a function that does."""
        function = self.shell.functions.get(text.strip())
        if function:
            text = function.source.written(function.body)
        return names_engine(text)

    def end(self) -> None:
        """The shell ends: what `trap` keeps for that is run, if it launches anything."""
        text, self.shell.at_exit = self.shell.at_exit, None
        if text and self._launches(text.text):
            with suppress(ExitShell, LeaveLoop):
                self._script(text)

    def _read(self, found: list[Word]) -> Status:
        """What is read is known only when the script runs."""
        for word in found[1:]:
            if re.fullmatch(r"[A-Za-z_]\w*", word.text, re.ASCII) and not word.unknown:
                self.shell.put(word.text, Variable(None, position=word.position))
        return Status(assumed=True, written=_shown(found))

    def _printf(self, found: list[Word]) -> None:
        if len(found) > 2 and (found[0].text, found[1].text) == ("printf", "-v"):
            self._read([found[0], found[2]])

    def _let(self, found: list[Word]) -> Status:
        number: int | None = 0
        for word in found[1:]:
            number = self.words.number_of((word,), 0)
        return Status(None if number is None else number != 0, False, _shown(found), test=True)

    def _eval(self, found: list[Word]) -> Status:
        if len(found) < 2:
            return Status()
        parts: list[Word] = []
        for word in found[1:]:
            parts += [word, Word.at(" ", word.position)]
        text = join(parts[:-1])
        if is_unknown(text):
            self._unknown_text(found[0].position, "`eval`")
            return Status(assumed=True, written=_shown(found))
        return self._script(text)

    def _source(self, found: list[Word]) -> Status:
        name = found[1].text if len(found) > 1 else "a file"
        self.run_record.problem(
            "LNT004",
            f"what `{name}` sets is not read: it is another file",
            "give the variables that it sets, or write them into this script",
            found[0].position,
        )
        return Status(assumed=True, written=_shown(found))

    def _command(self, found: list[Word]) -> Status:
        if len(found) > 1 and found[1].text in ("-v", "-V"):
            return _asked(found)
        if len(found) > 1 and found[1].text in {*self._builtins, *_QUIET, *_DECLARING}:
            return self.start(found[1:])
        return self._process(found) if len(found) > 1 else Status()

    def _exec(self, found: list[Word]) -> Status:
        if len(found) == 1:  # redirections only: a file may be missing, a port closed
            return Status(assumed=True, written="exec")
        self._process(found)
        raise ExitShell(Status(assumed=True))

    def _unset(self, found: list[Word]) -> Status:
        unset(self.words, found)
        return Status()


def _value(word: Word) -> Value:
    return (word,) if word.text else ()


def _asked(found: list[Word]) -> Status:
    return Status(None, False, _shown(found))


def _shown(found: Sequence[Word], text: str = "") -> str:
    return shortened(text or " ".join(word.text for word in found))
