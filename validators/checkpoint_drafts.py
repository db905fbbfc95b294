"""Drafts inside the target's checkpoint: MTP layers and DSpark blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from configurator import Checkpoint, Finding, Launch, before, launch_rule

_MTP_ALGORITHMS = ("NEXTN", "EAGLE")
_FUSED = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
}
"""Parts of a checkpoint and the layer that the engine makes of them."""
_DSPARK_SINCE = "0.5.16"
_FUSED_NAMES_SINCE = "0.5.21"
_ZERO_LAYERS_SINCE = "0.5.13"


def _algorithm(launch: Launch) -> str:
    return (launch.text("speculative-algorithm") or "").upper()


def _place(launch: Launch, name: str = "speculative-algorithm") -> tuple[str | int, ...]:
    option = launch.option(name) or launch.option("speculative-algorithm")
    return launch.path(option) if option else ("argv",)


def _drafts_from_target(launch: Launch) -> bool:
    """The draft is in the target's own checkpoint: no path is given, or the target's."""
    if not launch.on("speculative-draft-model-path"):
        return True
    path = launch.text("speculative-draft-model-path")
    if path is None or launch.checkpoint is None:
        return False
    return path == launch.model or Path(path) == launch.checkpoint.path


def _with_mtp(launch: Launch) -> Checkpoint | None:
    """The target's checkpoint when MTP layers in it are to draft."""
    asked = _algorithm(launch) in _MTP_ALGORITHMS and _drafts_from_target(launch)
    return launch.checkpoint if asked else None


def _dspark_draft(launch: Launch) -> Checkpoint | None:
    """The checkpoint whose block DSpark proposes; None when it is not on this machine."""
    if _algorithm(launch) != "DSPARK":
        return None
    return launch.checkpoint if _drafts_from_target(launch) else launch.draft


@launch_rule(
    "CKPT111",
    "draft-layers-not-in-checkpoint",
    source="vllm pull 35548; sglang 0.5.23: speculative_hook.py, the draft path of MTP models",
)
def draft_layers_not_in_checkpoint(launch: Launch) -> Iterator[Finding]:
    """MTP layers are to draft, and the checkpoint has no tensor of them: quantized copies often
    lose them and keep `num_nextn_predict_layers`. The draft runs on memory that nobody filled, and
    no token of it is accepted.

    Bad:
        # config: {"num_hidden_layers": 78, "num_nextn_predict_layers": 1}
        # tensors: model.layers.77.self_attn.q_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN

    Good:
        # config: {"num_hidden_layers": 78, "num_nextn_predict_layers": 1}
        # tensors: model.layers.77.self_attn.q_proj.weight model.layers.78.eh_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN
    """
    checkpoint = _with_mtp(launch)
    if checkpoint is None or not checkpoint.tensors or checkpoint.draft_tensors:
        return
    declared, layers = checkpoint.declared_draft_layers, checkpoint.layers
    named = launch.on("speculative-draft-model-path")
    if layers is None or checkpoint.dspark:
        return
    if declared or named or _algorithm(launch) == "NEXTN":
        promise = f", though config.json declares {declared} MTP layers" if declared else ""
        yield Finding(
            _place(launch),
            f"none of {len(checkpoint.tensors)} tensors of {checkpoint.path} is of an MTP layer "
            f"(mtp.*, or layers.{layers} and above){promise}",
            "use a checkpoint with its MTP layers, name a draft with "
            "--speculative-draft-model-path, or remove --speculative-algorithm",
        )


@launch_rule(
    "CKPT112",
    "fused-draft-layer-quantized",
    severity="warning",
    source="sglang issue 35797; sglang 0.5.20: qwen3_5_mtp.py has no packed_modules_mapping",
)
def fused_draft_layer_quantized(launch: Launch) -> Iterator[Finding]:
    """The checkpoint excludes the parts of an MTP layer from quantization one by one. Releases
    before 0.5.21 do not know that qkv_proj consists of them, build it quantized, and skip the
    weights with one line in the log: nothing is accepted.

    Bad:
        # engine: 0.5.17
        # config: {"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["mtp.layers.0.self_attn.q_proj"]}}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE

    Good:
        # engine: 0.5.17
        # config: {"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["re:mtp.*"]}}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE
    """  # noqa: E501
    checkpoint = _with_mtp(launch)
    found = checkpoint.quantization if checkpoint else None
    if found is None or found.method != "compressed-tensors":
        return
    if not before(launch.catalogue, _FUSED_NAMES_SINCE):
        return
    for entry in found.exclusions:
        module, _, part = entry.rpartition(".")
        fused = f"{module}.{_FUSED[part]}" if part in _FUSED else ""
        if entry.startswith("mtp.") and fused and found.excludes(fused) is False:
            yield Finding(
                _place(launch),
                f"quantization_config.ignore has {entry} but not {fused}, which the engine builds "
                "of it, quantizes, and leaves unfilled",
                rf"add 're:mtp\..*' to ignore in {checkpoint.path if checkpoint else ''}/"
                f"config.json, or use sglang {_FUSED_NAMES_SINCE}",
            )
            return


