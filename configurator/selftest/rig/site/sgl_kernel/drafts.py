"""Book-keeping of drafts: where their keys and values go, and which tokens are kept."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import ctypes
from typing import TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor


def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, stride: int
) -> None:
    """The last accepted token of every request, the one that the next drafts continue."""
    count = accept_lens.numel()
    places = torch.arange(count) * stride + accept_lens.long() - 1
    bonus_tokens[:count].copy_(accept_tokens.reshape(-1)[places].to(bonus_tokens.dtype))


def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accepted: Tensor
) -> None:
    """Cache slots of the accepted drafts; an index of -1 is none."""
    source = accept_index.reshape(-1)
    source = source[source > -1].long()
    accepted.view(-1)[: source.numel()] = out_cache_loc[source].to(accepted.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, seq_lens: Tensor, out_cache_loc: Tensor,
    _pool_len: int, topk: int, steps: int,
) -> None:  # fmt: skip
    """Cache slots of the drafts of every request, behind its sequence."""
    width = topk * steps
    for row in range(seq_lens.numel()):
        start = int(seq_lens[row])
        slots = req_to_token[int(req_pool_indices[row]), start : start + width]
        out_cache_loc[row * width : (row + 1) * width] = slots.to(out_cache_loc.dtype)


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor,
    out_cache_loc: Tensor, _pool_len: int,
) -> None:  # fmt: skip
    """Cache slots of the tokens from `start` to `end` of every request, one after another."""
    offset = 0
    for row in range(start.numel()):
        first, last = int(start[row]), int(end[row])
        slots = req_to_token[int(req_pool_indices[row]), first:last]
        out_cache_loc[offset : offset + last - first] = slots.to(out_cache_loc.dtype)
        offset += last - first


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor,
    out_cache_loc: Tensor, _pool_len: int,
) -> None:  # fmt: skip
    """The other way: write the slots into the table of every request."""
    offset = 0
    for row in range(start.numel()):
        first, last = int(start[row]), int(end[row])
        slots = out_cache_loc[offset : offset + last - first]
        req_to_token[int(req_pool_indices[row]), first:last] = slots.to(req_to_token.dtype)
        offset += last - first


def rotate_input_ids_cpu(
    input_ids: Tensor, extend_start_loc: Tensor, extend_seq_lens: Tensor, topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:  # fmt: skip
    """Shift every sequence by one and end it with its drafted token: the draft's own input."""
    for row in range(extend_seq_lens.numel()):
        start, length = int(extend_start_loc[row]), int(extend_seq_lens[row])
        if length <= 0:
            continue
        input_ids[start : start + length - 1] = input_ids[start + 1 : start + length].clone()
        last = start + length - 1 if select_index is None else int(select_index[row])
        input_ids[last] = topk_index.reshape(-1)[row].to(input_ids.dtype)


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, steps: int,
    _pool_len: int,
) -> Tensor:  # fmt: skip
    """One row of the slot table for every branch: the shared sequence, then its own drafts."""
    rows = []
    for row in range(seq_lens.numel()):
        start, source = int(seq_lens[row]), req_to_token[int(req_pool_indices[row])]
        for branch in range(topk):
            copy = source.clone()
            first = start + branch * steps
            copy[start : start + steps] = source[first : first + steps]
            rows.append(copy)
    return torch.stack(rows) if rows else req_to_token[:0].clone()


def copy_all_layer_kv_cache_cpu(
    pointers: Tensor, strides: Tensor, targets: Tensor, sources: Tensor
) -> None:
    """Move keys and values of accepted drafts; a layer is given by address and bytes a slot.

    All sources are read before anything is written: the two may overlap.
    """
    for base, stride in zip(pointers.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + slot * stride, stride) for slot in sources.tolist()]
        for slot, row in zip(targets.tolist(), rows, strict=True):
            ctypes.memmove(base + slot * stride, row, stride)
