"""How the ranks of a deployment share weights and caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment

_LARGEST, _DIGITS = 2**31 - 1, 20
Divided = Literal[
    "tensor", "expert", "attention", "kv", "vocabulary", "head", "dense", "replicated"
]
"""By what a class of weights is divided."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The sizes of one replica."""

    tensor: int = 1
    """All ranks of a pipeline stage."""
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    """Groups of data parallel attention, which divide the tensor parallel ranks; 1 without."""
    dense: int = 1
    """Ranks that share the dense MLPs."""
    vocabulary: int = 1
    """Ranks that share the embedding."""
    group_head: bool = False
    """Each group of data parallel attention has an LM head of its own; else all ranks share one."""

    @property
    def attention(self) -> int:
        """Ranks that share the heads of one request."""
        return max(1, self.tensor // self.data)

    def pieces(self, divided: Divided, kv_heads: int = 0) -> int:
        """Into how many pieces a class is divided over the ranks of a stage.

        Args:
            divided: by what.
            kv_heads: of `kv`: heads that there are; ranks beyond them hold copies.
        """
        if divided in ("tensor", "expert"):
            return self.tensor
        if divided == "attention":
            return self.attention
        if divided == "kv":
            return min(self.attention, max(1, kv_heads))
        if divided == "head":
            return self.vocabulary if self.group_head else self.tensor
        if divided == "vocabulary":
            return self.vocabulary
        return self.dense if divided == "dense" else 1


def size_of(value: object) -> int | None:
    """The whole number above zero that an argument has; None for anything else, among it what
    the engine's counters do not hold."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= _LARGEST else None


def groups_of(deployment: Deployment) -> int:
    """Groups of data parallel attention, each with caches of its own; 1 without."""
    asked = size_of(deployment.arg("attn-dp-size")) or 1
    if asked > 1:
        return asked
    attends = deployment.arg("enable-dp-attention") is True
    return deployment.profile.topology.data if attends else 1


def ranks_of(deployment: Deployment) -> Ranks:
    """The ranks of one replica.

    Source: SGLang 0.5.23, layers/vocab_parallel_embedding.py, layers/logits_processor.py,
    arguments of data parallel attention, `--moe-dense-tp-size`.
    """
    topology = deployment.profile.topology
    tensor = topology.tensor
    data = groups_of(deployment)
    dense = size_of(deployment.arg("moe-dense-tp-size"))
    return Ranks(
        tensor,
        topology.pipeline,
        topology.expert,
        data,
        dense or tensor,
        max(1, tensor // data),
        deployment.arg("enable-dp-lm-head") is True,
    )
