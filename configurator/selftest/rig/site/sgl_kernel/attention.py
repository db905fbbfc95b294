"""Attention over the engine's cache, one request at a time, in float32."""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, mask: Tensor, cap: float | None,
    sinks: Tensor | None,
) -> Tensor:  # fmt: skip
    """Attention of `query` [tokens, heads, dim] to `keys` and `values` [context, kv heads, dim].

    `mask` [tokens, context] is true where a token may look; `cap` bounds the scores, `sinks`
    [heads] take a share of the attention that goes nowhere.
    """
    groups = query.shape[1] // keys.shape[1]
    keys = keys.float().repeat_interleave(groups, 1)
    values = values.float().repeat_interleave(groups, 1)
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) * scaling
    if cap and cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~mask[None], float("-inf"))
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        sink = sinks.float().view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return torch.einsum("hqk,khd->qhd", weights, values)


def decode_attention_cpu(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, _key_scale: Any, _value_scale: Any,
    output: Tensor, key: Tensor | None, value: Tensor | None, slots: Tensor, _logits: Any,
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, scaling: float,
    cap: float | None, is_cross: bool, window: int | None, _encoder_lens: Any,
    sinks: Tensor | None,
) -> None:  # fmt: skip
    """One new token a request: store its key and value, then look at the whole sequence."""
    if key is not None and value is not None and not is_cross:
        key_cache[slots] = key.reshape(-1, *key_cache.shape[1:]).to(key_cache.dtype)
        if value_cache.data_ptr() != key_cache.data_ptr():
            shape = (-1, value_cache.shape[1], value_cache.shape[-1])
            value_cache[slots] = value.reshape(shape).to(value_cache.dtype)
    for row in range(seq_lens.numel()):
        length = int(seq_lens[row])
        places = req_to_token[int(req_pool_indices[row]), :length].long()
        mask = torch.ones(1, length, dtype=torch.bool)
        if window and window > 0:
            mask[:, : max(0, length - window)] = False
        seen = key_cache[places], value_cache[places]
        result = _attend(query[row : row + 1], *seen, scaling, mask, cap, sinks)
        output[row] = result[0].to(output.dtype)


def extend_attention_cpu(
    query: Tensor, key: Tensor | None, value: Tensor | None, output: Tensor, key_cache: Tensor,
    value_cache: Tensor, _key_scale: Any, _value_scale: Any, req_to_token: Tensor,
    req_pool_indices: Tensor, seq_lens: Tensor, extend_lens: Tensor, extend_start: Tensor,
    _longest: int, scaling: float, cap: float | None, _is_cross: bool, window: int | None,
    _encoder_lens: Any, sinks: Tensor | None, tree_mask: Tensor | None, causal: bool,
) -> None:  # fmt: skip
    """Several new tokens a request, after a prefix that is cached; drafts bring their mask.

    `tree_mask` holds one square of new tokens against new tokens for every request.
    """
    used = 0
    for row in range(seq_lens.numel()):
        length, new, start = int(seq_lens[row]), int(extend_lens[row]), int(extend_start[row])
        prefix = length - new
        places = req_to_token[int(req_pool_indices[row]), :length].long()
        keys, values = key_cache[places], value_cache[places]
        if key is not None and value is not None and key.dtype == key_cache.dtype:
            fresh_keys = key.reshape(-1, *key_cache.shape[1:])[start : start + new]
            fresh_values = value.reshape(-1, *value_cache.shape[1:])[start : start + new]
            keys = torch.cat([keys[:prefix], fresh_keys])
            values = torch.cat([values[:prefix], fresh_values])
        mask = _mask(prefix, length, causal, window)
        if tree_mask is not None:
            square = tree_mask.view(-1)[used : used + new * new].view(new, new).bool()
            used += new * new
            mask = torch.cat([torch.ones(new, prefix, dtype=torch.bool), square], 1)
        part = slice(start, start + new)
        result = _attend(query[part], keys, values, scaling, mask, cap, sinks)
        output[part] = result.to(output.dtype)


def _mask(prefix: int, length: int, causal: bool, window: int | None) -> Tensor:
    rows, columns = torch.arange(prefix, length)[:, None], torch.arange(length)[None]
    every = torch.ones(length - prefix, length, dtype=torch.bool)
    mask = columns <= rows if causal else every
    return mask & (columns > rows - window) if window and window > 0 else mask
