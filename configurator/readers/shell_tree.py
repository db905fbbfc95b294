"""What the syntax tree of a script holds, where its shape is not that of the shell."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from configurator.readers.shell_flow import shortened
from configurator.readers.shell_source import Source
from configurator.readers.shell_state import Run


def last_command(node: Node) -> Node:
    """The command that the redirections of a list or pipeline belong to."""
    while node.type in ("list", "pipeline", "negated_command", "redirected_statement"):
        if not node.named_children:
            break
        node = node.named_children[-1]
    return node


def clauses(node: Node) -> Iterator[tuple[list[Node], list[Node]]]:
    """Conditions and body of `if`, of each `elif`, and of `else`, which has no condition."""
    parts = [node, *(c for c in node.children if c.type in ("elif_clause", "else_clause"))]
    for part in parts:
        conditions: list[Node] = []
        body: list[Node] = []
        current = body if part.type == "else_clause" else conditions
        for child in part.children:
            if child.type == "then":
                current = body
            elif child.type not in ("elif_clause", "else_clause", "if", "elif", "else", "fi"):
                current.append(child)
        yield conditions, body


def report_errors(source: Source, run: Run) -> None:
    """Say where a script is no shell; reading goes on with the rest."""
    for number, node in enumerate(source.errors()):
        if number == 20:
            break
        position = source.position(source.start(node))
        if node.is_missing:
            fact, remedy = f"`{node.type}` is missing here", f"add `{node.type}`"
        else:
            text = shortened(source.written(node))[:40]
            fact, remedy = f"this is not understood as shell: `{text}`", "check quotes and brackets"
        run.problem("LNT002", fact, remedy, position)
