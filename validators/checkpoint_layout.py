"""How a checkpoint divides over GPUs: heads, experts, and blocks of quantized weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from configurator import Checkpoint, Finding, Launch, launch_rule

_LARGEST = 64
_SHOWN = 6
_PADDED_VISION = (
    "InternVL",
    "InternS",
    "Glm4v",
    "GlmOcr",
    "Glm5",
    "DotsOCR",
    "DotsVLM",
    "Qwen2_5_VL",
    "Mllama",
    "Llama4",
    "MiMoV",
)
"""Beginnings of architectures whose vision tower gets dummy heads until it divides."""
_UNBUILT_VISION = ("Gemma3ForConditional", "Llama4ForConditional", "Step3VLForConditional")
"""Architectures whose vision tower is built with --enable-multimodal only."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes of the groups that share a layer."""

    tensor: int
    data: int
    """Groups of data parallel attention; 1 without."""
    context: int
    asked_expert: int | None
    """None: as many as the tensor parallel size, as all-to-all backends make it."""
    expert_data: int
    dense: int | None
    """--moe-dense-tp-size."""

    @property
    def attention(self) -> int | None:
        """Ranks that share the heads; None when the sizes do not divide."""
        groups = self.data * self.context
        return self.tensor // groups if self.tensor % groups == 0 else None

    @property
    def expert(self) -> int:
        """Ranks that the experts are spread over."""
        return self.asked_expert or self.tensor

    @property
    def expert_tensor(self) -> int | None:
        """Ranks that share one expert; None when the sizes do not divide."""
        groups = self.expert * self.expert_data
        return self.tensor // groups if self.tensor % groups == 0 else None


def _size(launch: Launch, name: str, default: int = 1) -> int | None:
    """The size that a flag gives; None when it is known only where the launch runs."""
    if not launch.on(name):
        return default
    value = launch.integer(name)
    return value if value is not None and default <= value <= 4096 else None


def _layout(launch: Launch) -> _Layout | None:
    """None when a size is known only where the launch runs."""
    tensor, data = _size(launch, "tp-size"), _size(launch, "dp-size")
    context, dense = _size(launch, "attn-cp-size"), _size(launch, "moe-dense-tp-size", 0)
    expert, expert_data = _size(launch, "ep-size"), _size(launch, "moe-dp-size")
    if None in (tensor, data, context, expert, expert_data, dense):
        return None
    spread = launch.on("moe-a2a-backend") and launch.text("moe-a2a-backend") != "none"
    groups = data if launch.on("enable-dp-attention") else 1
    return _Layout(
        tensor or 1,
        groups or 1,
        context or 1,
        None if spread else expert,
        expert_data or 1,
        dense or None,
    )


def _heads_left(checkpoint: Checkpoint, layout: _Layout) -> int:
    heads, ranks = checkpoint.heads, layout.attention
    return heads % ranks if heads and ranks else 0


def _kv_heads_unfit(checkpoint: Checkpoint, layout: _Layout) -> bool:
    heads, ranks = checkpoint.kv_heads, layout.attention
    return bool(heads and ranks and heads % ranks and ranks % heads)


