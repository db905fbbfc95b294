"""What the targets have in common: templates, the profile and the probe beside a launch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from configurator import __version__
from configurator.deployment import Deployment, Process
from configurator.inengine.bundle import CARRIED, MARKS, bundle_files
from configurator.render.demands import demands
from configurator.render.files import MARK, PROBE, RenderedFile, fingerprint
from configurator.render.instrument import instrumented
from configurator.render.quoting import quote
from configurator.source import DataPath, dump

if TYPE_CHECKING:
    import jinja2

_ANY_ADDRESS = ("0.0.0.0", "::", "")
_OWNER = "configurator"
# Stands in the metadata of the probe, of every version.


@cache
def templates() -> jinja2.Environment:
    """The templates, with `quote` for words of bash; each is compiled once."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["quote"] = quote
    return environment


def profile_file(deployment: Deployment) -> RenderedFile:
    """The whole profile in one layer, for the self-check beside the launch."""
    data = {key: value for key, value in deployment.layers.data.items() if key != "extends"}
    head = f"# {heading(deployment)}: the profile with everything it extends merged.\n"
    return RenderedFile("profile.yaml", head + dump(data))


def heading(deployment: Deployment) -> str:
    """What the first lines of every file say: by whom, of which version, and of what."""
    return f"{MARK} {__version__}, {identity(deployment)}"


def identity(deployment: Deployment) -> str:
    """Which launch, and which demands: the same for renderings that start and prove the same."""
    return f"launch {fingerprint(deployment)}, demands {demands(deployment)}"


def probe_files(deployment: Deployment) -> list[RenderedFile]:
    """The in-engine probe and the plugins beside it, which are no templates; [] without one."""
    if not instrumented(deployment):
        return []
    return [
        RenderedFile(f"{PROBE}/{name}", text, mark=_mark(name, text))
        for name, text in bundle_files(deployment.plugins).items()
    ]


def _mark(name: str, text: str) -> str:
    """What a file of the bundle holds near its head, of every version."""
    if CARRIED in text[:200]:
        return CARRIED
    return MARKS[name.split("/")[0]] if name.endswith(".py") else _OWNER


def checkpoints_of(deployment: Deployment) -> dict[str, DataPath]:
    """Paths that must exist on the host, and where the profile has them.

    What is not absolute is a name of a repository.
    """
    found: dict[str, DataPath] = {}
    drafts = ((m.draft_path, (*m.path, "draft", "path")) for m in deployment.mechanisms.values())
    for path, place in ((deployment.profile.model.path, ("model", "path")), *drafts):
        if path and path.startswith("/"):
            found.setdefault(path, place)
    return found


def requirements_of(deployment: Deployment) -> list[str]:
    """What the hosts must have where one replica spans several of them."""
    multi = deployment.hardware.multi_host
    return list(multi.requires) if deployment.hosts_per_replica > 1 and multi else []


def local_address(deployment: Deployment, process: Process) -> str:
    """Where a process that listens is reached from its own host."""
    profile = deployment.profile
    listen = profile.router.host if process.role == "router" and profile.router else None
    host = (listen or profile.serving.host).strip("[]")
    return "127.0.0.1" if host in _ANY_ADDRESS else host


def url_of(deployment: Deployment, process: Process) -> str:
    """The URL of a process that listens, from its own host."""
    host = local_address(deployment, process)
    return f"http://{f'[{host}]' if ':' in host else host}:{process.port}"
