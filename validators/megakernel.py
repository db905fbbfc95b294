"""Megakernels: the published support table, and what a megakernel refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator import Deployment, Finding, Mechanism, rule

_TABLE = "sgl-project/sgl-nvidia-mega, support table"
_BINDING = "sglang 0.5.23: plugin_kernels/nvidia/binding.py, refused by default"
_PLUGIN = "nvidia_megakernel"
_FLAG = "enable-nvidia-megakernel"


def _with_table(deployment: Deployment) -> Iterator[Mechanism]:
    return (m for m in deployment.of_family("megakernel") if m.kernel.coverage)


def _plugins(deployment: Deployment) -> Iterator[Mechanism]:
    """Mechanisms of the engine's flag, whose refusals are known."""
    return (m for m in deployment.of_family("megakernel") if _FLAG in m.kernel.args)


def _rows(deployment: Deployment, mechanism: Mechanism) -> list[Any]:
    """Rows of the table for this model."""
    rows = mechanism.kernel.coverage
    return [row for row in rows if row.architecture == deployment.model.architecture]


def _rows_here(deployment: Deployment, mechanism: Mechanism) -> list[Any]:
    """Rows of the table for this model on this GPU."""
    rows = _rows(deployment, mechanism)
    return [row for row in rows if deployment.hardware.product in row.products]


def _remedy(mechanism: Mechanism, first: str) -> str:
    return "; or ".join([first, *mechanism.kernel.alternatives])


def _listed(sizes: Iterator[Any]) -> str:
    return ", ".join(map(str, sorted(set(sizes))))


@rule("MEGA101", "model-not-in-support-table", source=_TABLE)
def model_not_in_support_table(deployment: Deployment) -> Iterator[Finding]:
    """The megakernel is published for other models only.

    Bad:
        extends: muse-spark-open-gb300x8
        model: {overrides: {architecture: LlamaForCausalLM}}

    Good:
        extends: muse-spark-open-gb300x8
    """
    for mechanism in _with_table(deployment):
        if not _rows(deployment, mechanism):
            listed = _listed(row.architecture for row in mechanism.kernel.coverage)
            yield Finding(
                mechanism.path,
                f"{mechanism.name} has no row for {deployment.model.architecture}; listed: "
                f"{listed}",
                f"remove it with '{mechanism.name}: null'",
            )


@rule("MEGA102", "gpu-product-not-in-support-table", source=_TABLE)
def gpu_product_not_in_support_table(deployment: Deployment) -> Iterator[Finding]:
    """The table lists GPU products, not architectures: B300 is sm_103 like GB300 but has 148 SMs.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {name: hgx-b300}

    Good:
        extends: muse-spark-open-gb300x8
        hardware: {name: gb300-nvl72}
    """
    for mechanism in _with_table(deployment):
        rows = _rows(deployment, mechanism)
        if rows and not _rows_here(deployment, mechanism):
            products = _listed(product for row in rows for product in row.products)
            hardware = deployment.hardware
            yield Finding(
                mechanism.path,
                f"{mechanism.name} runs {deployment.model.name} on {products}; {hardware.name} "
                f"has {hardware.product or 'no GPU'} ({hardware.arch}, {hardware.sms or 0} SMs)",
                f"remove it with '{mechanism.name}: null' on this machine",
            )


@rule("MEGA103", "tensor-size-not-in-support-table", source=_TABLE)
def tensor_size_not_in_support_table(deployment: Deployment) -> Iterator[Finding]:
    """The megakernel is built for fixed tensor parallel sizes.

    Bad:
        extends: muse-spark-open-gb300x8-tp8
        optimizations:
          nvidia-megakernel: {}

    Good:
        extends: muse-spark-open-gb300x8
    """
    tensor = deployment.profile.topology.tensor
    for mechanism in _with_table(deployment):
        rows = _rows_here(deployment, mechanism)
        sizes = _listed(size for row in rows for size in row.tensor)
        if rows and not any(tensor in row.tensor for row in rows):
            yield Finding(
                ("topology", "tensor"),
                f"tensor {tensor} is not in the table of {mechanism.name}: for "
                f"{deployment.model.name} on {deployment.hardware.product} it lists {sizes}",
                _remedy(mechanism, f"set topology.tensor to {sizes} and use replicas"),
            )


