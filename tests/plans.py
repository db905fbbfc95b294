"""Plans made by hand, for tests of what shows them: figures like the shipped deployments' own."""

from __future__ import annotations

from typing import Any

from configurator.plan.figures import Figure, between, exact
from configurator.plan.model import (
    Cache,
    Change,
    Efficiency,
    Geometry,
    Memory,
    Part,
    Pass,
    Plan,
    ReadOf,
    Share,
    SpeedUp,
    Step,
)

GB = 1e9
ENTRY = "model entry ling-3.0-flash-fp4"


def size(gb: float, formula: str = "as given", source: str = ENTRY, spread: float = 0.0) -> Figure:
    """Bytes in GB (10^9), with a spread of so much up and down."""
    value = gb * GB
    return between(value * (1 - spread), value, value * (1 + spread), "B", formula, source)


def seconds(ms: float, spread: float = 0.15, formula: str = "bytes / bandwidth") -> Figure:
    """Milliseconds as seconds, with a spread."""
    low, high = ms * (1 - spread) / 1e3, ms * (1 + spread) / 1e3
    return between(low, ms / 1e3, high, "s", formula, "efficiency 0.60 to 0.82 of 273 GB/s")


def geometry() -> Geometry:
    """Two classes of tensors, a cache of tokens and one of states."""
    experts = Part(
        "routed experts", "target", 118.9e9, "mxfp4", size(63.2, "118.9e9 x 0.531 B"),
        "expert", "experts", 41, 512, 8,
    )  # fmt: skip
    dense = Part(
        "attention", "target", 2.52e9, "fp8", size(2.52, "2.52e9 x 1 B"), "tensor", "all", 42
    )
    none = exact(0.0, "B", "keeps tokens", ENTRY)
    tokens = Cache("mla", "target", 7, exact(8064.0, "B/token", "7 x 576 x 2 B", ENTRY), none, None)
    state = Cache("linear", "target", 35, none, size(0.15, "35 layers of state"), None)
    return Geometry((experts, dense), (tokens, state), size(67.3, "sum of the parts"), size(1.7))


def memory(**changed: Any) -> Memory:
    """A GPU of 121 GiB with everything that can take a share of it."""
    shares = (
        Share("weights", "weights", size(67.3, "63.2 + 2.52 + 1.58 GB")),
        Share("draft", "draft", size(1.7, "one layer, its head shared")),
        Share("KV cache", "kv", size(15.2, "0.68 x 129.9 GB - 69.0 GB - 4.1 GB")),
        Share("KDA states", "state", size(4.1, "64 slots x 64.0 MB")),
        Share("CUDA graphs", "graphs", size(1.2, "1 batch size", "measured range", 0.4)),
        Share("workspace", "workspace", size(2.3, "activations of 8,192 tokens", ENTRY, 0.3)),
        Share("reserve", "reserve", size(12.0, "the operating system", "hardware entry")),
        Share("free", "free", size(26.1, "what is left")),
    )
    parts: dict[str, Any] = {
        "total": size(129.9, "121 GiB", "hardware entry dgx-spark"),
        "shares": shares,
        "fits": True,
        "fraction": between(0.57, 0.68, 0.80, "", "(weights + cache) / total", ENTRY),
        "asked_fraction": 0.68,
        "tokens": between(
            1_810_000, 1_884_000, 1_950_000, "tokens", "15.2 GB / 8,064 B", "memory entry"
        ),
        "requests": exact(1, "", "min(7, max-running-requests 1)", "profile"),
        "context": exact(262_144, "tokens", "min(1,884,000, 262,144)", ENTRY),
        "breaks_first": "max-running-requests: a second request waits",
    }
    return Memory(**{**parts, **changed})


def step(**changed: Any) -> Step:
    """One request, a draft of three passes, a verify of four tokens."""
    plain = Pass(
        "plain decode", 1, 1,
        (ReadOf("routed experts", size(1.03), "mxfp4"), ReadOf("attention", size(2.52), "fp8"),
         ReadOf("LM head", size(0.40), "fp8"), ReadOf("KV cache", size(0.10))),
        seconds(23.2),
    )  # fmt: skip
    draft = Pass(
        "draft", 1, 3,
        (ReadOf("routed experts", size(0.02)), ReadOf("LM head", size(0.40), "fp8"),
         ReadOf("dense", size(0.09))),
        seconds(2.7),
    )  # fmt: skip
    verify = Pass(
        "verify", 4, 1,
        (ReadOf("routed experts", size(4.02, "41 x 31.3 of 512", ENTRY, 0.2)),
         ReadOf("attention", size(2.52)), ReadOf("shared experts", size(0.22)),
         ReadOf("LM head", size(0.40)), ReadOf("KDA states", size(0.30)),
         ReadOf("KV cache", size(0.10))),
        seconds(39.6),
    )  # fmt: skip
    curve = tuple(
        SpeedUp(1 + i / 4, (1 + i / 4) / 2.4, (1 + i / 4) / 2.05, (1 + i / 4) / 1.8)
        for i in range(13)
    )
    parts: dict[str, Any] = {
        "batch": 1,
        "context": 8192,
        "passes": (plain, draft, verify),
        "efficiency": Efficiency(
            between(0.6, 0.7, 0.82, "", "share of 273 GB/s", "three measured steps"),
            between(0.0, 20e-6, 60e-6, "s", "of 42 layers", "three measured steps"),
            "",
            ("ling-3.0-flash-fp4-spark-baseline",),
        ),
        "plain": seconds(23.2),
        "step": seconds(47.6),
        "accepted": exact(2.68, "tokens", "claim ling-acceptance-gsm8k-2.68", "UPSTREAM.md"),
        "per_token": seconds(17.8),
        "throughput": between(48.7, 56.3, 66.3, "tok/s", "2.68 / 47.6 ms", "as the step"),
        "ratio": between(1.8, 2.05, 2.4, "", "(8.1 + 39.6) / 23.2", "as the step"),
        "curve": curve,
        "changes": (
            Change("fp8-lm-head", seconds(19.1), seconds(17.8)),
            Change("nextn-mtp", seconds(23.2), seconds(17.8)),
        ),
        "bound": "bytes of routed experts: 44 % of 9.1 GB a step",
    }
    return Step(**{**parts, **changed})


def plan(**changed: Any) -> Plan:
    """A plan in which everything is known."""
    parts: dict[str, Any] = {
        "name": "ling-3.0-flash-spark", "geometry": geometry(), "memory": memory(),
        "step": step(), "unknown": (),
    }  # fmt: skip
    return Plan(**{**parts, **changed})


def unknown_plan() -> Plan:
    """A plan of a model of which nothing is known."""
    nothing = Geometry((), (), None, None, ("number and width of attention heads",))
    return Plan(
        "somebody-elses", nothing, None, None,
        ("memory: the model entry has no weights_gb", "decode step: no layers in the model entry"),
    )  # fmt: skip
