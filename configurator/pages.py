"""Pages about one thing, as `explain` prints them and the reference collects them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from configurator.rules import Rule
from configurator.schema.claims import Published, stated, unstated
from configurator.schema.content import Kernel
from configurator.schema.selftests import SelfTest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from configurator.plan.consistency import Checked
    from configurator.probes import Probe

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
    "REF006": "Two published figures of one id.",
    "REF007": "A kernel without a self-test.",
    "REF008": "A plugin of a kernel entry that a launch cannot bring along.",
    "LOAD001": "A module of rules or probes does not load.",
    "LOAD002": "Two modules define the same rule code or probe name.",
    "INT001": "A rule crashed: a fault of the rule, not of the profile.",
    "EXP001": "An expected value that is missing, not wanted, or not of the kind a probe takes.",
    "EVD001": "A directory without evidence in it.",
    "EVD002": "A file of the evidence that cannot be read.",
    "EVD003": "Evidence that lacks files which its manifest names.",
    "EVD004": "Evidence in a format that this version does not know.",
    "EVD005": "A trace without what is asked of it.",
    "CAT001": "An engine's wheel or source tree that cannot be opened.",
    "CAT002": "A wheel or source tree without the engine's arguments in it.",
    "CAT003": "A source tree that does not say its version.",
    "CAT004": "A file of catalogues that cannot be read.",
    "PLN001": "A value that a plan is asked with and that cannot be.",
    "PLN002": "Evidence of another launch than the profile's, which its prediction is not of.",
    "PLN003": "A run that shows nothing of what was predicted.",
    "PLN004": "A store of predictions that cannot be read or written.",
    "PLN005": "A PNG that cannot be drawn here.",
    "PLN006": "A server to compare with that does not answer.",
    "PLN007": "A host of which no measured step is kept.",
    "RND001": "A value with a NUL character or half a character, which nothing can pass on.",
    "RND002": "A file in the way that was not made by configurator.",
    "RND003": "A folder that cannot be written.",
    "RND004": "A target that needs a container image, and none is known.",
    "RND005": "Rendered files that are not what the profile renders to now.",
    "RND006": "A value that a unit of systemd cannot carry, for instance a NUL.",
    "RND007": "Files for Kubernetes that are more than a ConfigMap holds.",
    "RND008": "A rendered profile that was changed: not the launch or the demands it says.",
    "RND009": "A checkpoint with a path that cannot be mounted into a container.",
    "COL001": "A server, file or directory that evidence cannot be collected from.",
    "COL002": "An API key that cannot be read.",
    "LNT001": "A file with launches that cannot be read.",
    "LNT002": "A piece of a script that cannot be parsed; the rest is read.",
    "LNT003": "A file that is broken, or too large or too deep to be read whole.",
    "LNT004": "What a launch file refers to and is not followed: other files, other hosts.",
    "LNT005": "A file in which nothing starts the engine.",
    "LNT006": "A launch of another engine.",
    "LNT007": "A launch whose program, or whose ranks, stand elsewhere.",
    "LNT008": "Variables that never reach the engine: sudo starts it without them.",
    "LNT009": "Shell syntax where no shell runs: compose passes it on or drops it.",
    "LNT010": "Options that never reach the engine: a comment or a missing backslash ends it.",
    "LNT011": "A command in a shape that cannot start: one word, a line, or a number in a list.",
    "LNT012": "A shell that gets a launch word by word: only the first word is its script.",
    "LNT013": "A value that YAML takes for a number, and that may arrive written otherwise.",
    "LNT014": "A template that is not rendered: its placeholders are not judged.",
    "LNT015": "A file that names the engine, and in which no launch could be read.",
    "IMP001": "A value known only where the launch runs; the profile does without it.",
    "IMP002": "A word of a launch that a profile cannot hold.",
    "IMP003": "An argument given again; only the last counts and is kept.",
    "IMP004": "A profile that does not give back the launch it was made of.",
    "IMP005": "A key in clear, which is not copied into a profile.",
    "IMP008": "A value that the profile's key for it does not take.",
    "IMP006": "A file in the way of an import.",
    "IMP007": "Several launches where one is to be imported.",
    "ORC001": "What the engine could not be asked, or was asked with assumptions.",
    "ORC002": "A Python for the oracle that cannot be run.",
    "ORC003": "A Python for the oracle that cannot import the engine.",
    "ORC004": "An oracle that ended, or that did not answer.",
    "ORC101": "The engine itself refuses the launch.",
    "ORC102": "The engine itself changes an argument without being asked.",
    "ORC103": "The engine itself warns of the launch.",
    "ORC104": "The engine and our rules differ about a launch.",
    "SLF001": "An engine's Python for the self-test that cannot be run.",
    "SLF002": "An engine's Python for the self-test that has no engine.",
    "SLF003": "An engine for the self-test of another release than its stand-ins follow.",
    "SLF004": "Models for the self-test that cannot be made.",
    "KRN001": "A Python for the kernels' self-tests that cannot be run.",
    "KRN002": "A file of a host's figures that cannot be read or written.",
    "RUN001": "A deployment that runs already on this host, or whose lock cannot be opened.",
    "RUN002": "The address of another host, which must be given.",
    "RUN003": "A secret that cannot be read, or that is empty.",
    "RUN004": "A program of the engine that does not exist or cannot be started.",
    "RUN005": "A report directory that is not empty, or that cannot be used.",
    "SUP001": "A suppression without a reason.",
    "SUP002": "A suppression of a code that does not exist.",
    "SUP003": "A suppression that suppresses nothing.",
}
"""Codes that no rule module defines: the input cannot be used, or the tool itself speaks."""


def rule_page(rule: Rule) -> str:
    """A rule's page, as `explain` prints it."""
    head = f"{rule.code} {rule.name} ({rule.severity})"
    return f"{head}\n\n{docstring(rule.doc)}\n\nSource: {rule.source}"


