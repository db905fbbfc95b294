"""What must be there before a start and no rendering brings: engine, plugins, weights, images.

In sentences of Markdown for START.md, the same for every target; a target says where its engine
runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.deployment import Deployment, Mechanism
from configurator.inengine.bundle import GROUP
from configurator.render.containers import checker_of
from configurator.render.quoting import comment, quote

CONFIGURATOR = (
    "`configurator`, which proves: once, `python3 -m venv ~/configurator && "
    "~/configurator/bin/pip install CHECKOUT` (the folder, or a wheel, of the version in the "
    "heading; it is in no package index), and then `export "
    "CONFIGURATOR=~/configurator/bin/configurator`."
)
"""For targets whose scripts run it on the host."""

_OWN_CONTENT = (
    "The content of your own that this was rendered with (`--content`): where `configurator` "
    "checks, the same folders must be there and `CONFIGURATOR_CONTENT` must name them. Checks that "
    "run in a container have them in the image of the checks, with the variable set."
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the engine of a target runs."""

    image: str | None = None
    """The image that it runs in; None: it runs on the host."""
    kept: bool = True
    """Whether what it downloads is there at the next start."""
    user: str = "a user who may write there"
    """As whom weights are fetched."""
    hosts: str = ""
    """Where they must be, if the deployment does not say it."""


def before_start(deployment: Deployment, place: Place) -> list[str]:
    """What must be there: the engine, what its mechanisms need, the weights."""
    return [
        _engine(deployment, place.image),
        *_installed(deployment, place.image),
        *_changed(deployment, place.image),
        *_weights(deployment, place),
        *([_OWN_CONTENT] if deployment.own_content else []),
    ]


def _engine(deployment: Deployment, image: str | None) -> str:
    entry = deployment.engine
    setting = _setting(deployment, image)
    if entry.released and image:
        own = f"it is the profile's `{setting}`" if setting else "`container.image` names another"
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
    if image and setting:
        place = f"The image `{comment(image)}` must have it."
    elif image:
        place = f"Name the image `{comment(image)}`, or set `container.image`."
    else:
        place = "The first `python3` on the PATH must have it."
    return f"{built} {place} Where it was read: {told.replace('..', '.')}"


def _setting(deployment: Deployment, image: str | None) -> str:
    """What of the profile names this image; nothing where the engine's entry does."""
    container = deployment.profile.container
    if container.dynamo is not None and image == container.dynamo.image:
        return "container.dynamo"
    return "container.image" if image == container.image else ""


def _installed(deployment: Deployment, image: str | None) -> Iterator[str]:
    where = f"the image `{comment(image)}`" if image else "the environment of that `python3`"
    for mechanism in deployment.mechanisms.values():
        kernel = mechanism.kernel
        for name in kernel.needs.packages:
            found = deployment.engine.packages.get(name, "")
            version = f" {comment(found)}" if found not in ("", "unknown") else ""
            yield f"The package `{name}`{version} in {where}, for {mechanism.name}."
        for name in kernel.needs.plugins:
            yield (
                f"{_plugin(mechanism, name)}, in {where}, for {mechanism.name}: its entry point "
                f"`{name}` in `{GROUP}` is what preflight looks for."
            )
        if mechanism.wish.provider == "plugin" and not kernel.needs.plugins:
            yield f"{_plugin(mechanism, 'that brings it')}, in {where}, for {mechanism.name}."


def _changed(deployment: Deployment, image: str | None) -> Iterator[str]:
    where = f"the image `{comment(image)}`" if image else "that environment"
    for _, one in deployment.by_hand:
        lacks = deployment.engine.facts.get(one.fact) == "no"
        doubt = "" if lacks else " Whether this build needs it is not known."
        yield f"Changed by hand in {where}: {comment(one.why)}; {comment(one.change)}.{doubt}"


def _plugin(mechanism: Mechanism, otherwise: str) -> str:
    kernel = mechanism.kernel
    read = f" ({comment(kernel.sources[0])})" if kernel.sources else ""
    return (
        f"The plugin `{comment(kernel.provider or otherwise)}`{read}, which is not part of SGLang"
    )


