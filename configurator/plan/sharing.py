"""How the ranks of a deployment share weights and caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment

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


def groups_of(deployment: Deployment) -> int:
    """Groups of data parallel attention, each with caches of its own; 1 without."""
    asked = deployment.arg("attn-dp-size")
    if isinstance(asked, str) and asked.isdecimal():
        asked = int(asked)
    if isinstance(asked, int) and not isinstance(asked, bool) and asked > 1:
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
    dense = deployment.arg("moe-dense-tp-size")
    return Ranks(
        tensor,
        topology.pipeline,
        topology.expert,
        data,
        dense if isinstance(dense, int) and not isinstance(dense, bool) else tensor,
        max(1, tensor // data),
        deployment.arg("enable-dp-lm-head") is True,
    )
