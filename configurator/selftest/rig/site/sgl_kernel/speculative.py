"""Tree indices for n-gram drafts."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from typing import Any

import torch

from .missing import Missing


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    batch_size: int,
    draft_tokens: int,
) -> None:
    """Fill positions and links of the draft trees of which only the masks are known.

    Row i of a mask marks the ancestors of draft i; the last ancestor is its parent. The outputs
    are filled in place, -1 where there is no child or sibling.
    """
    width = draft_tokens
    masks = tree_mask.view(-1)[: batch_size * width * width]
    masks = masks.view(batch_size, width, width).bool()
    place, index = positions.view(-1), retrieve_index.view(-1)
    child, sibling = retrieve_next_token.view(-1), retrieve_next_sibling.view(-1)
    for row in range(batch_size):
        above = torch.tril(masks[row], -1)
        parents = [
            max((j for j in range(i) if above[i, j]), default=-1) for i in range(width)
        ]  # fmt: skip
        for i in range(width):
            slot = row * width + i
            place[slot] = int(above[i].sum()) + int(verified_seq_len[row])
            index[slot] = slot
            child[slot] = min((k for k in range(i + 1, width) if above[k, i]), default=-1)
            same = (k for k in range(i + 1, width) if parents[k] == parents[i])
            sibling[slot] = min(same, default=-1) if parents[i] >= 0 else -1
