"""`configurator demo`"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.judge import Judgement
    from configurator.loader import Validators

FLAGSHIP = "ling-3.0-flash-spark"
EXPECTED = ("fp8-lm-head", "lm-head-shared", "speculative-acceptance=2.0", "draft-tokens=4")
RECORDINGS = ("healthy", "sabotaged")


@click.command("demo")
def command() -> int:
    """Show the whole way on a recording, without GPU, network or engine.

    Validates and renders a flagship deployment, then runs the full self-check over HTTP against
    a local server that replays recordings of real SGLang servers: one healthy, one in which the
    draft reads the target's FP8 LM head as if it were not quantized.
    """
    from configurator.commands.options import open_library, open_validators

    started = time.monotonic()
    library = open_library(())
    validators = open_validators(library)
    _launch(library, validators)
    click.secho("3. check: what the same flags did, healthy and sabotaged", bold=True)
    click.echo(
        "   The engine is a recording: real SGLang 0.5.23 with a tiny synthetic model on a CPU,\n"
        "   replayed by a local server. Both servers had the same flags, were healthy and gave\n"
        "   the same text. In the second, the draft aliases only the weight of the FP8 LM head."
    )
    judgements = [_check(name, validators) for name in RECORDINGS]
    _compare(judgements)
    elapsed = time.monotonic() - started
    expected = [judgement.exit_code for judgement in judgements] == [0, 1]
    click.echo(f"   {elapsed:.1f} s. On a server of yours: configurator check {FLAGSHIP} --url URL")
    return 0 if expected else 1


def _launch(library: Library, validators: Validators) -> None:
    from configurator.render import TARGETS, write
    from configurator.validate import validate

    click.secho("1. validate: before a GPU is touched", bold=True)
    for name in (FLAGSHIP, f"{FLAGSHIP}-upstream"):
        result = validate(name, library, validators)
        errors = [f for f in result.findings if f.severity == "error" and f.suppressed is None]
        colour = "red" if errors else "green"
        state = f"refused, {len(errors)} errors" if errors else "clean"
        click.echo(f"   {name}: {click.style(state, fg=colour, bold=True)}")
        for finding in errors:
            click.echo(f"     {finding.code} {finding.name}")
    deployment = validate(FLAGSHIP, library, validators).deployment
    assert deployment is not None
    click.secho("2. render: the script that launches it", bold=True)
    with tempfile.TemporaryDirectory(prefix="configurator-demo-") as folder:
        written = write(TARGETS["bash"](deployment), Path(folder))
        script = next(path for path in written if path.name.startswith("replica0"))
        lines = script.read_text(encoding="utf-8").splitlines()
        names = ", ".join(dict.fromkeys(path.relative_to(folder).parts[0] for path in written))
        click.echo(f"   {names}; among the arguments:")
        for flag in ("--moe-runner-backend", "--speculative-algorithm"):
            line = next(line.strip() for line in lines if line.strip().startswith(flag))
            click.echo(f"     {line}")


def _check(name: str, validators: Validators) -> Judgement:
    """The whole self-check over HTTP against the server that replays one recording."""
    from configurator.collector.collecting import collect
    from configurator.demo.server import RecordedServer, recording
    from configurator.evidence.read import read_evidence
    from configurator.judge import expectation_from, judge

    expectations = tuple(expectation_from(text, validators.probes) for text in EXPECTED)
    with (
        tempfile.TemporaryDirectory(prefix="configurator-demo-") as folder,
        RecordedServer(recording(name)) as server,
    ):
        out = Path(folder) / "evidence"
        collect({0: server.url}, out, logs={0: server.log}, reports={0: server.reports})
        return judge(expectations, read_evidence(out), validators)


def _compare(judgements: list[Judgement]) -> None:
    from configurator.report.terminal import answer_style, paragraph

    healthy, sabotaged = (
        {verdict.mechanism: verdict for verdict in judgement.verdicts} for judgement in judgements
    )
    width = max(len(name) for name in healthy)
    click.echo(f"   {'':<{width}}  {RECORDINGS[0]:<14} {RECORDINGS[1]}")
    for name, verdict in healthy.items():
        cells = f"{answer_style(verdict.answer)} {answer_style(sabotaged[name].answer, 0)}"
        click.echo(f"   {name:<{width}}  {cells}")
        if verdict.answer is not sabotaged[name].answer:
            paragraph(verdict.summary, "     healthy:   ")
            paragraph(sabotaged[name].summary, "     sabotaged: ")
    codes = [judgement.exit_code for judgement in judgements]
    click.echo(f"   {'exit code':<{width}}  {codes[0]:<14} {codes[1]}")
