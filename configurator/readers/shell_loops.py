"""Loops: `for`, `while` and `until`, as far as their number of rounds can be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tree_sitter import Node

from configurator.readers.shell_commands import Commands
from configurator.readers.shell_flow import LeaveLoop, Status, shortened, touching
from configurator.readers.shell_state import Run, Shell, Variable
from configurator.readers.shell_words import Words
from configurator.words import Invocation, Word

_ENDLESS = frozenset(
    ("true", ":", "[ 1 ]", "[ true ]", "[[ 1 ]]", "[[ true ]]", "((1))", "(( 1 ))")
)
_ENDLESS_ROUNDS = 64


class Runs(Protocol):
    """What runs the statements of a loop."""

    def body(self, node: Node) -> Status:
        """Run one statement."""

    def asked(self, nodes: Sequence[Node]) -> Status:
        """Run the statements of a condition."""

    def arithmetic(self, start: int, end: int, written: str) -> Status:
        """Whether the arithmetic between two offsets is not zero."""


class Loops:
    """Runs the loops of one way through a script."""

    def __init__(self, words: Words, run: Run, commands: Commands, runs: Runs) -> None:
        self.words = words
        self.run = run
        self.commands = commands
        self.runs = runs

    @property
    def shell(self) -> Shell:
        """The shell that loops run in."""
        return self.words.shell

    def while_loop(self, node: Node) -> Status:
        """`while` and `until`."""
        conditions = node.children_by_field_name("condition")
        body = node.child_by_field_name("body")
        until = node.children[0].type == "until"
        if body is None:
            return Status()
        asked = [n for n in conditions if n.is_named]
        text = shortened(self.shell.source.written(asked[0])) if len(asked) == 1 else ""
        endless = text == "false" if until else text in _ENDLESS
        return self._loop(
            lambda: self.runs.asked(conditions),
            lambda: self.runs.body(body),
            until=until,
            endless=endless,
        )

    def _loop(
        self,
        condition: Callable[[], Status],
        body: Callable[[], Status],
        *,
        until: bool = False,
        endless: bool = False,
    ) -> Status:
        """Go round while the condition is known to hold; once when it is unknown.

        A loop that changes nothing ends, and so does one that is meant to go on for ever: what
        it starts again and again counts once.
        """
        start = len(self.run.found)
        rounds = 0
        while True:
            before = self._variables()
            status = condition()
            if status.value is None or status.assumed:
                self._once(status, body, until)
                break
            if status.value == until:
                break
            if not self._round(body):
                break
            rounds += 1
            if endless:
                self.run.found[start:] = _distinct(self.run.found[start:])
            if self._variables() == before or (endless and rounds >= _ENDLESS_ROUNDS):
                break
        return Status()

    def _once(self, status: Status, body: Callable[[], Status], until: bool) -> None:
        if "$#" in status.written or "$1" in status.written:
            return  # a loop over the script's arguments, of which none are known
        verb = ("does not hold", "holds") if status.test else ("fails", "succeeds")
        self.commands.loop_conditions.append(f"`{status.written}` {verb[not until]}")
        try:
            self._round(body)
        finally:
            self.commands.loop_conditions.pop()

    def _round(self, body: Callable[[], Status]) -> bool:
        """Run a loop's body; False when the loop ends with it."""
        try:
            body()
        except LeaveLoop as leave:
            if leave.levels > 1:
                raise LeaveLoop(leave.levels - 1, again=leave.again) from None
            return leave.again
        return True

    def _variables(self) -> tuple[list[dict[str, Variable]], int]:
        """What a round may change; of the arguments only how many are left."""
        self.shell.budget.step(sum(map(len, self.shell.scopes)) // 100)
        return [dict(scope) for scope in self.shell.scopes], len(self.shell.arguments or ())

    def for_loop(self, node: Node) -> Status:
        """`for NAME in WORDS`, and `select`."""
        source = self.shell.source
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return Status()
        name, place = source.written(variable), source.position(source.start(variable))
        words: list[Word] = []
        if any(child.type == "in" for child in node.children):
            values = node.children_by_field_name("value")
            for start, end in touching([(source.start(v), source.end(v)) for v in values]):
                words += self.words.fields(start, end)
        elif self.shell.arguments is not None:
            words = [w for value in self.shell.arguments for w in value]
        for word in words:
            self.shell.budget.step()
            self.shell.assign(name, (word,) if word.text else (), place)
            if not self._round(lambda: self.runs.body(body)):
                break
        return Status()

    def arithmetic_loop(self, node: Node) -> Status:
        """`for ((...; ...; ...))`."""
        body = node.child_by_field_name("body")
        source = self.shell.source
        opening = next((c for c in node.children if c.type == "(("), None)
        closing = next((c for c in node.children if c.type == "))"), None)
        if body is None or opening is None or closing is None:
            return Status()
        header = source.text[source.end(opening) : source.start(closing)]
        parts = header.split(";")
        if len(parts) != 3:
            return Status()
        start = source.end(opening)
        first = (start, start + len(parts[0]))
        second = (first[1] + 1, first[1] + 1 + len(parts[1]))
        third = (second[1] + 1, second[1] + 1 + len(parts[2]))
        self.words.number(*first)

        def condition() -> Status:
            if not parts[1].strip():
                return Status()
            return self.runs.arithmetic(*second, f"(( {parts[1].strip()} ))")

        def step() -> Status:
            try:
                return self.runs.body(body)
            except LeaveLoop as leave:
                if not leave.again or leave.levels > 1:
                    raise
                return Status()
            finally:
                self.words.number(*third)

        return self._loop(condition, step)


def _distinct(found: list[Invocation]) -> list[Invocation]:
    return [one for at, one in enumerate(found) if one not in found[:at]]
