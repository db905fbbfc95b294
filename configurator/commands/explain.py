"""`configurator explain CODE`"""

from __future__ import annotations

from pathlib import Path

import click

from configurator.commands.options import content_option, open_library, open_validators


@click.command("explain")
@click.argument("name", metavar="CODE|PROBE|MECHANISM|CLAIM")
@content_option
def command(name: str, content: tuple[Path, ...]) -> int:
    """Explain a finding's code, a probe, a mechanism or a published figure."""
    from configurator.errors import ConfiguratorError, did_you_mean
    from configurator.pages import INPUT_CODES, claim_page, kernel_page, probe_page, rule_page
    from configurator.plan.consistency import consistency

    library = open_library(content)
    validators = open_validators(library)
    code = name.upper()
    by_name = {rule.name: rule for rule in validators.rules.values()}
    kernels, claims = library.names("kernel"), library.claims()
    pages: list[str] = []
    if code in INPUT_CODES:
        pages.append(f"{code}\n\n{INPUT_CODES[code]}")
    elif code in validators.rules or name in by_name:
        pages.append(rule_page(validators.rules.get(code) or by_name[name]))
    if name in validators.probes:
        pages.append(probe_page(validators.probes[name]))
    if name in kernels:
        about = [c for c in claims.values() if c.names_mechanism(name)]
        pages.append(kernel_page(library.kernel(name), about))
    if name in claims:
        pages.append(claim_page(claims[name], claims, consistency(library)))
    if not pages:
        known = [*INPUT_CODES, *validators.rules, *by_name, *validators.probes, *kernels, *claims]
        raise ConfiguratorError.single(
            "REF005", f"nothing is named {name!r}", did_you_mean(name, known)
        )
    click.echo("\n\n".join(pages))
    return 0
