"""What must be in place before a launch and no rendering brings: plugins, weights, images."""

from __future__ import annotations

from collections.abc import Iterator

from configurator.deployment import Deployment
from configurator.render.containers import checker_of, image_of
from configurator.render.quoting import comment, quote


def repositories_of(deployment: Deployment) -> list[str]:
    """Checkpoints by the name of a repository, which the engine downloads when it starts."""
    drafts = (m.draft_path for m in deployment.mechanisms.values())
    paths = [deployment.arg("model-path"), *drafts]
    named = [path for path in paths if isinstance(path, str) and not path.startswith("/")]
    return list(dict.fromkeys(named))


def plugins_of(deployment: Deployment) -> list[tuple[str, str]]:
    """Mechanisms that a plugin package brings, and what brings them."""
    return [
        (m.name, m.kernel.provider or "its plugin package")
        for m in deployment.mechanisms.values()
        if m.wish.provider == "plugin"
    ]


def about_plugins(deployment: Deployment, place: str) -> Iterator[str]:
    """In sentences; `place` is where the engine's packages are."""
    for name, package in plugins_of(deployment):
        yield f"{name} comes with a plugin, {package}: install it in {place}. Nothing here does."


def about_weights(deployment: Deployment, folder: str | None, who: str = "") -> Iterator[str]:
    """In sentences.

    Args:
        deployment: what is launched.
        folder: the folder of the host that the engine has as the cache of its user, if any.
        who: whose own cache it is otherwise, as in "as root, ".
    """
    names = repositories_of(deployment)
    if not names:
        return
    timeout_s = deployment.profile.startup.timeout_s
    home = f"HF_HOME={quote(f'{folder}/huggingface')} " if folder else ""
    revision = deployment.arg("revision")
    pinned = (
        {names[0]: f" --revision {comment(quote(str(revision)))}"}
        if revision and names[0] == deployment.arg("model-path")
        else {}
    )
    commands = "; ".join(
        f"`{home}hf download {comment(quote(name))}{pinned.get(name, '')}`" for name in names
    )
    yield (
        f"Weights: without an absolute path they are downloaded at the first start, within "
        f"startup.timeout_s ({timeout_s} s). Before it, on every host: {who}{commands} (with "
        "HF_TOKEN, if the repository wants one). Or put them into a folder of every host and set "
        "model.path to it, a draft's path to its own."
    )


def about_images(deployment: Deployment, *, checked: bool) -> Iterator[str]:
    """In sentences, for a cluster: nodes pull what a registry has."""
    image = image_of(deployment)
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
