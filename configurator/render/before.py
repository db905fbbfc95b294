"""What must be there before a start: engine, plugins, weights, configurator; for START.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.deployment import Deployment, Process
from configurator.inengine.bundle import GROUP
from configurator.render.launches import addresses_of
from configurator.render.quoting import comment, quote
from configurator.schema.profile import SecretRef

CONFIGURATOR = (
    "`configurator`, which proves: once, `python3 -m venv ~/configurator && "
    "~/configurator/bin/pip install CHECKOUT` (the folder, or a wheel, of the version in the "
    "heading; it is in no package index), and then `export "
    "CONFIGURATOR=~/configurator/bin/configurator`."
)
"""For targets whose scripts run it on the host."""


@dataclass(frozen=True, slots=True)
class Started:
    """A script and what a person must give it."""

    script: str
    process: Process
    addresses: tuple[tuple[str, int], ...]
    """Variables with the address of a host, and the number of that host."""
    keys: tuple[str, ...]
    """Variables with keys."""

    @property
    def example(self) -> str:
        """The line with every address, as an example has it."""
        told = "".join(f"{name}={example_address(host)} " for name, host in self.addresses)
        return f"{told}./{self.script}"


def started(deployment: Deployment, script: str, process: Process) -> Started:
    """A process as it is started by hand."""
    words = [word for word in process.argv if isinstance(word, SecretRef) and word.env]
    keys = tuple(dict.fromkeys(word.env for word in words if word.env))
    return Started(script, process, tuple(told_hosts(deployment, process)), keys)


def told_hosts(deployment: Deployment, process: Process) -> Iterator[tuple[str, int]]:
    """Every variable with an address that must be given, and the host that it means."""
    if deployment.hosts == 1:
        return
    places = {(p.replica, p.rank): p.host for p in deployment.processes if p.role == "engine"}
    for word in addresses_of(process):
        name = f"REPLICA{word.replica}_HOST{word.host}_ADDR"
        yield name, places[word.replica, word.host]


def example_address(host: int) -> str:
    """An address for documents."""
    return f"192.0.2.{10 + host}"


def before_start(deployment: Deployment, image: str | None, cache: bool, token: str) -> list[str]:
    """What must be there, in sentences of Markdown.

    Args:
        deployment: what is started.
        image: the image that the engine runs in; None: it runs on the host.
        cache: whether what is downloaded is kept for the next start.
        token: how the engine gets the variable HF_TOKEN.
    """
    where = f"the image `{comment(image)}`" if image else "the environment of that `python3`"
    return [
        _engine(deployment, image),
        *_installed(deployment, where),
        *_weights(deployment, image is not None, cache, token),
    ]


def _engine(deployment: Deployment, image: str | None) -> str:
    entry = deployment.engine
    if entry.released and image:
        chosen = deployment.profile.container.image is not None
        own = (
            "it is the profile's `container.image`" if chosen else "`container.image` names another"
        )
        return f"The engine: the image `{comment(image)}` has SGLang {entry.version}; {own}."
    if entry.released:
        return (
            f"The engine: the first `python3` on the PATH must have SGLang {entry.version} "
            f"(`python3 -m pip install sglang=={entry.version}` in an environment of its own)."
        )
    base = entry.base.commit or entry.base.release
    of = f", commit `{comment(base)}`" if base else ""
    told = " ".join(f"{comment(text)}." for text in [*entry.sources[:1], *entry.notes[:1]])
    built = f"The engine: {comment(entry.summary)}{of}. It is not released, so build it."
    if image and deployment.profile.container.image:
        place = f"The image `{comment(image)}` must have it."
    elif image:
        place = f"Name the image `{comment(image)}`, or set `container.image`."
    else:
        place = "The first `python3` on the PATH must have it."
    return f"{built} {place} Where it was read: {told.replace('..', '.')}"


def _installed(deployment: Deployment, where: str) -> Iterator[str]:
    for mechanism in deployment.mechanisms.values():
        kernel = mechanism.kernel
        for name in kernel.needs.packages:
            found = deployment.engine.packages.get(name, "")
            version = f" {comment(found)}" if found not in ("", "unknown") else ""
            yield f"The package `{name}`{version} in {where}, for {mechanism.name}."
        for name in kernel.needs.plugins:
            read = f" ({comment(kernel.sources[0])})" if kernel.sources else ""
            yield (
                f"The plugin `{comment(kernel.provider or name)}`{read}, which is not part of "
                f"SGLang, in {where}, for {mechanism.name}: its entry point `{name}` in `{GROUP}` "
                "is what preflight looks for."
            )


def _weights(deployment: Deployment, contained: bool, cache: bool, token: str) -> Iterator[str]:
    folder = deployment.profile.container.cache
    several = ", on every host with an engine" if deployment.hosts > 1 else ""
    names = []
    for path, size in _checkpoints(deployment).items():
        if path.startswith("/"):
            yield f"Weights: a whole checkpoint in `{comment(path)}`{several}."
        else:
            names.append(path)
            much = f"{size:g} GB" if size else "of a size that is not known here"
            yield f"Weights: `{comment(path)}` ({much}) is a name of the Hugging Face Hub."
    if not names:
        return
    into = f"HF_HOME={quote(f'{folder}/huggingface')} " if contained and folder else ""
    commands = "; ".join(f"`{into}hf download {quote(name)}`" for name in names)
    timeout = deployment.profile.startup.timeout_s
    if cache:
        yield (
            f"The first start downloads what is not there, within `startup.timeout_s` ({timeout} "
            f"s). Fetch it before{several}, as a user who may write there (`hf` comes with `pip "
            f"install huggingface_hub`): {commands}; or set `model.path` (a draft's: `draft.path`) "
            "to a folder."
        )
    else:
        yield (
            "Nothing is kept of a download, so every start repeats it, within `startup.timeout_s` "
            f"({timeout} s): set `container.cache`, or `model.path` to a folder."
        )
    yield f"A gated repository wants `HF_TOKEN`: {token}."


def _checkpoints(deployment: Deployment) -> dict[str, float | None]:
    """Paths and names of checkpoints, and their size in GB."""
    target = deployment.profile.model.path or deployment.model.repository
    found: dict[str, float | None] = {target: deployment.model.weights_gb}
    for mechanism in deployment.mechanisms.values():
        if mechanism.separate_draft and mechanism.draft_path:
            found[mechanism.draft_path] = mechanism.draft.weights_gb if mechanism.draft else None
    return found