def _weights(deployment: Deployment, place: Place) -> Iterator[str]:
    hosts = place.hosts or ("every host with an engine" if deployment.hosts > 1 else "")
    several = f", on {hosts}" if hosts else ""
    names = _repositories(deployment)
    for path, size in _checkpoints(deployment).items():
        if path not in names:
            yield f"Weights: a whole checkpoint in `{comment(path)}`{several}."
        else:
            much = f"{size:g} GB" if size else "of a size that is not known here"
            yield f"Weights: `{comment(path)}` ({much}) is a name of the Hugging Face Hub."
    if not names:
        return
    timeout = deployment.profile.startup.timeout_s
    if place.kept:
        yield (
            f"The first start downloads what is not there, within `startup.timeout_s` ({timeout} "
            f"s). Fetch it before{several}, as {place.user} (`hf` comes with `pip install "
            f"huggingface_hub`): {_commands(deployment, place, names)}; or set `model.path` (a "
            "draft's: `draft.path`) to a folder."
        )
    else:
        yield (
            "Nothing is kept of a download, so every start repeats it, within `startup.timeout_s` "
            f"({timeout} s): set `container.cache`, or `model.path` to a folder."
        )
    if "HF_TOKEN" not in deployment.profile.extra.secrets:
        yield (
            "A gated repository wants `HF_TOKEN`: set `extra.secrets: {HF_TOKEN: {env: NAME}}`, "
            "or `{file: PATH}`, and render again; every engine gets it then."
        )


def _commands(deployment: Deployment, place: Place, names: list[str]) -> str:
    """What fetches the repositories, the target's at the revision that is launched."""
    folder = deployment.profile.container.cache if place.image else None
    into = f"HF_HOME={comment(quote(f'{folder}/huggingface'))} " if folder else ""
    revision = deployment.arg("revision")
    pinned = f" --revision {comment(quote(str(revision)))}" if revision else ""
    return "; ".join(
        f"`{into}hf download {comment(quote(name))}"
        f"{pinned if name == deployment.arg('model-path') else ''}`"
        for name in names
    )


def _repositories(deployment: Deployment) -> list[str]:
    """Checkpoints by the name of a repository, which the engine downloads when it starts."""
    return [path for path in _checkpoints(deployment) if not path.startswith("/")]


def _checkpoints(deployment: Deployment) -> dict[str, float | None]:
    """Paths and names of checkpoints, and their size in GB."""
    target = deployment.profile.model.path or deployment.model.repository
    found: dict[str, float | None] = {target: deployment.model.weights_gb}
    for mechanism in deployment.mechanisms.values():
        if mechanism.separate_draft and mechanism.draft_path:
            found[mechanism.draft_path] = mechanism.draft.weights_gb if mechanism.draft else None
    return found


def about_images(deployment: Deployment, image: str, *, checked: bool) -> Iterator[str]:
    """For a cluster: nodes pull what a registry has."""
    if is_local(image):
        yield (
            f"Image of the engine: {image} names no registry, and nodes find it in none unless "
            "Docker Hub has it. If you build it, for the processor of the nodes"
            f"{_architecture(deployment)}, push it to a registry that they reach and set "
            "container.image to its name there."
        )
    if checked and deployment.profile.container.checker is None:
        yield (
            f"Image of the checker: {checker_of(deployment)} is in no registry. Build it from "
            "examples/checker/Dockerfile, for the processor of the nodes"
            f"{_architecture(deployment)}, push it and set container.checker to its name there."
        )


def is_local(image: str) -> bool:
    """Whether it is named as on the host that built it, without a registry or an owner."""
    return "/" not in image


def _architecture(deployment: Deployment) -> str:
    platforms = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}
    found = platforms.get(deployment.hardware.cpu_arch or "")
    return f" (`docker build --platform {found}`)" if found else ""
