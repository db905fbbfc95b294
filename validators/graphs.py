"""CUDA graphs of decode steps."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, rule

_BATCHES = "cuda-graph-bs-decode"


def _captured(deployment: Deployment) -> list[int]:
    """The batch sizes that graphs are captured for, as far as the profile says."""
    value = deployment.arg(_BATCHES)
    values = value if isinstance(value, tuple) else (value,)
    return [size for size in values if isinstance(size, int) and not isinstance(size, bool)]


@rule(
    "ENG301",
    "concurrency-beyond-captured-graphs",
    severity="warning",
    source="sglang 0.5.23: cuda_graph_runner, can_run",
)
def concurrency_beyond_captured_graphs(deployment: Deployment) -> Iterator[Finding]:
    """Batches larger than the largest captured one run without a graph, without a log line.

    Bad:
        extends: ling-3.0-flash-spark
        workload: {concurrency: 4}

    Good:
        extends: ling-3.0-flash-spark
        workload: {concurrency: 4}
        optimizations:
          decode-cuda-graphs: {batch_sizes: [1, 2, 4]}
    """
    captured = _captured(deployment)
    concurrency = deployment.profile.workload.concurrency
    if captured and not deployment.of_family("megakernel") and concurrency > max(captured):
        yield Finding(
            ("workload", "concurrency"),
            f"{concurrency} requests at once, but the largest captured graph is for "
            f"{max(captured)}: larger steps run without a graph",
            f"add {concurrency} to decode-cuda-graphs.batch_sizes, or lower concurrency",
        )


@rule("ENG302", "graphs-asked-for-and-disabled", source="sglang 0.5.23: cuda_graph_config")
def graphs_asked_for_and_disabled(deployment: Deployment) -> Iterator[Finding]:
    """Decode graphs are asked for, and an argument switches them off.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {disable-cuda-graph: true}}

    Good:
        extends: ling-3.0-flash-spark
    """
    graphs = deployment.of_family("cuda-graphs")
    for mechanism in graphs:
        for name, off in (("disable-cuda-graph", True), ("cuda-graph-backend-decode", "disabled")):
            given = deployment.args.get(name)
            if given is not None and given.value == off and given.origin == "extra.args":
                yield Finding(
                    given.path,
                    f"{mechanism.name} asks for decode graphs, {name} switches them off",
                    f"remove {name} from extra.args, or remove {mechanism.name}",
                )
