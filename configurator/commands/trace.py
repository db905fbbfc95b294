"""`configurator trace FILE...`"""

from __future__ import annotations

from pathlib import Path

import click

from configurator.commands.options import content_option, format_option, open_library


@click.command("trace")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
    help="Draw one step of every file as a timeline by family, the first on top.",
)
@format_option
@content_option
def command(
    files: tuple[Path, ...], plot: Path | None, output: str, content: tuple[Path, ...]
) -> int:
    """Say what the GPU ran: steps, launches, kernels and their families.

    FILE is a trace of the engine's profiler (kineto JSON, plain or gzipped), of one rank. By kind
    of step: how many, launches and of those graph launches, kernels, time on the GPU and the CPU
    and idle gaps; then the families of kernels with their time. Several files stand side by side,
    the first as what the others are compared with. Counts are means over the steps, times medians.
    """
    from configurator.errors import ConfiguratorError
    from configurator.evidence.trace import read_trace
    from configurator.families import Families

    if plot is not None and plot.suffix != ".svg":
        raise click.UsageError(f"--plot {plot}: a name that ends in .svg is wanted")
    families = Families.of_content(open_library(content).families())
    traces = [(str(path), read_trace(path)) for path in files]
    for name, trace in traces:
        if not trace.events:
            raise ConfiguratorError.single(
                "EVD005", f"{name} holds no events of a profiler",
                "give a trace of the engine's profiler, NAME.trace.json.gz",
            )  # fmt: skip
    if plot is not None:
        from configurator.report.formats import write
        from configurator.report.trace_svg import picture

        try:
            write(picture(traces, families), plot)
        except ValueError as error:
            raise ConfiguratorError.single(
                "EVD005", f"--plot: {error}", "record the trace on a GPU, while requests run"
            ) from error
    if output == "json":
        from configurator.report.trace_json import as_json

        click.echo(as_json(traces, families))
    else:
        from configurator.report.trace_text import lines

        click.echo("\n".join(lines(traces, families)).rstrip())
    return 0