@rule("MEGA104", "megakernel-over-hosts", source=_BINDING)
def megakernel_over_hosts(deployment: Deployment) -> Iterator[Finding]:
    """One instance over several hosts (nnodes above 1) is refused before the weights load.

    Bad:
        extends: muse-spark-open-gb300x8-tp8
        optimizations:
          nvidia-megakernel: {}

    Good:
        extends: muse-spark-open-gb300x8
    """
    hosts = deployment.hosts_per_replica
    for mechanism in _plugins(deployment):
        if hosts > 1:
            yield Finding(
                ("topology", "tensor"),
                f"{mechanism.name} refuses an instance over {hosts} hosts (--nnodes {hosts}); "
                f"{deployment.hardware.name} has {deployment.hardware.gpus_per_host} GPUs per host",
                _remedy(
                    mechanism,
                    f"use replicas of {deployment.hardware.gpus_per_host} GPUs, one per host",
                ),
            )


@rule("MEGA105", "megakernel-with-other-parallelism", source=_BINDING)
def megakernel_with_other_parallelism(deployment: Deployment) -> Iterator[Finding]:
    """Expert, pipeline and data parallelism are refused before the weights load, but for expert
    sizes that the table lists.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {expert: 4}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {expert: 1}
    """
    topology = deployment.profile.topology
    for mechanism in _plugins(deployment):
        for key, size in (
            ("expert", topology.expert),
            ("pipeline", topology.pipeline),
            ("data", topology.data),
        ):
            rows = _rows_here(deployment, mechanism)
            if size > 1 and not (key == "expert" and any(size in row.expert for row in rows)):
                yield Finding(
                    ("topology", key),
                    f"{mechanism.name} refuses {key} parallelism; topology.{key} is {size}",
                    f"set topology.{key} to 1, or remove {mechanism.name}",
                )


@rule("MEGA106", "megakernel-part-not-covered", source=_TABLE)
def megakernel_part_not_covered(deployment: Deployment) -> Iterator[Finding]:
    """The profile wants a part of the step covered that the table does not list.

    Bad:
        extends: muse-spark-open-gb300x8
        optimizations:
          nvidia-megakernel: {cover: verify+draft}

    Good:
        extends: muse-spark-open-gb300x8
    """
    for mechanism in _with_table(deployment):
        wanted = str(mechanism.options.get("cover") or "").split("+")
        rows = _rows_here(deployment, mechanism)
        covered = {part for row in rows for part in row.covers}
        missing = [part for part in wanted if part and part not in covered]
        if rows and missing:
            yield Finding(
                (*mechanism.path, "cover"),
                f"{mechanism.name} covers {_listed(iter(covered))} of {deployment.model.name} on "
                f"{deployment.hardware.product}, not {', '.join(missing)}: that part keeps its "
                "ordinary forward",
                _remedy(mechanism, f"set cover to {'+'.join(sorted(covered))}"),
            )


@rule("MEGA107", "megakernel-without-covered-steps", source=_TABLE)
def megakernel_without_covered_steps(deployment: Deployment) -> Iterator[Finding]:
    """The table covers verify steps of certain algorithms; without them no step is covered.

    Bad:
        extends: muse-spark-open-gb300x8
        optimizations:
          dflash: null

    Good:
        extends: muse-spark-open-gb300x8
    """
    drafting = deployment.speculation
    algorithm = drafting.kernel.algorithm if drafting else None
    for mechanism in _with_table(deployment):
        rows = _rows_here(deployment, mechanism)
        useful = [
            row
            for row in rows
            if "decode" in row.covers
            or (algorithm and algorithm in (row.algorithms or [algorithm]))
        ]
        if rows and not useful:
            algorithms = _listed(name for row in rows for name in row.algorithms)
            yield Finding(
                mechanism.path,
                f"{mechanism.name} covers only verify steps of {algorithms}; the profile has "
                f"{algorithm or 'no speculation'}, so no step would be covered",
                f"add speculation with {algorithms}, or remove {mechanism.name}",
            )


@rule(
    "MEGA109",
    "concurrency-beyond-covered-batches",
    severity="warning",
    source="sgl-project/sgl-nvidia-mega: uncovered steps run the ordinary forward",
)
def concurrency_beyond_covered_batches(deployment: Deployment) -> Iterator[Finding]:
    """Only captured small batches are covered; every other step runs the ordinary forward with no
    counter and no log line.

    Bad:
        extends: muse-spark-open-gb300x8
        workload: {concurrency: 64}

    Good:
        extends: muse-spark-open-gb300x8
    """
    captured = deployment.arg("cuda-graph-bs-decode")
    if not isinstance(captured, tuple):
        return
    largest = max((size for size in captured if isinstance(size, int)), default=0)
    concurrency = deployment.profile.workload.concurrency
    for mechanism in _plugins(deployment):
        if concurrency > largest:
            yield Finding(
                ("workload", "concurrency"),
                f"{concurrency} requests at once, but the largest captured batch is {largest}: "
                f"larger steps run the ordinary forward, and {mechanism.name} says nothing",
                f"add {concurrency} to decode-cuda-graphs.batch_sizes, or lower concurrency",
            )