def _block_unfit(checkpoint: Checkpoint, width: int | None, ranks: int | None) -> bool:
    found = checkpoint.quantization
    if (
        found is None
        or found.block is None
        or found.method not in (None, "fp8")
        or not width
        or not ranks
    ):
        return False
    return bool(width % ranks) or any((width // ranks) % size for size in found.block)


def _dense_ranks(layout: _Layout) -> int:
    return layout.dense or layout.tensor


def _vision_left(checkpoint: Checkpoint, layout: _Layout) -> int:
    heads, ranks = checkpoint.vision_heads, layout.attention
    if (
        heads is None
        or not ranks
        or any(
            name.startswith((*_PADDED_VISION, *_UNBUILT_VISION))
            for name in checkpoint.architectures
        )
    ):
        return 0
    return heads % ranks


def _fits(checkpoint: Checkpoint, layout: _Layout) -> bool:
    """Everything that these rules look at divides."""
    return not (
        layout.attention is None
        or layout.expert_tensor is None
        or _heads_left(checkpoint, layout)
        or _kv_heads_unfit(checkpoint, layout)
        or _vision_left(checkpoint, layout)
        or _block_unfit(checkpoint, checkpoint.dense_size, _dense_ranks(layout))
        or _block_unfit(checkpoint, checkpoint.expert_size, layout.expert_tensor)
    )


def _remedy(checkpoint: Checkpoint, layout: _Layout) -> str:
    """The tensor parallel sizes with which the checkpoint divides, all else as it is."""
    sizes = range(1, _LARGEST + 1)
    fitting = [n for n in sizes if _fits(checkpoint, replace(layout, tensor=n))]
    alone = [n for n in sizes if _fits(checkpoint, _Layout(n, 1, 1, 1, 1, layout.dense))]
    if fitting:
        return f"use --tp-size {_named(fitting, layout.tensor)}"
    if alone:
        return f"use --tp-size {_named(alone, layout.tensor)} without other parallel sizes"
    return "use a checkpoint that is not quantized in blocks"


def _named(sizes: list[int], asked: int) -> str:
    """Sizes for a remedy: powers of two when one was asked for, and the nearest of many."""
    powers = [size for size in sizes if not size & (size - 1)]
    chosen = powers if not asked & (asked - 1) and len(powers) > 1 else sizes
    nearest = sorted(chosen, key=lambda size: abs(size - asked))[:_SHOWN]
    return ", ".join(map(str, sorted(nearest)))


def _place(launch: Launch, *names: str) -> tuple[str | int, ...]:
    option = next((o for o in map(launch.option, names) if o is not None), None)
    option = option or launch.option("model-path")
    return launch.path(option) if option else ("argv",)


@launch_rule(
    "CKPT141",
    "checkpoint-heads-not-divisible",
    source="sglang 0.5.23: total_num_heads % attn_tp_size == 0",
)
def checkpoint_heads_not_divisible(launch: Launch) -> Iterator[Finding]:
    """The query heads of the checkpoint cannot be split evenly over the ranks that share them.

    Bad:
        # config: {"num_attention_heads": 28, "num_key_value_heads": 4}
        sglang serve --model-path CHECKPOINT --tp-size 8

    Good:
        # config: {"num_attention_heads": 28, "num_key_value_heads": 4}
        sglang serve --model-path CHECKPOINT --tp-size 4
    """
    checkpoint, layout = launch.checkpoint, _layout(launch)
    if checkpoint is None or layout is None:
        return
    left = _heads_left(checkpoint, layout)
    if left:
        yield Finding(
            _place(launch, "tp-size"),
            f"{checkpoint.heads} attention heads in config.json over {layout.attention} ranks "
            f"leave {left} over",
            _remedy(checkpoint, layout),
        )


@launch_rule(
    "CKPT142",
    "checkpoint-kv-heads-not-divisible",
    source="sglang 0.5.23: layers/linear.py, QKVParallelLinear",
)
def checkpoint_kv_heads_not_divisible(launch: Launch) -> Iterator[Finding]:
    """The KV heads of the checkpoint neither split evenly over the ranks nor replicate on them.

    Latent attention (MLA) has none to split.

    Bad:
        # config: {"num_attention_heads": 24, "num_key_value_heads": 6}
        sglang serve --model-path CHECKPOINT --tp-size 4

    Good:
        # config: {"num_attention_heads": 24, "num_key_value_heads": 6}
        sglang serve --model-path CHECKPOINT --tp-size 12
    """
    checkpoint, layout = launch.checkpoint, _layout(launch)
    if checkpoint and layout and _kv_heads_unfit(checkpoint, layout):
        yield Finding(
            _place(launch, "tp-size"),
            f"{checkpoint.kv_heads} KV heads in config.json neither divide into "
            f"{layout.attention} ranks nor replicate evenly on them",
            _remedy(checkpoint, layout),
        )


@launch_rule(
    "CKPT143",
    "vision-heads-not-divisible",
    source="sglang 0.5.23: layers/attention/vision.py; gpustack issue 4769",
)
def vision_heads_not_divisible(launch: Launch) -> Iterator[Finding]:
    """The heads of the vision tower are split over the same ranks as those of the text model, and
    need not divide where those do.

    Silent for towers that the engine pads, and for those that it does not build.

    Bad:
        # config: {"vision_config": {"num_heads": 16}, "text_config": {"num_attention_heads": 48}}
        sglang serve --model-path CHECKPOINT --tp-size 6

    Good:
        # config: {"vision_config": {"num_heads": 16}, "text_config": {"num_attention_heads": 48}}
        sglang serve --model-path CHECKPOINT --tp-size 6 --mm-enable-dp-encoder
    """
    checkpoint, layout = launch.checkpoint, _layout(launch)
    if checkpoint is None or layout is None:
        return
    if launch.on("mm-enable-dp-encoder") or launch.on("language-only"):
        return
    left = _vision_left(checkpoint, layout)
    if left:
        yield Finding(
            _place(launch, "tp-size"),
            f"{checkpoint.vision_heads} heads of the vision tower over {layout.attention} ranks "
            f"leave {left} over",
            f"{_remedy(checkpoint, layout)}, or --mm-enable-dp-encoder",
        )


@launch_rule(
    "CKPT144",
    "checkpoint-experts-not-divisible",
    source="sglang 0.5.23: FusedMoE, num_experts % ep_size",
)
def checkpoint_experts_not_divisible(launch: Launch) -> Iterator[Finding]:
    """The routed experts of the checkpoint cannot be split evenly over the expert parallel ranks.

    Bad:
        # config: {"n_routed_experts": 60, "moe_intermediate_size": 1408}
        sglang serve --model-path CHECKPOINT --tp-size 8 --ep-size 8

    Good:
        # config: {"n_routed_experts": 60, "moe_intermediate_size": 1408}
        sglang serve --model-path CHECKPOINT --tp-size 8 --ep-size 4
    """
    checkpoint, layout = launch.checkpoint, _layout(launch)
    redundant = _size(launch, "ep-num-redundant-experts", 0)
    if checkpoint is None or layout is None or redundant is None or not checkpoint.experts:
        return
    experts = checkpoint.experts + redundant
    if layout.expert > 1 and experts % layout.expert:
        fitting = [n for n in range(1, layout.tensor + 1) if not (layout.tensor % n or experts % n)]
        yield Finding(
            _place(launch, "ep-size", "moe-a2a-backend"),
            f"{experts} experts over {layout.expert} expert parallel ranks leave "
            f"{experts % layout.expert} over",
            f"use --ep-size {', '.join(map(str, fitting))}",
        )


@launch_rule(
    "CKPT145",
    "dense-layer-splits-a-block",
    source="sglang 0.5.23: fp8.py, validate_block_quant_shapes; sglang issue 3448",
)
def dense_layer_splits_a_block(launch: Launch) -> Iterator[Finding]:
    """A rank's part of a dense MLP is not a whole number of blocks of the FP8 weights: 18432 over
    32 ranks is 576, and 576 is no multiple of 128.

    Bad:
        # config: {"intermediate_size": 18432, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        sglang serve --model-path CHECKPOINT --tp-size 32

    Good:
        # config: {"intermediate_size": 18432, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        sglang serve --model-path CHECKPOINT --tp-size 16
    """  # noqa: E501
    checkpoint, layout = launch.checkpoint, _layout(launch)
    if checkpoint is None or layout is None:
        return
    width, ranks = checkpoint.dense_size, _dense_ranks(layout)
    if width and _block_unfit(checkpoint, width, ranks):
        dense = ", or --moe-dense-tp-size 1" if checkpoint.experts else ""
        yield Finding(
            _place(launch, "tp-size"),
            f"intermediate_size {width} over {ranks} ranks is {width / ranks:g}, and "
            f"weight_block_size is {_block(checkpoint)}",
            _remedy(checkpoint, layout) + dense,
        )


@launch_rule(
    "CKPT146",
    "expert-splits-a-block",
    source="sglang 0.5.23: fp8.py, Fp8MoEMethod.create_weights; vllm pull 48173",
)
def expert_splits_a_block(launch: Launch) -> Iterator[Finding]:
    """A rank's part of an expert is not a whole number of blocks of the FP8 weights; with expert
    parallelism a rank holds whole experts.

    Bad:
        # config: {"num_local_experts": 256, "intermediate_size": 1536, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        sglang serve --model-path CHECKPOINT --tp-size 8

    Good:
        # config: {"num_local_experts": 256, "intermediate_size": 1536, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
        sglang serve --model-path CHECKPOINT --tp-size 8 --ep-size 8
    """  # noqa: E501
    checkpoint, layout = launch.checkpoint, _layout(launch)
    if checkpoint is None or layout is None:
        return
    width, ranks = checkpoint.expert_size, layout.expert_tensor
    if width and ranks and _block_unfit(checkpoint, width, ranks):
        whole = replace(layout, asked_expert=None, expert_data=1)
        wide = f"use --ep-size {layout.tensor}, or " if _fits(checkpoint, whole) else ""
        yield Finding(
            _place(launch, "tp-size"),
            f"expert width {width} over {ranks} ranks is {width / ranks:g}, and "
            f"weight_block_size is {_block(checkpoint)}",
            wide + _remedy(checkpoint, layout).removeprefix("use " if wide else ""),
        )


def _block(checkpoint: Checkpoint) -> str:
    found = checkpoint.quantization
    return " x ".join(map(str, found.block)) if found and found.block else ""
