"""The reference under docs/reference/, made from the code.

`python -m configurator.docs` rewrites the reference; a test compares it with the committed pages.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from configurator.content import ROOT, Library
from configurator.json_schema import field_descriptions
from configurator.loader import Validators, load_validators
from configurator.pages import INPUT_CODES, docstring
from configurator.schema import profile
from configurator.schema.base import StrictModel

_MARK = "<!-- made by `python -m configurator.docs`; edit the code instead -->"


def reference(library: Library, validators: Validators) -> dict[str, str]:
    """Every page of docs/reference/ by file name."""
    return {
        "rules.md": _rules(validators),
        "probes.md": _probes(validators),
        "profile.md": _profile(),
        "content.md": _content(library),
        "cli.md": _cli(),
        "predictions.md": _predictions(library),
        "plans.md": _plans(),
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


def _predictions(library: Library) -> str:
    from configurator.plan.geometry import geometry_of
    from configurator.plan.prediction_errors import held_out
    from configurator.report.predictions import as_page

    held = held_out(library, geometry_of)
    unseen = held_out(library, geometry_of, whole_model=True)
    return "\n".join(["# Predictions", _MARK, "", *as_page(held, unseen)]) + "\n"


_PLANNED = (
    ("ling-3.0-flash-spark", "--accepted", "2.68"),
    ("muse-spark-open-gb300x8",),
    ("muse-spark-open-gb300x8", "muse-spark-open-gb300x8-tp8"),
)
"""What `plan` is asked on the page of plans."""


def _plans() -> str:
    """What `plan` prints, as a reader of 100 columns sees it."""
    from configurator.commands.plan import command

    parts = ["# Plans", _MARK]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        for words in _PLANNED:
            with redirect_stdout(StringIO()) as said:
                command.main(list(words), prog_name="configurator plan", standalone_mode=False)
            told = said.getvalue().rstrip()
            shown = f"$ configurator plan {' '.join(words)}"
            parts += [
                "",
                f"## {' and '.join(w for w in words if w[0].isalpha())}",
                "",
                "```text",
                shown,
                told,
                "```",
            ]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
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
        context = click.Context(
            command,
            info_name=name,
            terminal_width=88,
            max_content_width=88,
            help_option_names=["-h", "--help"],
        )
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
