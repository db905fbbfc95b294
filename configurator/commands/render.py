"""`configurator render PROFILE -o DIR`"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import content_option, open_library, open_validators

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.deployment import Deployment
    from configurator.render import RenderedFile
    from configurator.render.drift import Drift


@click.command("render")
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--target", help="What to render to: bash (default), or another of `configurator list targets`."
)
@click.option("--all", "everything", is_flag=True, help="Every target, each in its own folder.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder to write to.",
)
@click.option(
    "--check",
    "rendered",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Write nothing; say where DIR differs from what the profile renders to.",
)
@click.option(
    "--print",
    "printed",
    type=click.Choice(["json"]),
    help="Write nothing; print every process with its words and variables.",
)
@content_option
def command(
    profile: str,
    target: str | None,
    everything: bool,
    out: Path | None,
    rendered: Path | None,
    printed: str | None,
    content: tuple[Path, ...],
) -> int:
    """Write the files that launch a deployment.

    The profile is validated first; with an error nothing is written. What is written checks its
    host, launches, waits with progress, and checks the server from evidence.
    """
    from configurator.report.terminal import print_validations
    from configurator.validate import validate

    _check_options(target, everything, out, rendered, printed)
    library = open_library(content)
    result = validate(profile, library, open_validators(library, "rules"))
    code = result.exit_code("error")
    if code or result.deployment is None:
        print_validations([result], quiet=True)
        click.echo(f"nothing rendered: {profile} has errors", err=True)
        return code
    if printed:
        return _print(result.deployment)
    files = _files(result.deployment, target or "bash", everything)
    if rendered:
        return _compare(result.deployment, files, rendered, library, everything)
    _warn_of_content(library.roots[1:])
    return _write(result.deployment, files, out)


def _check_options(
    target: str | None,
    everything: bool,
    out: Path | None,
    rendered: Path | None,
    printed: str | None,
) -> None:
    from configurator.errors import ConfiguratorError, did_you_mean
    from configurator.render import TARGETS

    if target is not None and target not in TARGETS:
        raise ConfiguratorError.single(
            "REF005", f"no render target is named {target!r}", did_you_mean(target, TARGETS)
        )
    if target is not None and everything:
        raise click.UsageError("give one of --target and --all")
    if sum(wish is not None for wish in (out, rendered, printed)) != 1:
        raise click.UsageError("give one of -o DIR, --check DIR and --print json")
    if printed and (target is not None or everything):
        raise click.UsageError("--print lists the processes, which are the same for every target")


def _print(deployment: Deployment) -> int:
    from configurator.render import listing
    from configurator.render.files import PROBE, REPORTS
    from configurator.render.launches import Folders

    click.echo(listing(deployment, Folders(PROBE, REPORTS)), nl=False)
    return 0


def _files(deployment: Deployment, target: str, everything: bool) -> tuple[RenderedFile, ...]:
    from configurator.render import TARGETS, render_all

    return render_all(deployment) if everything else TARGETS[target](deployment)


def _made_with_all(folder: Path) -> list[str]:
    """The targets that have a folder each in this one, as `--all` makes them."""
    from configurator.render import TARGETS

    made = [name for name in TARGETS if (folder / name).is_dir()]
    return made if len(made) > 1 and not (folder / "START.md").exists() else []


def _compare(
    deployment: Deployment,
    files: tuple[RenderedFile, ...],
    folder: Path,
    library: Library,
    everything: bool,
) -> int:
    from configurator.render import drift

    if not everything and (made := _made_with_all(folder)):
        click.echo(
            f"RND005: {folder} has a folder for each of {', '.join(made)}; give --all, or one of "
            f"them: --target {made[0]} --check {folder / made[0]}",
            err=True,
        )
        return 1
    found = drift(files, folder)
    for one in found:
        click.echo(f"{folder}/{one}")
    for line in _demanded_otherwise(deployment, found, folder, library):
        click.echo(line)
    if found:
        extra = sum(one.how.startswith(("left over", "foreign")) for one in found)
        left = (
            f", and {extra} left over or foreign; render again, and remove those"
            if extra
            else "; render again"
        )
        differ = len(found) - extra
        click.echo(f"RND005: {differ} of {len(files)} files differ{left}", err=True)
        return 1
    click.echo(f"{folder} is what the profile renders to: {len(files)} files")
    return 0


def _demanded_otherwise(
    deployment: Deployment, found: Sequence[Drift], folder: Path, library: Library
) -> Iterator[str]:
    """What profiles in the folder, which are what is checked, demand of the launch besides."""
    from configurator.errors import ConfiguratorError
    from configurator.render.demands import demands, differences
    from configurator.resolve import resolve

    changed = [one.path for one in found if one.how == "changed"]
    for path in (path for path in changed if Path(path).name == "profile.yaml"):
        try:
            held = resolve(*library.profile(str(folder / path)), library)
        except ConfiguratorError:
            # That it is changed is said, and what cannot be resolved proves nothing.
            continue
        if demands(held) != demands(deployment):
            yield f"{folder / path} demands {demands(held)}, the profile {demands(deployment)}:"
        yield from (f"  {line}" for line in differences(held, deployment))


def _write(deployment: Deployment, files: tuple[RenderedFile, ...], out: Path | None) -> int:
    from configurator.render import left_over, write

    assert out is not None
    former = _named_in(out, files)
    for path in write(files, out):
        click.echo(path)
    for path, name in former.items():
        if name != deployment.name:
            click.echo(f"{path} was of deployment {name}, and is replaced", err=True)
    for one in left_over(files, out):
        click.echo(f"{out / one.path} is of an earlier or another rendering: remove it", err=True)
    _warn_of_a_tag(deployment, files)
    if deployment.profile.status == "unverified":
        click.echo("unverified: nobody has yet run this composition as a whole", err=True)
    return 0


def _warn_of_content(own: Sequence[Path]) -> None:
    """The self-check resolves the profile where it runs, and must find the same entries there."""
    if own:
        names = os.pathsep.join(str(path.absolute()) for path in own)
        click.echo(
            f"the self-check needs your own content too: where `configurator` checks this launch, "
            f"have it there and set CONFIGURATOR_CONTENT={names}",
            err=True,
        )


def _named_in(out: Path, files: tuple[RenderedFile, ...]) -> dict[Path, str]:
    """Names of the deployments of which profiles are there that `files` replace."""
    from configurator.render.files import MARK, holds

    named = re.compile(r"^name: *(['\"]?)(.+)\1$", re.MULTILINE)
    found = {}
    for path in (out / file.path for file in files if file.path.endswith("profile.yaml")):
        if holds(path, MARK) and (name := named.search(path.read_text(errors="replace"))):
            found[path] = name[2]
    return found


def _warn_of_a_tag(deployment: Deployment, files: tuple[RenderedFile, ...]) -> None:
    """ENG111 speaks of images that a profile chooses; here one is written into files to start."""
    from configurator.render.containers import engine_image, has_digest

    image = engine_image(deployment)
    if image is None or has_digest(image):
        return
    # The profile is beside every launch, also where no container starts.
    if any(image in file.text for file in files if not file.path.endswith("profile.yaml")):
        click.echo(
            f"ENG111: the image {image} has no digest, so what it names can change between two "
            "starts; set container.image to NAME@sha256:DIGEST",
            err=True,
        )