def probe_page(probe: Probe) -> str:
    """A probe's page, as `explain` prints it."""
    takes = f"={probe.takes}" if probe.takes else ""
    head = f"{probe.name}{takes} ({probe.kind}, proven from {probe.proof_rung} up)"
    return f"{head}\n\n{docstring(probe.doc)}"


def kernel_page(kernel: Kernel, claims: Iterable[Published] = ()) -> str:
    """A mechanism's page, as `explain` prints it; `claims` are the figures that are about it."""
    lines = [f"{kernel.name} (mechanism, {kernel.status})", "", kernel.summary]
    for title, items in (
        ("Notes", kernel.notes),
        ("Not public", kernel.unknown),
        ("Alternatives", kernel.alternatives),
        ("Excludes", kernel.excludes),
        ("Options", [f"{name}: {option.description}" for name, option in kernel.options.items()]),
        ("Brought along with provider: configurator", _brought(kernel)),
        ("Judged by", [f"{e.mechanism}: probe {e.probe}" for e in kernel.evidence]),
        ("Tried by", [selftest_line(test) for test in kernel.selftests]),
        ("Published figures", [f"{c.shown}, {c.claim.figure} ({c.id})" for c in claims]),
        ("Sources", kernel.sources),
    ):
        if items:
            lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
    return "\n".join(lines)


def _brought(kernel: Kernel) -> list[str]:
    """The plugin that a launch brings along, in one line; [] where there is none."""
    plugin = kernel.plugin
    return [f"{plugin.package}, for SGLang {', '.join(plugin.releases)}"] if plugin else []


def selftest_line(test: SelfTest) -> str:
    """A self-test with what is promised of it, in one line."""
    promised = ", ".join(f"{name} at least {least:g}" for name, least in test.minimum.items())
    return f"`configurator kernels test {test.name}`{': ' if promised else ''}{promised}"


def claim_page(
    published: Published, claims: Mapping[str, Published], checked: Sequence[Checked]
) -> str:
    """A published figure's page, as `explain` prints it."""
    claim, run = published.claim, published.run
    kind = "computed from published figures" if claim.derived else "published figure"
    by = f", by {run.reproduced_by}" if run.reproduced_by else ""
    facts = [
        f"Statistic: {claim.statistic or 'not stated'}",
        f"Sample: {published.sample_text}",
        f"Measured by: {run.measured_by}",
        f"Reproduced: {run.reproduced}{by}",
        f"Published: {run.source}; {run.date or 'date not stated'}",
    ]
    if claim.derived:
        facts.insert(0, f"Formula: {claim.derived}")
    if claim.baseline is not None:
        base = claims[claim.baseline]
        facts.insert(0, f"Compared with: {base.shown}, {base.claim.figure} ({base.id})")
    lines = [f"{published.id} ({kind}, {claim.quantity})", ""]
    lines += [f"{published.shown}: {claim.figure}", f"Run: {run.summary} ({published.entry})"]
    mine = [c for c in checked if claim.id in (*c.relation.of, *c.relation.against)]
    for title, items in (
        ("Conditions", [f"{name}: {text}" for name, text in stated(published.conditions)]),
        ("Not stated", unstated(published.conditions)),
        ("Of the figure", facts),
        ("Caveats", published.caveats),
        ("Agrees", [f"{c.relation.name}: {c.text}" for c in mine if c.holds]),
        ("Does not agree", [
            ": ".join(filter(None, (c.relation.name, c.text, c.relation.note)))
            for c in mine if not c.holds
        ]),
    ):  # fmt: skip
        if items:
            lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
    return "\n".join(lines)


def docstring(text: str) -> str:
    """A docstring without its indentation."""
    first, _, rest = text.strip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()
