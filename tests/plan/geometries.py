"""Geometries from a few numbers, so that tests of the step stand on their own."""

from __future__ import annotations

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan.figures import Figure, exact
from configurator.plan.model import Cache, Geometry, Owner, Part, Reading, Split

MXFP4, EXPERT = 0.53125, 3 * 2560 * 768


def size(value: float, unit: str = "B") -> Figure:
    return exact(value, unit, f"{value:g}", "a test")


def part(
    name: str, parameters: float, dtype: str, each: float, *, owner: Owner = "target",
    split: Split = "tensor", reads: Reading = "all", layers: int = 1, experts: int = 0,
    chosen: int = 0, pieces: int = 1,
) -> Part:  # fmt: skip
    """A part of `parameters` stored in `each` bytes."""
    return Part(
        name, owner, parameters, dtype, size(parameters * each), split, reads, layers, experts,
        chosen, pieces,
    )  # fmt: skip


def ling(deployment: Deployment, library: Library) -> Geometry:
    """Ling-3.0-flash-fp4 as counted by hand from its article: 2.52B parameters of attention and
    dense layers in FP8, 42 layers of 512 MXFP4 experts, KDA states of 73 MB, one MTP layer."""
    fp8_head = "fp8-lm-head" in deployment.mechanisms
    n = deployment.profile.topology.tensor
    head = part("LM head", 157184 * 2560, "fp8" if fp8_head else "bf16", 1 if fp8_head else 2,
                pieces=n)  # fmt: skip
    parts = [
        part("attention and dense", 2.52e9, "fp8", 1, pieces=n),
        part("shared experts", 42 * EXPERT, "fp8", 1, pieces=n),
        part("router", 42 * 512 * 2560, "fp8", 1, split="replicated"),
        part("routed experts", 42 * 512 * EXPERT, "mxfp4", MXFP4, split="expert", reads="experts",
             layers=42, experts=512, chosen=8, pieces=n),
        head,
        part("embedding", 157184 * 2560, "bf16", 2, reads="rows", pieces=n),
    ]  # fmt: skip
    caches = [
        Cache("linear", "target", 35, size(0), size(35 * 32 * 128 * 128 * 4 / n)),
        Cache("mla", "target", 7, size(7 * 576 * 2), size(0)),
    ]
    draft = None
    if deployment.speculation is not None:
        draft = size(3.1e9)
        parts += [
            part("attention and dense", 2.52e9 / 42, "fp8", 1, owner="draft"),
            part("shared experts", EXPERT, "fp8", 1, owner="draft"),
            part("routed experts", 512 * EXPERT, "mxfp4", MXFP4, owner="draft", split="expert",
                 reads="experts", experts=512, chosen=8),
        ]  # fmt: skip
        caches.append(Cache("mla", "draft", 1, size(576 * 2), size(0)))
    return Geometry(tuple(parts), tuple(caches), size(70.4e9), draft)


def qwen(deployment: Deployment, library: Library) -> Geometry:
    """Qwen3-8B in BF16: 6.95B parameters in 36 layers, head and embedding apart."""
    n = deployment.profile.topology.tensor
    vocabulary = 151936 * 4096
    parts = (
        part("layers", 6.95e9, "bf16", 2, pieces=n),
        part("LM head", vocabulary, "bf16", 2, pieces=n),
        part("embedding", vocabulary, "bf16", 2, reads="rows", pieces=n),
    )
    caches = (Cache("full", "target", 36, size(36 * 8 * 128 * 2 * 2 / n), size(0)),)
    return Geometry(parts, caches, size(16.4e9 / n), None)


def by_model(deployment: Deployment, library: Library) -> Geometry:
    """The geometry of whichever of these models it is."""
    name = deployment.model.name
    if name == "ling-3.0-flash-fp4":
        return ling(deployment, library)
    return qwen(deployment, library) if name == "qwen3-8b" else Geometry((), (), None, None)
