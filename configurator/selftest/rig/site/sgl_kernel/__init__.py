"""`sgl_kernel` in plain torch: what SGLang's CPU path of attention and drafts calls.

The engine has branches for CPUs that call ops by the name `*_cpu`; the package that holds them is
compiled for machines with AMX. Here each is written in torch, exact and slow, under the names and
with the arguments of SGLang 0.5.23. Whatever else is asked for can be imported and raises when it
is called, so that a missing op is seen by its name.

`convert_weight_packed` must stay absent from `torch.ops.sgl_kernel`: its presence makes the
engine believe that the machine has AMX.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from typing import Any

import torch

from .attention import decode_attention_cpu, extend_attention_cpu
from .drafts import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from .missing import Missing
from .tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
__version__ = "0.0.0+torch"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)


# The attention backend of CPUs takes these two from torch.ops, not from this package.
torch.ops.sgl_kernel.decode_attention_cpu = decode_attention_cpu
torch.ops.sgl_kernel.extend_attention_cpu = extend_attention_cpu

if not torch.cuda.is_available():
    # Several models synchronize unconditionally after they took over an embedding and a head.
    torch.cuda.synchronize = lambda *_args, **_options: None
