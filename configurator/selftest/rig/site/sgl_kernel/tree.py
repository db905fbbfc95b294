"""The tree of drafts: its mask and links, and which of it the target accepts."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
FULL_MASK = 0
"""Mode in which a row of the mask also spans the tokens before the drafts."""


def _parent(selected: Sequence[int], parents: Sequence[int], slot: int, topk: int) -> int | None:
    """Slot of the parent of draft `slot`, 0 for the root; None when it was not selected."""
    step = selected[slot - 1] // topk
    if step == 0:
        return 0
    token = parents[step]
    return selected.index(token) + 1 if token in selected else None


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor, selected_index: Tensor, verified_seq_len: Tensor, tree_mask: Tensor,
    positions: Tensor, retrieve_index: Tensor, retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor, topk: int, depth: int, draft_tokens: int, mask_mode: int,
) -> None:  # fmt: skip
    """Fill mask, positions and links of the draft trees, in place.

    A tree has `draft_tokens` slots, slot 0 the verified token. `selected_index` names the drafts
    that are in the tree, `parent_list` the token that each step continues; links that lead
    nowhere stay -1.
    """
    width, batch = draft_tokens, verified_seq_len.numel()
    mask, place, index = tree_mask.view(-1), positions.view(-1), retrieve_index.view(-1)
    child, sibling = retrieve_next_token.view(-1), retrieve_next_sibling.view(-1)
    none: list[list[int]] = [[]] * batch
    every_parent = parent_list.reshape(batch, -1).tolist() if parent_list.numel() else none
    every_selected = selected_index.reshape(batch, -1).tolist()
    start = 0
    for row in range(batch):
        length, base = int(verified_seq_len[row]), row * width
        selected, parents = every_selected[row], every_parent[row]
        above = [None, *(_parent(selected, parents, slot, topk) for slot in range(1, width))]
        # From the back, so that of several children the first one ends up as the link.
        for slot in range(width - 1, 0, -1):
            index[base + slot] = base + slot
            parent = above[slot]
            if parent is not None:
                sibling[base + slot] = child[base + parent]
                child[base + parent] = slot
        index[base], place[base] = base, length
        for slot in range(width):
            first = (
                start + (length + width) * slot + length
                if int(mask_mode) == FULL_MASK
                else width * width * row + width * slot
            )
            _mark_ancestors(mask[first : first + width], above, slot, depth)
            place[base + slot] = length + _depth(above, slot, depth)
        start += (length + width) * width


def _mark_ancestors(row: Tensor, above: Sequence[int | None], slot: int, depth: int) -> None:
    """A draft sees the verified token, its ancestors and itself."""
    row[0] = True
    row[1:] = False
    for _ in range(depth):
        if not slot:
            return
        row[slot] = True
        slot = above[slot] or 0


def _depth(above: Sequence[int | None], slot: int, depth: int) -> int:
    steps = 0
    while slot and steps < depth:
        steps += 1
        slot = above[slot] or 0
    return steps


def verify_tree_greedy_cpu(
    predicts: Tensor, accept_index: Tensor, accept_token_num: Tensor, candidates: Tensor,
    retrive_index: Tensor, retrive_next_token: Tensor, retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:  # fmt: skip
    """Walk down every tree as long as a draft is what the target would say; filled in place.

    `accept_index` gets the slots of the accepted path, `accept_token_num` its length without the
    root, `predicts` the target's token at each of its slots. The engine passes these arguments by
    name, and spells three of them like this.
    """
    wanted = target_predict.reshape(-1)
    for row in range(candidates.shape[0]):
        last = int(retrive_index[row, 0])
        accept_index[row, 0] = last
        current, accepted = 0, 0
        for _ in range(1, accept_index.shape[1]):
            token = int(wanted[last])
            current = int(retrive_next_token[row, current])
            while current != -1 and int(candidates[row, current]) != token:
                current = int(retrive_next_sibling[row, current])
            if current == -1:
                break
            predicts[last] = token
            accepted += 1
            last = int(retrive_index[row, current])
            accept_index[row, accepted] = last
        accept_token_num[row] = accepted
        predicts[last] = int(wanted[last])
