"""Pages made from the code: what `explain` prints, and the reference under docs/reference/.

`python -m configurator.docs` rewrites the reference; a test compares it with the committed pages.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from configurator.content import ROOT, Library
from configurator.json_schema import field_descriptions
from configurator.loader import Validators, load_validators
from configurator.probes import Probe
from configurator.rules import Rule
from configurator.schema import profile
from configurator.schema.base import StrictModel
from configurator.schema.content import Claim, Kernel

INPUT_CODES = {
    "SCH001": "The file cannot be read.",
    "SCH002": "The file is not YAML.",
    "SCH003": "A key is written twice; most YAML readers would keep the last without a word.",
    "SCH004": "YAML that profiles do without: tags, merge keys, keys that are not text.",
    "SCH005": "A key that is not known here.",
    "SCH006": "A key that must be there is missing.",
    "SCH007": "A value of the wrong type, or outside what is allowed.",
    "SCH008": "The document is not a mapping.",
    "SCH009": "The document is too large, too deep, or expands without end.",
    "SCH010": "A null that removes nothing: usually a misspelt key.",
    "REF001": "A name that does not exist.",
    "REF002": "A content directory that does not exist.",
    "REF003": "`extends` leads back to itself.",
    "REF004": "An entry whose name differs from its file's.",
    "REF005": "A name on the command line that does not exist.",
    "LOAD001": "A module of rules or probes does not load.",
    "LOAD002": "Two modules define the same rule code or probe name.",
    "INT001": "A rule crashed: a fault of the rule, not of the profile.",
    "EXP001": "An expected value that is missing, not wanted, or not of the kind a probe takes.",
    "COL001": "A server, file or directory that evidence cannot be collected from.",
    "COL002": "An API key that cannot be read.",
    "SUP001": "A suppression without a reason.",
    "SUP002": "A suppression of a code that does not exist.",
    "SUP003": "A suppression that suppresses nothing.",
}
"""Codes that no rule module defines: the input cannot be used, or the tool itself speaks."""

_MARK = "<!-- made by `python -m configurator.docs`; edit the code instead -->"


def rule_page(rule: Rule) -> str:
    """A rule's page, as `explain` prints it."""
    head = f"{rule.code} {rule.name} ({rule.severity})"
    return f"{head}\n\n{docstring(rule.doc)}\n\nSource: {rule.source}"


def probe_page(probe: Probe) -> str:
    """A probe's page, as `explain` prints it."""
    takes = f"={probe.takes}" if probe.takes else ""
    head = f"{probe.name}{takes} ({probe.kind}, proven from {probe.proof_rung} up)"
    return f"{head}\n\n{docstring(probe.doc)}"


def kernel_page(kernel: Kernel) -> str:
    """A mechanism's page, as `explain` prints it."""
    lines = [f"{kernel.name} (mechanism, {kernel.status})", "", kernel.summary]
    for title, items in (
        ("Notes", kernel.notes),
        ("Not public", kernel.unknown),
        ("Alternatives", kernel.alternatives),
        ("Excludes", kernel.excludes),
        ("Options", [f"{name}: {option.description}" for name, option in kernel.options.items()]),
        ("Judged by", [f"{e.mechanism}: probe {e.probe}" for e in kernel.evidence]),
        ("Published figures", [claim_line(claim) for claim in kernel.claims]),
        ("Sources", kernel.sources),
    ):
        if items:
            lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
    return "\n".join(lines)


def claim_line(claim: Claim) -> str:
    """A published figure with its conditions in one line."""
    conditions = ", ".join(f"{name} {value}" for name, value in claim.conditions.items())
    before = f" (baseline {claim.baseline})" if claim.baseline is not None else ""
    again = "reproduced" if claim.reproduced else "not reproduced by others"
    return (
        f"{claim.figure}: {claim.value} {claim.unit}{before}; {conditions}; "
        f"measured by {claim.measured_by}, {again}"
    )


def docstring(text: str) -> str:
    """A docstring without its indentation."""
    first, _, rest = text.strip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def reference(library: Library, validators: Validators) -> dict[str, str]:
    """Every page of docs/reference/ by file name."""
    return {
        "rules.md": _rules(validators),
        "probes.md": _probes(validators),
        "profile.md": _profile(),
        "content.md": _content(library),
        "cli.md": _cli(),
    }


def _rules(validators: Validators) -> str:
    parts = ["# Findings", _MARK, "## Input", ""]
    parts += [f"- **{code}** {text}" for code, text in INPUT_CODES.items()]
    for rule in validators.rules.values():
        parts += ["", f"## {rule.code} {rule.name}", "", f"Severity: {rule.severity}.", ""]
        parts += [_markdown(docstring(rule.doc)), "", f"Source: {rule.source}"]
    return "\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    """`Bad:` and `Good:` blocks as fenced YAML."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if fenced and line and not line.startswith(" "):
            while lines[-1] == "":
                lines.pop()
            lines += ["```", ""]
            fenced = False
        if line in ("Bad:", "Good:"):
            lines += [line, "", "```yaml"]
            fenced = True
        else:
            lines.append(line.removeprefix("    ") if fenced else line)
    return "\n".join([*lines, "```"] if fenced else lines)


def _probes(validators: Validators) -> str:
    parts = ["# Probes", _MARK]
    for kind in ("mechanism", "invariant"):
        parts += ["", f"## {kind.capitalize()}s"]
        for probe in validators.probes.values():
            if probe.kind == kind:
                takes = f"={probe.takes}" if probe.takes else ""
                parts += ["", f"### {probe.name}{takes}", ""]
                parts += [f"Proven from `{probe.proof_rung}` up.", "", docstring(probe.doc)]
    return "\n".join(parts) + "\n"


def _profile() -> str:
    parts = ["# Profile", _MARK]
    models = [
        value
        for value in vars(profile).values()
        if isinstance(value, type)
        and issubclass(value, StrictModel)
        and value.__module__ == profile.__name__
    ]
    for model in reversed(models):
        parts += ["", f"## {model.__name__}", "", docstring(model.__doc__ or ""), ""]
        fields = {f.alias or n: f for n, f in model.model_fields.items()}
        for name, text in field_descriptions(model).items():
            need = "required" if fields[name].is_required() else "optional"
            parts.append(f"- `{name}` ({need}): {' '.join(text.split())}")
    return "\n".join(parts) + "\n"


def _content(library: Library) -> str:
    from configurator.commands.list import KINDS, rows

    parts = ["# Content", _MARK]
    for kind in KINDS:
        if kind in ("rules", "probes", "targets"):
            continue
        parts += ["", f"## {kind.capitalize()}", ""]
        parts += [f"- `{name}`: {summary}" for name, summary in rows(kind, library)]
    return "\n".join(parts) + "\n"


def _cli() -> str:
    import click

    from configurator.cli import COMMANDS, cli

    parts = ["# Command line", _MARK]
    for verb in ("", *COMMANDS):
        command = cli.get_command(click.Context(cli), verb) if verb else cli
        assert command is not None
        name = f"configurator {verb}".strip()
        # A fixed width, so that the page does not depend on the terminal of whoever made it.
        context = click.Context(command, info_name=name, terminal_width=88, max_content_width=88)
        parts += ["", f"## {name}", "", "```text", command.get_help(context), "```"]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Rewrite docs/reference/ of the checkout."""
    library = Library()
    folder = ROOT / "docs" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in reference(library, load_validators(library.roots)).items():
        Path(folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main()