@launch_rule(
    "CKPT113",
    "draft-layer-in-quantized-group",
    source="sglang issue 38574; compressed_tensors.py: targets by class",
)
def draft_layer_in_quantized_group(launch: Launch) -> Iterator[Finding]:
    """A group of compressed-tensors quantizes every `Linear`, and the MTP layers are stored plain
    without being excluded: the engine finds no scheme for them, or builds them quantized.

    Bad:
        # config: {"quantization_config": {"config_groups": {"group_0": {"targets": ["Linear"]}}, "ignore": ["lm_head"]}}
        # tensors: mtp.layers.0.self_attn.q_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN

    Good:
        # config: {"quantization_config": {"config_groups": {"group_0": {"targets": ["Linear"]}}, "ignore": ["re:mtp.*"]}}
        # tensors: mtp.layers.0.self_attn.q_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN
    """  # noqa: E501
    checkpoint = _with_mtp(launch)
    found = checkpoint.quantization if checkpoint else None
    if checkpoint is None or found is None or "Linear" not in found.targets:
        return
    plain = [
        name.removesuffix(".weight")
        for name in checkpoint.draft_tensors
        if name.endswith(("_proj.weight", ".fc.weight")) and _plain(checkpoint, name)
    ]
    caught = [module for module in plain[:200] if found.excludes(module) is False]
    if caught:
        yield Finding(
            _place(launch),
            f"{caught[0]} is stored without scales ({len(caught)} layers of the draft are), and "
            "config_groups quantizes every Linear that ignore does not name",
            rf"add 're:mtp\..*' to quantization_config.ignore in {checkpoint.path}/config.json"
            if caught[0].startswith("mtp.")
            else f"add {caught[0]!r} and the others to quantization_config.ignore",
        )


def _plain(checkpoint: Checkpoint, name: str) -> bool:
    """A weight is stored as floats, with nothing beside it that quantized weights have."""
    if any(f"{name}{suffix}" in checkpoint.tensors for suffix in ("_scale", "_scale_inv")):
        return False
    return checkpoint.tensors[name].dtype in ("", "BF16", "F16", "F32")


@launch_rule(
    "CKPT114",
    "dspark-window-is-not-the-block-plus-one",
    source="sglang 0.5.17: speculative_hook.py, gamma + 1; vllm pull 41834",
)
def dspark_window_is_not_the_block_plus_one(launch: Launch) -> Iterator[Finding]:
    """DSpark verifies the block that its draft proposes and one token more; the engine refuses
    another window. A longer block than the draft was trained for drafts junk behind its end.

    Bad:
        # config: {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm DSPARK --speculative-num-draft-tokens 8

    Good:
        # config: {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm DSPARK --speculative-num-draft-tokens 6
    """  # noqa: E501
    draft = _dspark_draft(launch)
    block = draft.draft_block if draft else None
    if draft is None or block is None:
        return
    asked = launch.integer("speculative-dspark-block-size")
    window = launch.integer("speculative-num-draft-tokens")
    if launch.on("speculative-dspark-block-size"):
        if asked is not None and asked > block:
            yield Finding(
                _place(launch, "speculative-dspark-block-size"),
                f"a block of {asked} is asked of a draft that was trained with {block}",
                f"set --speculative-dspark-block-size {block}, or leave it out",
            )
    elif window is not None and window != block + 1:
        yield Finding(
            _place(launch, "speculative-num-draft-tokens"),
            f"a window of {window} is asked of a draft with a block of {block}; the engine wants "
            f"{block} + 1",
            f"set --speculative-num-draft-tokens {block + 1}, or leave it out",
        )


@launch_rule(
    "CKPT115",
    "dspark-checkpoint-drafted-as-mtp",
    severity="warning",
    source="sglang 0.5.17: dspark_config.py, checkpoint_bundles_dspark_draft; ktransformers 2118",
)
def dspark_checkpoint_drafted_as_mtp(launch: Launch) -> Iterator[Finding]:
    """The checkpoint brings a DSpark draft (dspark_* in its config) and is launched with EAGLE or
    NEXTN, which look for MTP layers: what is there under `mtp.` has another shape.

    Bad:
        # config: {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE

    Good:
        # config: {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm DSPARK
    """
    checkpoint = _with_mtp(launch)
    if checkpoint is None or not checkpoint.dspark:
        return
    old = before(launch.catalogue, _DSPARK_SINCE)
    engine = f"use sglang {_DSPARK_SINCE} or later, and " if old else ""
    yield Finding(
        _place(launch),
        f"config.json has {', '.join(sorted(checkpoint.dspark)[:3])}: the draft inside is DSpark, "
        f"not what {_algorithm(launch)} loads",
        f"{engine}set --speculative-algorithm DSPARK without a draft path, steps or top-k",
    )


@launch_rule(
    "CKPT116",
    "zero-draft-layers-taken-as-some",
    source="sglang pull 26726; sglang 0.5.12.post1 and 0.5.13: model_runner.py",
)
def zero_draft_layers_taken_as_some(launch: Launch) -> Iterator[Finding]:
    """The config of an EAGLE3 draft says `num_nextn_predict_layers: 0`. Releases before 0.5.13
    take the key as a promise of MTP layers, count none, and die at the first draft with an
    IndexError.

    Bad:
        # engine: 0.5.11
        # draft-config: {"architectures": ["LlamaForCausalLMEagle3"], "num_nextn_predict_layers": 0}
        sglang serve --model-path X --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT

    Good:
        # engine: 0.5.17
        # draft-config: {"architectures": ["LlamaForCausalLMEagle3"], "num_nextn_predict_layers": 0}
        sglang serve --model-path X --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT
    """  # noqa: E501
    draft = launch.draft
    if draft is None or draft.declared_draft_layers != 0 or _algorithm(launch) != "EAGLE3":
        return
    if before(launch.catalogue, _ZERO_LAYERS_SINCE):
        yield Finding(
            _place(launch, "speculative-draft-model-path"),
            "the draft's config.json has num_nextn_predict_layers 0, which this release counts as "
            "0 layers of KV memory",
            f"remove the key from {draft.path}/config.json, or use sglang {_ZERO_LAYERS_SINCE}",
        )