@rule(
    "MEGA110",
    "two-megakernels",
    source="sgl-project/sgl-nvidia-mega; facebookresearch/sgl-muse-mega",
)
def two_megakernels(deployment: Deployment) -> Iterator[Finding]:
    """Two megakernels replace the same forward.

    Bad:
        extends: muse-spark-open-gb300x8
        optimizations:
          sgl-muse-mega: {}

    Good:
        extends: muse-spark-open-gb300x8
    """
    first, *others = [*deployment.of_family("megakernel"), None]
    for other in others:
        if first is not None and other is not None:
            yield Finding(
                other.path,
                f"{first.name} and {other.name} both replace the decoder layers' forward",
                f"remove one, for instance with '{other.name}: null'",
            )


@rule("MEGA111", "plugin-not-in-allowlist", source="sglang 0.5.23: binding.py, SGLANG_PLUGINS")
def plugin_not_in_allowlist(deployment: Deployment) -> Iterator[Finding]:
    """SGLANG_PLUGINS is an allowlist: it must name the megakernel's plugin too.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_PLUGINS: my_plugin}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_PLUGINS: "my_plugin,nvidia_megakernel"}}
    """
    allowed = deployment.env.get("SGLANG_PLUGINS")
    if allowed is None or not allowed.value:
        return
    for mechanism in _plugins(deployment):
        if _PLUGIN not in [name.strip() for name in allowed.value.split(",")]:
            yield Finding(
                allowed.path,
                f"SGLANG_PLUGINS allows {allowed.value}; {mechanism.name} is the plugin {_PLUGIN}",
                f"set it to {allowed.value},{_PLUGIN}",
            )


@rule(
    "MEGA112",
    "expert-parallelism-demanded-and-refused",
    severity="info",
    source=f"{_BINDING}; models/muse_spark.py, 'requires expert TP1; use EP equal to TP'",
)
def expert_parallelism_demanded_and_refused(deployment: Deployment) -> Iterator[Finding]:
    """The model's own code wants expert equal to tensor, and the plugin refuses expert parallelism
    unless its specification lists it, which is not public: only a start tells which gives way.

    Bad:
        extends: muse-spark-open-gb300x8

    Good:
        extends: muse-spark-open-gb300x8-tp8
    """
    topology, moe = deployment.profile.topology, deployment.model.moe
    if moe is None or not moe.whole_experts or topology.expert == topology.tensor:
        return
    for mechanism in _plugins(deployment):
        yield Finding(
            ("topology", "expert"),
            f"SGLang's own code runs {deployment.model.name} with expert equal to tensor "
            f"({topology.tensor}), and {mechanism.name} refuses expert above 1 unless its "
            f"specification lists it, which is not public; expert is {topology.expert}",
            "start it once: either says so before the weights load. If it is SGLang ('use EP equal "
            f"to TP'), set topology.expert to {topology.tensor} and ignore MEGA105 with the reason",
        )


@rule(
    "MEGA114",
    "too-few-multiprocessors-for-the-megakernel",
    source="the article on Muse Spark Open on eight GB300s; sglang 0.5.23: binding.py, "
    "PARTITIONED_GPU",
)
def too_few_multiprocessors_for_the_megakernel(deployment: Deployment) -> Iterator[Finding]:
    """The kernel's blocks stay on their multiprocessors for the whole launch: a GPU of which MIG
    or another partition has taken some is refused.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {overrides: {sms: 76}}

    Good:
        extends: muse-spark-open-gb300x8
    """
    sms = deployment.hardware.sms
    for mechanism in _with_table(deployment):
        wanted = max((row.sms or 0 for row in _rows_here(deployment, mechanism)), default=0)
        if sms is not None and sms < wanted:
            yield Finding(
                mechanism.path,
                f"{mechanism.name} runs on {wanted} multiprocessors at once; "
                f"{deployment.hardware.name} has {sms}",
                f"use the whole GPU, without MIG, or remove it with '{mechanism.name}: null'",
            )
