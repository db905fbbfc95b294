"""`configurator validate PROFILE...`"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path

import click

from configurator.commands.options import (
    content_option,
    fail_on_option,
    findings_format_option,
    open_library,
    open_oracle,
    open_validators,
    oracle_option,
    output_option,
    policy_of,
    selection_options,
)


@click.command("validate")
@click.argument("profiles", metavar="PROFILE...", nargs=-1, required=True)
@findings_format_option
@output_option
@fail_on_option
@selection_options
@oracle_option
@click.option("--quiet", "-q", is_flag=True, help="Leave out findings of severity info.")
@content_option
def command(
    profiles: tuple[str, ...],
    form: str,
    target: Path | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    oracle: str | None,
    quiet: bool,
    content: tuple[Path, ...],
) -> int:
    """Judge profiles before a GPU is touched.

    Every finding has file:line:column, a code, the fact and the remedy; `configurator explain
    CODE` says more. Nothing is started and the network is never used.
    """
    from configurator.report.formats import write_findings
    from configurator.validate import Validation, validate

    # Profiles are trees without cycles, freed as they go: collecting garbage finds none.
    gc.set_threshold(100_000)
    library = open_library(content)
    validators = open_validators(library, "rules")
    policy = policy_of(fail_on, select, ignore, validators)
    validations: Iterable[Validation] = (validate(p, library, validators) for p in profiles)
    if oracle:
        from configurator.oracle.asking import ask_about_profiles

        validations = ask_about_profiles(list(validations), open_oracle(oracle))
    results = map(policy.of_validation, validations)
    return write_findings(results, form, validators.rules, policy, quiet=quiet, target=target)
