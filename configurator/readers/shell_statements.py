"""Statements: lists, conditions, loops, functions and subshells, walked as the shell would."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from tree_sitter import Node

from configurator.collector.redaction import REDACTED
from configurator.readers.shell_assignments import (
    assign,
    declare_words,
    expanded_value,
)
from configurator.readers.shell_commands import Commands
from configurator.readers.shell_flow import (
    ExitShell,
    LeaveLoop,
    Status,
    shortened,
    touching,
    without_secrets,
)
from configurator.readers.shell_loops import Loops
from configurator.readers.shell_patterns import is_extended, matches
from configurator.readers.shell_source import Source
from configurator.readers.shell_state import (
    Function,
    Run,
    Shell,
    Value,
    is_known,
    text_of,
)
from configurator.readers.shell_tests import double_brackets, single_brackets
from configurator.readers.shell_tokens import split_words
from configurator.readers.shell_tree import clauses, last_command, report_errors
from configurator.readers.shell_words import Words, names_engine
from configurator.words import Word

_ENDING = frozenset(("command", "test_command", "subshell", "pipeline", "compound_statement"))
"""Where `set -e` looks; of a `{ ...; }` the last statement has ended the shell before."""
_IGNORED = frozenset(("comment", "heredoc_body", "heredoc_start", "heredoc_end", "file_redirect"))


class Statements:
    """One way through a script."""

    def __init__(self, shell: Shell, run: Run) -> None:
        self.run = run
        self.words = Words(shell, run)
        self.commands = Commands(self.words, run, self)
        loops = Loops(self.words, run, self.commands, self)
        self.nesting = 0
        self.guards = 0
        self.extra: dict[int, list[tuple[int, int]]] = {}
        self._kinds: dict[str, Callable[[Node], Status]] = {
            "command": self._command,
            "declaration_command": self._declaration,
            "unset_command": self._unset,
            "variable_assignment": self._assignment,
            "variable_assignments": self._assignments,
            "test_command": self._test,
            "negated_command": self._negated,
            "list": self._list,
            "pipeline": self._pipeline,
            "subshell": self._subshell,
            "compound_statement": self._compound,
            "do_group": self._all,
            "redirected_statement": self._redirected,
            "if_statement": self._if,
            "case_statement": self._case,
            "while_statement": loops.while_loop,
            "for_statement": loops.for_loop,
            "c_style_for_statement": loops.arithmetic_loop,
            "function_definition": self._define,
            "ERROR": self._all,
        }

    @property
    def shell(self) -> Shell:
        """The shell that statements run in."""
        return self.words.shell

    def script(self, source: Source) -> Status:
        """Run a script in the shell as it is."""
        report_errors(source, self.run)
        first = source.text.split("\n", 1)[0]
        if re.match(r"#!\S*sh\s+-[a-z]*e", first):
            self.shell.options |= {"errexit"}
        return self._all(source.root)

    def body(self, node: Node) -> Status:
        """Run one statement."""
        kind = self._kinds.get(node.type)
        if kind is None:
            return Status()
        budget = self.shell.budget
        budget.position = self.shell.source.position(self.shell.source.start(node))
        budget.step()
        self.nesting += 1
        budget.depth(self.nesting // 4)
        try:
            status = kind(node)
        finally:
            self.nesting -= 1
        fails = status.value is False and not status.assumed and node.type in _ENDING
        if fails and not self.guards and "errexit" in self.shell.options:
            raise ExitShell(status)
        return status

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Where a statement is asked whether it succeeds: its failure ends nothing."""
        self.guards += 1
        try:
            yield
        finally:
            self.guards -= 1

    def asked(self, nodes: Sequence[Node]) -> Status:
        """Run the statements of a condition."""
        with self.guarded():
            return self.each(nodes)

    def _all(self, node: Node) -> Status:
        return self.each(node.children)

    def each(self, nodes: Sequence[Node]) -> Status:
        """Run statements one after the other."""
        status = Status()
        for at, node in enumerate(nodes):
            if not node.is_named or node.type in _IGNORED:
                continue
            if at + 1 < len(nodes) and nodes[at + 1].type == "&":
                with self._copy():
                    self.body(node)
                status = Status()
            else:
                status = self.body(node)
        return status

    @contextmanager
    def _copy(self) -> Iterator[None]:
        """A subshell: what happens in it stays in it."""
        before = self.shell
        self.words.shell = before.copy()
        try:
            yield
        except (ExitShell, LeaveLoop):
            pass
        finally:
            self.commands.end()
            self.words.shell = before

    def holds(self, status: Status, *, in_list: bool = False) -> bool:
        """Whether the statement succeeds; unknown answers are chosen, one for each run."""
        if status.value is not None and (in_list or not status.assumed):
            return status.value
        yes, no = ("holds", "does not hold") if status.test else ("succeeds", "fails")
        written = status.written or "a command"
        if status.negated:
            written = written.removeprefix("! ")
        key = status.key or written
        return self.run.decide(key, f"`{written}` {yes}", f"`{written}` {no}") != status.negated

    def _declaration(self, node: Node) -> Status:
        source = self.shell.source
        command = node.children[0].type
        options = [
            text
            for child in node.named_children
            if (text := source.written(child))[:1] in "-+" and child.type == "word"
        ]
        declaration = self.commands.declaration(command, options)
        # Every word is expanded before any name is set.
        values: list[tuple[Node, Value]] = []
        found: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                values.append((child, expanded_value(self.words, child)))
            elif child.type not in _IGNORED:
                found += self.words.fields(source.start(child), source.end(child))
        if self.commands.declares_functions(command, options, found):
            return Status()
        for child, value in values:
            assign(self.words, child, declaration, value)
        declare_words(self.words, found, declaration)
        return Status()

    def _unset(self, node: Node) -> Status:
        source = self.shell.source
        found = [Word.at("unset", source.position(source.start(node)))]
        spans = [(source.start(child), source.end(child)) for child in node.named_children]
        for start, end in touching(spans):
            found += self.words.fields(start, end)
        return self.commands.start(found)

    def _assignment(self, node: Node) -> Status:
        assign(self.words, node)
        written = shortened(self.shell.source.written(node))
        return Status(assumed="$(" in written or "`" in written, written=written)

    def _assignments(self, node: Node) -> Status:
        status = Status()
        for child in node.named_children:
            status = self._assignment(child)
        return status

    def _test(self, node: Node) -> Status:
        source = self.shell.source
        opening, closing = node.children[0], node.children[-1]
        start, end = source.end(opening), source.start(closing)
        written = shortened(source.written(node))
        if opening.type == "[[":
            key = text_of(self.words.quoted_value(start, end))
            return Status(double_brackets(self.words, start, end), False, written, key, True)
        if opening.type == "((":
            return self.arithmetic(start, end, written)
        found: list[Word] = []
        texts: list[str] = []
        for first, last in split_words(source.text, start, end):
            fields = self.words.fields(first, last)
            found += fields
            texts += [source.text[first:last]] * len(fields)
        key = " ".join(word.text for word in found)
        return Status(single_brackets(self.words, found, texts), False, written, key, True)

    def arithmetic(self, start: int, end: int, written: str) -> Status:
        """Whether the arithmetic between two offsets is not zero."""
        number = self.words.number(start, end)
        return Status(None if number is None else number != 0, False, written, test=True)

    def _negated(self, node: Node) -> Status:
        with self.guarded():
            status = self.body(node.named_children[-1])
        written = f"! {status.written}" if status.written else ""
        if status.value is None or status.assumed:
            return Status(None, False, written, status.key, status.test, not status.negated)
        return Status(not status.value)

    def _list(self, node: Node) -> Status:
        parts: list[tuple[str, Node]] = []
        while node.type == "list" and len(node.named_children) >= 2:
            operator = next((c.type for c in node.children if c.type in ("&&", "||")), "&&")
            parts.append((operator, node.named_children[-1]))
            node = node.named_children[0]
        with self.guarded():
            status = self.body(node)
        for at, (operator, part) in enumerate(reversed(parts), 1):
            succeeds = self.holds(status, in_list=True)
            if succeeds == (operator == "&&"):
                with self.guarded() if at < len(parts) else nullcontext():
                    status = self.body(part)
            elif not status.assumed:
                status = Status(succeeds)
        return status

    def _pipeline(self, node: Node) -> Status:
        status = Status()
        for child in node.named_children:
            status = self._forked(self.body, child)
        return status

    def _subshell(self, node: Node) -> Status:
        return self._forked(self._all, node)

    def _forked(self, run: Callable[[Node], Status], node: Node) -> Status:
        """Run in a subshell; how it ends."""
        status = Status()
        with self._copy():
            try:
                status = run(node)
            except ExitShell as ended:
                status = ended.status
        return status

    def _compound(self, node: Node) -> Status:
        source = self.shell.source
        if node.children and node.children[0].type == "((":
            start, end = source.end(node.children[0]), source.start(node.children[-1])
            return self.arithmetic(start, end, shortened(source.written(node)))
        return self._all(node)

    def _redirected(self, node: Node) -> Status:
        source = self.shell.source
        body = node.child_by_field_name("body")
        following: list[Node] = []
        words: list[tuple[int, int]] = []
        for child in node.children:
            if child.type == "file_redirect":
                targets = child.children_by_field_name("destination")
                spans = touching([(source.start(t), source.end(t)) for t in targets])
                words += spans[1:]
            elif child.type == "heredoc_redirect":
                following += [c for c in child.named_children if c.type in self._kinds]
                arguments = child.children_by_field_name("argument")
                words += [(source.start(a), source.end(a)) for a in arguments]
        if body is None:
            return Status()
        self.extra[last_command(body).id] = words
        status = self.body(body)
        if status.written == "exec":
            status = replace(status, written=shortened(source.written(node)))
        for part in following:
            status = self.body(part)
        return status

    def _command(self, node: Node) -> Status:
        self._documents(node)
        return self.commands.command(node, self.extra.get(node.id, ()))

    def _documents(self, node: Node) -> None:
        """Say that a launch in a here-document is not followed, if a shell reads it."""
        source = self.shell.source
        start, end = source.start(node), source.end(node)
        for document in source.documents:
            at = document.offset
            if at < start or not names_engine(source.text[document.start : document.end]):
                continue
            first = source.text[start:end].split(None, 1)[0].rpartition("/")[2]
            apart = re.search(r"[\n;|]", source.text[end:at])
            if not apart and first in ("bash", "sh", "ssh", "sudo", "docker"):
                self.run.problem(
                    "LNT004",
                    "a launch in a here-document is not followed",
                    "launch the engine as a statement of its own",
                    source.position(at),
                )

    def _if(self, node: Node) -> Status:
        for conditions, body in clauses(node):
            if not conditions or self.holds(self.asked(conditions)):
                return self.each(body)
        return Status()

    def _case(self, node: Node) -> Status:
        source = self.shell.source
        subject = node.child_by_field_name("value")
        if subject is None:
            return Status()
        value = self.words.value(source.start(subject), source.end(subject))
        text = text_of(value) if is_known(value) else None
        written = shortened(source.written(subject))
        status, falls = Status(), False
        for item in node.named_children:
            if item.type != "case_item":
                continue
            if not falls and not self._matches(item, text, written):
                continue
            patterns = {child.id for child in item.children_by_field_name("value")}
            status = self.each([child for child in item.children if child.id not in patterns])
            ending = source.text[source.start(item.children[-1]) :][:3]
            falls = ending.startswith(";&")
            if not falls and ending != ";;&":
                break
        return status

    def _matches(self, item: Node, text: str | None, written: str) -> bool:
        source = self.shell.source
        nodes = item.children_by_field_name("value")
        spans = touching([(source.start(node), source.end(node)) for node in nodes])
        unknown = text is None
        for start, end in spans:
            self.shell.budget.step()
            pattern = self.words.pattern(start, end)
            if pattern is not None and all(part == ("*", False) for part in pattern) and pattern:
                return True
            if pattern is None or is_extended(pattern):
                unknown = True
            elif text is not None and matches(pattern, text):
                return True
        if not unknown or not spans:
            return False
        patterns = source.text[spans[0][0] : spans[-1][1]]
        key = f"{written} in {patterns}"
        shown = without_secrets(f"{written} = '{patterns}'").removeprefix(f"{written} = ")
        shown = shortened(patterns) if shown == f"'{patterns}'" else REDACTED
        return self.run.decide(
            key, f"`{written}` matches `{shown}`", f"`{written}` does not match `{shown}`"
        )

    def _define(self, node: Node) -> Status:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            source = self.shell.source
            self.shell.functions[source.written(name)] = Function(source, body)
        return Status()
