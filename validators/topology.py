"""How GPUs are divided: counts, hosts, heads, experts."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Launch, launch_rule, rule


def _attention_tensor(deployment: Deployment) -> int:
    """Ranks that share the heads: with data parallel attention only those of one group."""
    topology = deployment.profile.topology
    if deployment.arg("enable-dp-attention") and topology.tensor % topology.data == 0:
        return topology.tensor // topology.data
    return topology.tensor


def _divisors(number: int, limit: int) -> str:
    """Sizes that divide `number`, for remedies."""
    fitting = [size for size in range(1, min(number, limit) + 1) if number % size == 0]
    return ", ".join(map(str, fitting[-6:]))


@rule("PAR101", "gpus-not-divided-exactly", source="docs/design.md; configurator/resolve.py")
def gpus_not_divided_exactly(deployment: Deployment) -> Iterator[Finding]:
    """Replicas times tensor times pipeline is not the number of GPUs.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 3, tensor: 4}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 2, tensor: 4}
    """
    topology = deployment.profile.topology
    needed = topology.replicas * topology.tensor * topology.pipeline
    if needed != deployment.profile.hardware.gpus:
        yield Finding(
            ("topology",),
            f"{topology.replicas} replicas x tensor {topology.tensor} x pipeline "
            f"{topology.pipeline} = {needed} GPUs; hardware.gpus is "
            f"{deployment.profile.hardware.gpus}",
            f"set hardware.gpus to {needed}, or change topology",
        )


@rule("HW101", "instance-over-hosts-not-supported", source="the hardware entry's multi_host")
def instance_over_hosts_not_supported(deployment: Deployment) -> Iterator[Finding]:
    """One instance is larger than a host of this machine, and the entry knows no way over hosts.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {name: rtx-pro-6000, gpus: 16}
        topology: {replicas: 1, tensor: 16}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 2, tensor: 4}
    """
    hardware = deployment.hardware
    if deployment.hosts_per_replica > 1 and hardware.multi_host is None:
        yield Finding(
            ("topology", "tensor"),
            f"one instance of {deployment.gpus_per_replica} GPUs takes "
            f"{deployment.hosts_per_replica} hosts of {hardware.name} "
            f"({hardware.gpus_per_host} GPUs each); the entry has no multi_host",
            f"use instances of at most {hardware.gpus_per_host} GPUs, as replicas",
        )


@rule("HW102", "hosts-filled-unevenly", source="sglang 0.5.23: tp_size x pp_size % nnodes == 0")
def hosts_filled_unevenly(deployment: Deployment) -> Iterator[Finding]:
    """One instance over several hosts does not fill each of them: the engine refuses it.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {gpus: 6}
        topology: {replicas: 1, tensor: 6}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
    """
    size, per_host = deployment.gpus_per_replica, deployment.hardware.gpus_per_host
    if size > per_host and size % per_host:
        yield Finding(
            ("topology", "tensor"),
            f"{size} GPUs over hosts of {per_host} leave {per_host - size % per_host} unused on "
            "the last; the engine wants the same number on every host",
            f"use {size - size % per_host} or {size - size % per_host + per_host} GPUs",
        )


@rule("HW103", "hosts-must-be-set-up", severity="info", source="the hardware entry's multi_host")
def hosts_must_be_set_up(deployment: Deployment) -> Iterator[Finding]:
    """One instance over several hosts needs things that no launch command can bring.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 2, tensor: 4}
    """
    multi_host = deployment.hardware.multi_host
    if deployment.hosts_per_replica > 1 and multi_host and multi_host.requires:
        yield Finding(
            ("topology", "tensor"),
            f"one instance over {deployment.hosts_per_replica} hosts needs: "
            + "; ".join(multi_host.requires),
            "check each on every host before the launch",
        )


@rule(
    "HW104",
    "tensor-parallel-over-the-network",
    severity="warning",
    source="the hardware entry's nvlink_domain_gpus",
)
def tensor_parallel_over_the_network(deployment: Deployment) -> Iterator[Finding]:
    """Tensor parallel ranks that do not all reach each other over NVLink wait for the network.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {overrides: {nvlink_domain_gpus: 4}}
        topology: {replicas: 1, tensor: 8}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
    """
    domain, tensor = deployment.hardware.nvlink_domain_gpus, deployment.profile.topology.tensor
    if deployment.hosts_per_replica > 1 and tensor > domain:
        yield Finding(
            ("topology", "tensor"),
            f"tensor {tensor} goes beyond the {domain} GPUs that NVLink joins on "
            f"{deployment.hardware.name}: every layer waits for the network",
            f"keep tensor at {domain} and use replicas or pipeline for the rest",
        )


@rule("PAR102", "heads-not-divisible", source="sglang 0.5.23: num_attention_heads % attn_tp == 0")
def heads_not_divisible(deployment: Deployment) -> Iterator[Finding]:
    """Query heads cannot be split evenly over the tensor parallel ranks.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {gpus: 3}
        topology: {replicas: 1, tensor: 3}

    Good:
        extends: muse-spark-open-gb300x8
    """
    heads, ranks = deployment.model.heads, _attention_tensor(deployment)
    if heads and heads % ranks:
        yield Finding(
            ("topology", "tensor"),
            f"{heads} query heads of {deployment.model.name} over {ranks} ranks leave "
            f"{heads % ranks} over",
            f"tensor sizes that fit: {_divisors(heads, 64)}",
        )


@rule("PAR103", "kv-heads-not-divisible", source="sglang 0.5.23: QKVParallelLinear")
def kv_heads_not_divisible(deployment: Deployment) -> Iterator[Finding]:
    """KV heads neither split evenly over the ranks nor replicate evenly on them.

    Bad:
        extends: muse-spark-open-gb300x8
        model: {overrides: {kv_heads: 6}}

    Good:
        extends: muse-spark-open-gb300x8
    """
    heads, ranks = deployment.model.kv_heads, _attention_tensor(deployment)
    latent = any(layer.kind == "mla" for layer in deployment.model.attention)
    if heads and not latent and heads % ranks and ranks % heads:
        yield Finding(
            ("topology", "tensor"),
            f"{heads} KV heads of {deployment.model.name} neither divide into {ranks} ranks nor "
            "replicate evenly on them",
            f"tensor sizes that fit: {_divisors(heads, 64)}, or a multiple of {heads}",
        )


@rule("PAR104", "kv-heads-replicated", severity="info", source="sglang 0.5.23: QKVParallelLinear")
def kv_heads_replicated(deployment: Deployment) -> Iterator[Finding]:
    """More ranks than KV heads: each head is stored more than once, and KV memory does not shrink.

    Bad:
        extends: muse-spark-open-gb300x8
        model: {overrides: {kv_heads: 2}}

    Good:
        extends: muse-spark-open-gb300x8
    """
    heads, ranks = deployment.model.kv_heads, _attention_tensor(deployment)
    latent = any(layer.kind == "mla" for layer in deployment.model.attention)
    if heads and not latent and ranks > heads and ranks % heads == 0:
        yield Finding(
            ("topology", "tensor"),
            f"{heads} KV heads on {ranks} ranks: each is stored {ranks // heads} times",
            f"KV memory per GPU is that of tensor {heads}; plan with it",
        )


@rule("PAR105", "experts-not-divisible", source="sglang 0.5.23: FusedMoE, num_experts % ep_size")
def experts_not_divisible(deployment: Deployment) -> Iterator[Finding]:
    """Routed experts cannot be split evenly over the expert parallel ranks.

    Bad:
        extends: muse-spark-open-gb300x8
        model: {overrides: {moe: {experts: 254}}}
        topology: {expert: 4}

    Good:
        extends: muse-spark-open-gb300x8
    """
    moe, expert = deployment.model.moe, deployment.profile.topology.expert
    if moe and moe.experts % expert:
        yield Finding(
            ("topology", "expert"),
            f"{moe.experts} experts over {expert} ranks leave {moe.experts % expert} over",
            f"expert sizes that fit: {_divisors(moe.experts, 64)}",
        )


@launch_rule(
    "PAR106",
    "expert-parallel-outside-the-tensor-group",
    source="sglang 0.5.9 to 0.5.23: parallel_state.py, moe_tp_size = tp // ep",
)
def expert_parallel_outside_the_tensor_group(launch: Launch) -> Iterator[Finding]:
    """The expert parallel size must divide the tensor parallel size: it lies inside that group.
    Ranks that are left over belong to no group, and the start fails there.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {expert: 8}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {expert: 1}

    Bad:
        sglang serve --model-path m --tp 8 --ep-size 3

    Good:
        sglang serve --model-path m --tp 8 --ep-size 4
    """
    option, expert = launch.option("ep-size"), launch.integer("ep-size")
    tensor = launch.integer("tp-size") if launch.on("tp-size") else 1
    # MOE105: with an exchange between ranks the engine sets the expert size itself.
    if launch.text("moe-a2a-backend") not in (None, "none"):
        return
    if option is None or not expert or not tensor or expert < 1 or tensor % expert == 0:
        return
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {expert} does not divide the tensor parallel size {tensor}",
        f"expert sizes that fit: {_divisors(tensor, 64)}",
    )


@rule(
    "PAR107", "expert-partition-splits-a-block", source="sglang 0.5.23: fp8.py, block-wise weights"
)
def expert_partition_splits_a_block(deployment: Deployment) -> Iterator[Finding]:
    """A rank's part of an expert is not a whole number of quantization blocks.

    Bad:
        extends: ling-3.0-flash-spark
        hardware: {gpus: 4}
        topology: {tensor: 4, expert: 1}

    Good:
        extends: ling-3.0-flash-spark
        hardware: {gpus: 4}
        topology: {tensor: 4, expert: 4}
    """
    moe, block = deployment.model.moe, deployment.model.quantization.block
    topology = deployment.profile.topology
    if not moe or not moe.intermediate_size or not block or topology.tensor % topology.expert:
        return
    ranks = topology.tensor // topology.expert
    if ranks > 1 and moe.intermediate_size % (ranks * block):
        part = moe.intermediate_size / ranks
        yield Finding(
            ("topology", "tensor"),
            f"expert width {moe.intermediate_size} over {ranks} ranks is {part:g}, not a multiple "
            f"of the quantization block {block}",
            f"set topology.expert to {topology.tensor}, or use a smaller tensor size",
        )


@rule("PAR108", "data-parallel-without-dp-attention", source="sglang issue 15385; server_args.py")
def data_parallel_without_dp_attention(deployment: Deployment) -> Iterator[Finding]:
    """`data` means data parallel attention inside the tensor group; without its flag the engine
    starts that many whole copies, and refuses that over several hosts.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}
        extra: {args: {enable-dp-attention: true}}
    """
    topology = deployment.profile.topology
    if topology.data > 1 and not deployment.arg("enable-dp-attention"):
        over = deployment.hosts_per_replica > 1
        effect = (
            f"over {deployment.hosts_per_replica} hosts the engine refuses it"
            if over
            else f"the engine would take {topology.data} x {topology.tensor} GPUs"
        )
        yield Finding(
            ("topology", "data"),
            f"data {topology.data} without --enable-dp-attention: {effect}",
            "set 'enable-dp-attention: true' in extra.args, or use replicas with a router",
        )


@launch_rule(
    "PAR109",
    "data-parallel-does-not-divide-tensor",
    source="sglang 0.5.5 to 0.5.23: assert tp_size % dp_size == 0",
)
def data_parallel_does_not_divide_tensor(launch: Launch) -> Iterator[Finding]:
    """Data parallel attention divides the tensor parallel group into equal parts.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {data: 3}
        extra: {args: {enable-dp-attention: true}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {data: 2}
        extra: {args: {enable-dp-attention: true}}

    Bad:
        sglang serve --model-path m --tp 8 --dp 3 --enable-dp-attention
    """
    name = "attn-dp-size" if launch.on("attn-dp-size") else "dp-size"
    shared = name == "attn-dp-size" or launch.on("enable-dp-attention")
    option, data = launch.option(name), launch.integer(name)
    tensor = launch.integer("tp-size") if launch.on("tp-size") else 1
    if option is None or not shared or not data or not tensor or data < 1 or tensor % data == 0:
        return
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {data} does not divide the tensor parallel size {tensor}",
        f"sizes that fit: {_divisors(tensor, 64)}",
    )
