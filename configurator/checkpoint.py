"""Facts of a checkpoint on this machine: config.json, index and safetensors headers alone.

No weight is read, nothing of the checkpoint is executed, and the network is never used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from configurator.checkpoint_files import presentable, read_contents
from configurator.checkpoint_quantization import Quantization
from configurator.errors import Problem
from configurator.safetensors_header import Tensor

__all__ = ["Checkpoint", "Quantization", "Tensor", "read_checkpoint"]

_MOST_AUX_LAYERS = 1000
_BEYOND = 10**12
"""No size of a model is as large; a float holds every number below."""
_TOWERS = ("vision_config", "audio_config")
_TEXT_KEYS = ("thinker_config", "llm_config", "language_config", "text_config")
"""Where a multimodal config keeps its language model, in the engine's order."""
_LENGTH_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
"""In the order in which the engine looks for them."""
_EXPERT_KEYS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_EXPERT_SIZE_KEYS = ("moe_intermediate_size", "expert_intermediate_size")
_DECLARED_KEYS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_layers",
    "mtp_num_layers",
)
_AUX_KEYS = (
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_state_layer_ids",
    "target_layer_ids",
    "dspark_target_layer_ids",
)
_HEADS = ("lm_head", "language_model.lm_head", "model.lm_head", "head", "output")
_BEFORE = r"^(?:model\.|language_model\.|thinker\.)*"
_MTP = re.compile(r"(?:^|[._])(?:mtp|nextn)(?:[._]|$)")
_LAYER = re.compile(_BEFORE + r"layers\.(\d{1,6})\.")
_QUANTIZED_DTYPES = ("F8", "F6", "F4", "U8", "I8", "I32")
_SCALES = ("weight_scale", "weight_scale_inv", "weight_packed", "qweight", "scale", "scales")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint directory. A fact that the files do not tell is None."""

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    """config.json as it is; empty when there is none."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """By name; empty when neither an index nor a safetensors file is there."""
    files: tuple[str, ...] = ()
    """Names of the files in the directory."""
    missing_shards: tuple[str, ...] = ()
    """Shards that the index names and that are not there."""
    problems: tuple[Problem, ...] = ()
    """What could not be read, under the codes CKPT001 and CKPT002."""
    modelopt: dict[str, Any] = field(default_factory=dict)
    """hf_quant_config.json as it is."""
    indexed_bytes: int = 0
    """Bytes of all weights as the index says; 0 when it says nothing."""

    @cached_property
    def text(self) -> dict[str, Any]:
        """The language model's part of the config: nested, or the config itself."""
        found = self.config
        for _ in range(2):
            nested = (found.get(key) for key in _TEXT_KEYS)
            found = next((part for part in nested if isinstance(part, dict)), found)
        return found

    @property
    def architectures(self) -> tuple[str, ...]:
        """Class names of the model."""
        names = self.config.get("architectures")
        found = names if isinstance(names, list) else []
        return tuple(name for name in found if isinstance(name, str) and presentable(name))

    @cached_property
    def quantization(self) -> Quantization | None:
        """How the weights are quantized; None when the files name no way."""
        for part in (self.config, self.text):
            for key in ("quantization_config", "compression_config"):
                found = part.get(key)
                if isinstance(found, dict) and found:
                    return Quantization(found)
        found = self.modelopt.get("quantization")
        return Quantization(found) if isinstance(found, dict) and found else None

    def number(self, *keys: str) -> int | None:
        """The first of these config keys with a natural number, text part first."""
        for part in (self.text, self.config):
            for key in keys:
                value = part.get(key)
                if type(value) is int and 0 <= value < _BEYOND:
                    return value
        return None

    @property
    def layers(self) -> int | None:
        """Layers of the main model."""
        return self.number("num_hidden_layers")

    @property
    def hidden_size(self) -> int | None:
        """Width of the hidden states."""
        return self.number("hidden_size")

    @property
    def vocabulary(self) -> int | None:
        """Entries of the vocabulary."""
        return self.number("vocab_size")

    @property
    def heads(self) -> int | None:
        """Query heads."""
        return self.number("num_attention_heads")

    @property
    def kv_heads(self) -> int | None:
        """KV heads; None with latent attention, which has none to divide."""
        return None if self.latent_attention else self.number("num_key_value_heads")

    @property
    def latent_attention(self) -> bool:
        """Keys and values are kept as one latent vector (MLA)."""
        return bool(self.number("kv_lora_rank"))

    @property
    def vision_heads(self) -> int | None:
        """Heads of the vision tower; None without one."""
        part = self.config.get("vision_config")
        for key in ("num_heads", "num_attention_heads", "n_head"):
            value = part.get(key) if isinstance(part, dict) else None
            if type(value) is int and 0 < value < _BEYOND:
                return value
        return None

    @property
    def towers(self) -> tuple[str, ...]:
        """Keys of the config that describe vision and audio towers."""
        found = (self.config.get(key) for key in _TOWERS)
        return tuple(key for key, part in zip(_TOWERS, found, strict=True)
                     if isinstance(part, dict) and part)  # fmt: skip

    @property
    def intermediate_size(self) -> int | None:
        """Width of the dense MLP."""
        return self.number("intermediate_size")

    @property
    def dense_size(self) -> int | None:
        """Width of the dense MLP of a model that has one; None when all layers have experts."""
        if self.experts is None:
            return self.intermediate_size
        if self.number(*_EXPERT_SIZE_KEYS) is None:
            return None
        dense = self.number("first_k_dense_replace") or self.text.get("mlp_only_layers")
        return self.intermediate_size if dense else None

    @property
    def experts(self) -> int | None:
        """Routed experts; None for a dense model."""
        return self.number(*_EXPERT_KEYS) or None

    @property
    def expert_size(self) -> int | None:
        """Width of one expert; some configs of MoE models have only `intermediate_size`."""
        if self.experts is None:
            return None
        return self.number(*_EXPERT_SIZE_KEYS) or self.intermediate_size

    @property
    def declared_draft_layers(self) -> int | None:
        """MTP layers that the config promises; None when it says nothing, 0 when it says 0."""
        return self.number(*_DECLARED_KEYS)

    @cached_property
    def draft_tensors(self) -> tuple[str, ...]:
        """Names of MTP tensors that are there: with `mtp` in them, or of layers after the last."""
        after = self.layers
        return tuple(name for name in self.tensors if _is_draft(name, after))

    @property
    def dspark(self) -> dict[str, Any]:
        """The config's dspark_* keys."""
        return {
            key: value
            for part in (self.config, self.text)
            for key, value in part.items()
            if key.startswith("dspark_") and presentable(key)
        }

    @property
    def tied(self) -> bool | None:
        """The LM head is the embedding; None when the config leaves it to the model's class."""
        for part in (self.config, self.text):
            if isinstance(part.get("tie_word_embeddings"), bool):
                return bool(part["tie_word_embeddings"])
        return None

    @cached_property
    def head(self) -> Tensor | None:
        """The LM head's weight, as it is stored; None when no header or index shows it."""
        for name in _HEADS:
            for suffix in ("weight", "weight_packed", "qweight"):
                if f"{name}.{suffix}" in self.tensors:
                    return self.tensors[f"{name}.{suffix}"]
        return None

    @property
    def head_quantized(self) -> bool | None:
        """The LM head is stored quantized; None when nothing tells."""
        head = self.head
        if head is None:
            return None
        module = head.name.rpartition(".")[0]
        if any(f"{module}.{scale}" in self.tensors for scale in _SCALES):
            return True
        return head.dtype.startswith(_QUANTIZED_DTYPES) if head.dtype else None

    @property
    def head_excluded(self) -> bool | None:
        """The config excludes the LM head from quantization; None when it is not quantized."""
        module = self.head.name.rpartition(".")[0] if self.head else "lm_head"
        return self.quantization.excludes(module) if self.quantization else None

    @property
    def rope_scaling(self) -> dict[str, Any]:
        """How positions are stretched; empty when they are not."""
        for key in ("rope_scaling", "rope_parameters"):
            found = self.text.get(key)
            if isinstance(found, dict):
                return found
        return {}

    @property
    def context(self) -> int | None:
        """Tokens, as the engine derives them from the config."""
        for part in (self.text, self.config):
            for key in _LENGTH_KEYS:
                length = part.get(key)
                if type(length) is int and 0 < length < _BEYOND:
                    return int(length * self._stretch)
        return None

    @property
    def _stretch(self) -> float:
        scaling = self.rope_scaling
        kind = scaling.get("rope_type", scaling.get("type"))
        if "original_max_position_embeddings" in scaling or kind == "llama3":
            return 1.0
        factor = scaling.get("factor", 1)
        fits = isinstance(factor, int | float) and not isinstance(factor, bool)
        return float(factor) if fits and 1 <= factor < 10**6 else 1.0

    @property
    def aux_layers(self) -> tuple[int, ...] | None:
        """Layers of the target that a draft takes hidden states of; None when not named."""
        nested = [self.config.get(key) for key in ("eagle_config", "dflash_config")]
        for part in (self.config, *nested, self.text):
            for key in _AUX_KEYS:
                ids = part.get(key) if isinstance(part, dict) else None
                if not isinstance(ids, list) or not 0 < len(ids) <= _MOST_AUX_LAYERS:
                    continue
                if all(type(i) is int and abs(i) < _BEYOND for i in ids):
                    return tuple(ids)
        return None

    @property
    def draft_block(self) -> int | None:
        """Tokens that a DSpark or DFlash draft was trained to propose in one go."""
        block = self.number("dspark_block_size")
        for key in ("dspark_config", "dflash_config") if block is None else ():
            nested = self.config.get(key)
            value = nested.get("block_size") if isinstance(nested, dict) else None
            if type(value) is int and 0 < value < _BEYOND:
                return value
        return block or self.number("block_size") or None

    @property
    def target_hidden_size(self) -> int | None:
        """Width of the target's hidden states that a draft was made for."""
        return self.number("target_hidden_size")

    @property
    def draft_vocabulary(self) -> int | None:
        """Entries of a draft's own, smaller vocabulary."""
        return self.number("draft_vocab_size")

    def overridden(self, changes: dict[str, Any]) -> Checkpoint:
        """The same checkpoint under another config, as --json-model-override-args makes it."""
        return replace(self, config=self.config | changes)

    @property
    def size(self) -> int:
        """Bytes of all weights; 0 when no file tells."""
        return self.indexed_bytes or sum(tensor.size for tensor in self.tensors.values())


def _is_draft(name: str, layers: int | None) -> bool:
    if _MTP.search(name):
        return True
    found = _LAYER.match(name)
    return found is not None and layers is not None and int(found[1]) >= layers


def read_checkpoint(path: Path) -> Checkpoint:
    """The facts of the checkpoint in a directory.

    What cannot be read is in `problems`: a broken file hides its facts and no others.

    Raises:
        ConfiguratorError: CKPT001 when the path is no directory that can be listed.
    """
    found = read_contents(path)
    return Checkpoint(
        path,
        found.config,
        found.tensors,
        found.files,
        found.missing,
        tuple(found.problems),
        found.modelopt,
        found.indexed_bytes,
    )
